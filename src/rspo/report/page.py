"""The page of one run."""

import shlex
from collections.abc import Mapping, Sequence

from rspo.core.lines import POINTS
from rspo.report.animation import animations
from rspo.report.card import card
from rspo.report.diversity import cross_play, heatmaps, matrix, population
from rspo.report.drawings import Drawing, drawings, pictures_of
from rspo.report.learning import OFF
from rspo.report.reading import RunFolder
from rspo.report.render import embedded, render
from rspo.report.words import CITATION, budget, command, duration, fixed, flat
from rspo.text import counted

FOLDED = 8  # number of strategies above which the learning curves are folded
NO_BREAK = "\N{NO-BREAK SPACE}"
LEGEND = {
    "agent": "discs are agents, and lines the way they go from the small rings on",
    "goal": "grey discs are landmarks (a ring around those too small to see)",
    "monster": "the figure with eyes is the monster",
    "apple": "discs with a stem are apples",
    "light": "the star is the light",
    "enemy": "purple discs are enemies",
    "health": "green bars are hit points",
    "shield": "blue bars are shields",
    "shot": "orange lines are shots",
    "splash": "broad orange ones what they burn",
    "cliff": "the darkest ground is a cliff",
    "limb": "each limb has its colour, and the marks on the ground stay where they are",
}


def run_page(run: RunFolder, watched: str | None = None) -> str:
    """`report.html` as text; or, where `rspo watch` shows it, the page of this version."""
    shown = animations(run)
    counts = {item["index"]: len(item["episodes"]) for item in shown["strategies"]}
    filmed = {item["index"] for item in shown["strategies"] if "film" in item["episodes"][0]}
    cards = [
        card(run, one, counts.get(one.index, 0), shown["extent"], filmed=one.index in filmed)
        for one in run.strategies
    ]
    drawn = drawings(run)
    updates = max((len(strategy.rows) for strategy in run.strategies), default=0)
    return render(
        "report.html.j2",
        title=f"{run.config['env']}: {_found(run)}",
        watched=watched,
        run=run,
        folder=shlex.quote(str(run.path)),
        headline=headline(run),
        complete=len(run.strategies) == run.config["iterations"],
        strategies=cards,
        players=len(counts),
        pair=_pair(run, counts),
        missing=_missing(run, counts),
        trimmed=_trimmed(run, counts),
        legend=_legend(run),
        drawings=drawn,
        undrawn=_undrawn(run, drawn),
        folded=len(cards) > FOLDED,
        off_at=OFF,
        thinned=-(-updates // POINTS) if updates > POINTS else None,
        matrix=matrix(cards),
        crossplay=cross_play(run),
        diversity=population(run),
        heatmaps=heatmaps(run),
        took=duration(run.seconds),
        budget=budget(run),
        command=command(run),
        settings=list(flat(run.config)),
        sizes=list(flat(run.record["spec"])),
        citation=CITATION,
        data=embedded(shown),
    )


def headline(run: RunFolder) -> str:
    """What was found, in one sentence."""
    if not run.strategies:
        return f"No strategies for {run.config['env']} yet"
    time = duration(run.seconds)
    took = f" found in {time.replace(' ', NO_BREAK)}" if time is not None else ""
    best = max(run.strategies, key=lambda strategy: strategy.evaluation["return_mean"])
    returns = fixed(best.evaluation["return_mean"])
    return f"{_found(run)} for {run.config['env']}{took}; the best returns {returns} ({best.name})"


def _found(run: RunFolder) -> str:
    return counted(run.distinct, "distinct strategy", "distinct strategies")


def _pair(run: RunFolder, counts: Mapping[int, int]) -> list[int]:
    """The two that are initially side by side: distinct ones, if there are two."""
    novel = [
        strategy.index
        for strategy in run.strategies
        if strategy.status == "novel" and strategy.index in counts
    ]
    return [*novel, *(index for index in counts if index not in novel)][:2]


def _missing(run: RunFolder, counts: Mapping[int, int]) -> str:
    lacking = len(run.strategies) - len(counts)
    if not lacking:
        return ""
    whom = "any strategy" if not counts else f"{lacking} of the strategies"
    return (
        f"There are no recorded episodes of {whom} in this folder: it was written by a version of "
        "rspo that kept none. `rspo play` still shows them in the terminal."
    )


def _trimmed(run: RunFolder, counts: Mapping[int, int]) -> str:
    kept = sum(len(s.episodes["episodes"]) for s in run.strategies if s.episodes)
    shown = sum(counts.values())
    return (
        f"To stay small, this page shows {shown} of {counted(kept, 'recorded episode')}."
        if shown < kept
        else ""
    )


def _undrawn(run: RunFolder, drawn: Sequence[Drawing]) -> str:
    lacking = len(pictures_of(run)) - sum(len(one.sources) for one in drawn)
    return (
        f"To stay small, this page leaves out {counted(lacking, 'picture')} of the run folder."
        if lacking
        else ""
    )


def _legend(run: RunFolder) -> str:
    episodes = [episode for s in run.strategies if s.episodes for episode in s.episodes["episodes"]]
    roles = {role for episode in episodes for role, _ in episode.get("kinds", [])}
    roles |= {shape[0] for s in run.strategies if s.episodes for shape in s.episodes["backdrop"]}
    words = [words for role, words in LEGEND.items() if role in roles]
    if words:
        return f"In the drawings, {', '.join(words)}."
    if any("film" in episode for episode in episodes):
        return "The pictures are the environment's own, some moments of each episode."
    seen = [s for s in run.strategies if s.episodes and "0.obs" in s.arrays]
    if not seen or seen[0].episodes is None:
        return ""
    kept, observed = seen[0].arrays["0.obs"].shape[-1], seen[0].episodes["episodes"][0]["observed"]
    lanes = (
        f"the first {kept} of {observed} observed numbers"
        if kept < observed
        else "every observed number"
    )
    named = (seen[0].episodes.get("names") or {}).get("obs")
    first, then = ("", "") if named else (", o0 uppermost", ", a0 and so on")
    return (
        f"This environment has no drawing: the lanes show {lanes} over time{first}, and below them "
        f"what was done{then}, each between its least and its greatest value; one line per agent."
    )
