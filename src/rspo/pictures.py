"""The pictures of a finished run, by file name: cross-play, and what the environment draws of its strategies."""

from rspo import charts
from rspo.archive import Archive
from rspo.env import AnyEnv
from rspo.payoff import CrossPlay, name_of
from rspo.view import printable


def pictures(env: AnyEnv, archive: Archive, played: CrossPlay | None) -> dict[str, str]:
    """Each as SVG text."""
    named = {printable(name_of(strategy)): strategy.evaluation.stats for strategy in archive}
    drawn = dict(env.pictures(named))
    if played is not None:
        drawn["crossplay.svg"] = cross_play_picture(played)
    return drawn


def cross_play_picture(played: CrossPlay) -> str:
    names = [printable(name) for name in played.strategies]
    title = "Cross-play: what a strategy earns with another one"
    return charts.matrix(title, names, played.payoff, rows="own strategy", columns="strategy of the other agent")
