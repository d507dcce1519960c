"""The pictures of a finished run, by file name: cross-play, and what the environment draws of its
strategies."""

from collections.abc import Callable, Mapping
from functools import cache

from rspo.config import Config
from rspo.core import charts, interrupt
from rspo.core.types import Played, Trajectory
from rspo.envs import decoration
from rspo.envs.base import AnyEnv
from rspo.rollout.base import Collector
from rspo.search.archive import Archive, Strategy
from rspo.search.crossplay import CrossPlay, name_of
from rspo.search.evaluation import greedy_episodes
from rspo.search.loop import evaluation_key
from rspo.text import NAME, printable


def strategies_played(
    collect: Collector, archive: Archive, say: Callable[[str], None]
) -> dict[str, Played]:
    """By number and name. Their episodes are played on first use, once, which `say` announces."""
    return {
        printable(name_of(one), NAME): _played(collect, archive.config, one, say) for one in archive
    }


def _played(
    collect: Collector, config: Config, strategy: Strategy, say: Callable[[str], None]
) -> Played:
    @cache
    def episodes() -> Trajectory:
        interrupt.check()
        say(f"playing strategy {strategy.index} once more, for its picture")
        return greedy_episodes(
            collect,
            strategy.policy,
            config.judge.episodes,
            config.ppo.padding,
            evaluation_key(config, strategy),
        )

    return Played(strategy.descriptor, strategy.evaluation.stats, episodes)


def pictures(
    env: AnyEnv, strategies: Mapping[str, Played], played: CrossPlay | None
) -> dict[str, str]:
    """Each as SVG text."""
    drawn = decoration.files(env, "pictures", lambda: env.pictures(strategies), ".svg")
    if played is not None:
        drawn["crossplay.svg"] = cross_play_picture(played)
    return drawn


def cross_play_picture(played: CrossPlay) -> str:
    names = [printable(name, NAME) for name in played.strategies]
    title = "Cross-play: what a strategy earns with another one"
    return charts.matrix(
        title, names, played.payoff, rows="own strategy", columns="strategy of the other agent"
    )
