"""The page of one run."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from rspo.report.animation import animations
from rspo.report.charts import POINTS, Chart, Line, Mark, chart, fixed
from rspo.report.diversity import cross_play, heatmaps, matrix
from rspo.report.drawings import drawings
from rspo.report.reading import Found, RunFolder
from rspo.report.render import embedded, render

OFF = 0.95  # a switch counts as off from the update on after which no batch is accepted less than this
LONG = 0.05  # if that is not in this last part of an iteration
CITATION = """\
@inproceedings{zhou2022rspo,
  title     = {Continuously Discovering Novel Strategies via Reward-Switching Policy Optimization},
  author    = {Zihan Zhou and Wei Fu and Bingliang Zhang and Yi Wu},
  booktitle = {International Conference on Learning Representations},
  year      = {2022}
}"""
LEGEND = {
    "agent": "discs are agents",
    "goal": "grey discs are landmarks (a ring around those too small to see)",
    "monster": "the figure with eyes is the monster",
    "apple": "discs with a stem are apples",
    "light": "the star is the light",
    "limb": "each limb has its colour, and the marks on the ground stay where they are",
}


def run_page(run: RunFolder) -> str:
    """`report.html` as text."""
    shown = animations(run)
    counts = {item["index"]: len(item["episodes"]) for item in shown["strategies"]}
    cards = [_card(run, strategy, counts.get(strategy.index, 0)) for strategy in run.strategies]
    updates = max((len(strategy.rows) for strategy in run.strategies), default=0)
    return render(
        "report.html.j2",
        title=f"{run.config['env']}: {run.distinct} strategies",
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
        drawings=drawings(run),
        off_at=OFF,
        thinned=-(-updates // POINTS) if updates > POINTS else None,
        matrix=matrix(run, cards),
        crossplay=cross_play(run),
        diversity=[row for row in flat(run.extras.get("diversity", {})) if row[0] != "matrix"],
        heatmaps=heatmaps(run),
        took=duration(run.seconds),
        command=_command(run),
        settings=list(flat(run.config)),
        sizes=list(flat(run.record["spec"])),
        citation=CITATION,
        data=embedded(shown),
    )


def headline(run: RunFolder) -> str:
    """What was found, in one sentence."""
    if not run.strategies:
        return f"No strategies for {run.config['env']} yet"
    count = f"{run.distinct} distinct {'strategy' if run.distinct == 1 else 'strategies'} for {run.config['env']}"
    best = max(run.strategies, key=lambda strategy: strategy.evaluation["return_mean"])
    took = f", found in {duration(run.seconds)}" if run.seconds is not None else ""
    named = f" ({best.name})" if best.evaluation["descriptor"] else f" (strategy {best.index})"
    return f"{count}; the best returns {fixed(best.evaluation['return_mean'])}{named}{took}"


def duration(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def flat(group: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Settings by their full names."""
    for name, value in group.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", "none" if value is None else str(value)


def _card(run: RunFolder, strategy: Found, shown: int) -> dict[str, Any]:
    """A strategy as the template wants it."""
    found = strategy.evaluation
    sampled = found["sampled_descriptor"]
    return {
        "index": strategy.index,
        "name": strategy.name,
        "status": strategy.status,
        "attempt": strategy.attempt,
        "colour": strategy.index,
        "evaluation": found,
        "sampled_name": sampled if sampled != found["descriptor"] else None,
        "shown": shown,
        "picture": f"Animation of strategy {strategy.index}, {strategy.name}; the facts are in the text below it",
        "novelty": _novelty(run, strategy),
        "histogram": _histogram(strategy),
        "charts": _charts(run, strategy),
        "switches": _switches(run, strategy),
    }


def _novelty(run: RunFolder, strategy: Found) -> list[dict[str, Any]]:
    """What each earlier policy says about this one."""
    found = strategy.evaluation
    columns = (found["accepted_by"], found["distance"], found["threshold"])
    return [
        {
            "index": reference.index,
            "name": reference.name,
            "colour": reference.index,
            "accepted": accepted,
            "distance": distance,
            "threshold": threshold,
        }
        for reference, accepted, distance, threshold in zip(run.references(strategy), *columns, strict=True)
    ]


def _histogram(strategy: Found) -> list[tuple[str, float, str]] | None:
    """Shares of the actions, where there is no drawing that shows them."""
    if strategy.episodes is None or any("kinds" in episode for episode in strategy.episodes["episodes"]):
        return None
    shares = strategy.arrays["actions"]
    if shares.ndim == 1:
        return [(f"action {i}", float(share), f"{share:.0%}") for i, share in enumerate(shares)]
    middles = np.linspace(-1, 1, 2 * shares.shape[1] + 1)[1::2]
    means = shares @ middles
    return [(f"action {i}", float((mean + 1) / 2), f"mean {mean:.2f}") for i, mean in enumerate(means)]


def _charts(run: RunFolder, strategy: Found) -> list[Chart]:
    """Return, acceptance, intrinsic reward and entropy over the updates of an iteration."""
    rows, colour = strategy.rows, strategy.index
    x = np.array([row["update"] for row in rows])
    column = lambda name: np.array([row[name] for row in rows], float)  # noqa: E731
    one = lambda title, name: chart(title, [Line(title, colour, x, column(name))])  # noqa: E731
    charts = [one("Return", "return")]
    references = run.references(strategy)
    if references and rows and "accepted_by" in rows[0]:
        by = np.array([row["accepted_by"] for row in rows], float)
        lines = [
            Line(f"by {reference.index}: {reference.name}", reference.index, x, by[:, j])
            for j, reference in enumerate(references)
        ]
        charts.append(chart("Accepted, by each earlier policy", lines, _marks(run, strategy), (0.0, 1.0), key=True))
    if references and rows and "intrinsic" in rows[0]:
        charts.append(one("Intrinsic reward a step", "intrinsic"))
    return [*charts, one("Entropy", "entropy")] if rows and "entropy" in rows[0] else charts


def switched_off(accepted: np.ndarray) -> int | None:
    """The row from which acceptance stays at `OFF` or above, and for long enough to mean it; else None."""
    below = np.flatnonzero(accepted < OFF)
    first = int(below[-1]) + 1 if below.size else 0
    return first if len(accepted) - first >= max(1, LONG * len(accepted)) else None


def _moments(run: RunFolder, strategy: Found) -> list[tuple[Found, int | None]]:
    """For each reference the update at which its switch turned off, or None; while there was a filter at all."""
    rows = strategy.rows[: _filtered(run, strategy)]
    if not rows or "accepted_by" not in rows[0]:
        return []
    by = np.array([row["accepted_by"] for row in rows], float)
    moments = [switched_off(by[:, j]) for j in range(by.shape[1])]
    updates = [None if moment is None else int(rows[moment]["update"]) for moment in moments]
    return list(zip(run.references(strategy), updates, strict=True))


def _filtered(run: RunFolder, strategy: Found) -> int:
    """How many updates come before the filter is lifted."""
    updates = run.config["ppo"]["updates"]
    release = run.config["method"].get("release", 0.0)
    return sum((row["update"] - 1) / updates < 1 - release for row in strategy.rows)


def _marks(run: RunFolder, strategy: Found) -> list[Mark]:
    marks = [
        Mark(f"switch of {reference.index} off at update {update}", update, reference.index)
        for reference, update in _moments(run, strategy)
        if update is not None
    ]
    lifted = _filtered(run, strategy)
    if 0 < lifted < len(strategy.rows):
        marks.append(Mark(f"filter lifted at update {lifted + 1}", lifted + 1))
    return marks


def _switches(run: RunFolder, strategy: Found) -> str:
    """The same in words."""
    said = {None: "stayed on", 1: "never on"}
    words = [
        f"{reference.index} ({reference.name}) {said.get(update, f'off at update {update}')}"
        for reference, update in _moments(run, strategy)
    ]
    lifted = _filtered(run, strategy)
    lift = f" The filter was lifted at update {lifted + 1}." if words and lifted < len(strategy.rows) else ""
    return f"Switches: {', '.join(words)}.{lift}" if words else ""


def _pair(run: RunFolder, counts: Mapping[int, int]) -> list[int]:
    """The two that are side by side at first: distinct ones, if there are two."""
    novel = [strategy.index for strategy in run.strategies if strategy.status == "novel" and strategy.index in counts]
    return [*novel, *(index for index in counts if index not in novel)][:2]


def _missing(run: RunFolder, counts: Mapping[int, int]) -> str:
    lacking = len(run.strategies) - len(counts)
    if not lacking:
        return ""
    whom = "any strategy" if not counts else f"{lacking} of the strategies"
    return (
        f"There are no recorded episodes of {whom} in this folder: it was written by a version of rspo that kept none. "
        "`rspo play` still shows them in the terminal."
    )


def _trimmed(run: RunFolder, counts: Mapping[int, int]) -> str:
    kept = sum(len(s.episodes["episodes"]) for s in run.strategies if s.episodes)
    shown = sum(counts.values())
    return f"To stay small, this page shows {shown} of the {kept} recorded episodes." if shown < kept else ""


def _legend(run: RunFolder) -> str:
    episodes = [episode for s in run.strategies if s.episodes for episode in s.episodes["episodes"]]
    roles = {role for episode in episodes for role, _ in episode.get("kinds", [])}
    words = [words for role, words in LEGEND.items() if role in roles]
    if not words and any("observed" in episode for episode in episodes):
        words = ["this environment has no drawing: each lane is one observed number over time, below them the actions"]
    return f"In the drawings, {', '.join(words)}." if words else ""


def _command(run: RunFolder) -> str:
    """The command line, or the same from Python if there was none."""
    if run.record["command"] != "python":
        return run.record["command"]
    settings = {name: value for name, value in run.config.items() if name != "env"}
    words = ",\n    ".join(f"{name}={value!r}" for name, value in settings.items())
    head = "# from Python; an environment of your own goes in as an object, not by its name"
    return f"{head}\nrspo.discover(\n    {run.config['env']!r},\n    {words},\n)"
