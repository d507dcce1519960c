"""The page that compares runs: methods or settings side by side, grouped over seeds."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rspo.core.axes import number
from rspo.core.lines import Chart, Line, chart
from rspo.errors import InputError
from rspo.report.reading import RunFolder
from rspo.report.render import render
from rspo.report.words import CITATION, command, duration, fixed, flat
from rspo.runs.manifest import identity

CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ only in their seed."""

    label: str
    colour: int
    runs: list[RunFolder]


def compare_page(runs: Sequence[RunFolder]) -> str:
    """The comparison as text."""
    _refuse_repetition(runs)
    envs = dict.fromkeys(run.config["env"] for run in runs)
    sections = [
        _section(env, _groups([run for run in runs if run.config["env"] == env])) for env in envs
    ]
    title = f"{len(runs)} runs compared: {', '.join(envs)}"
    return render(
        "comparison.html.j2",
        title=title,
        sections=sections,
        confidence=CONFIDENCE,
        citation=CITATION,
    )


def _refuse_repetition(runs: Sequence[RunFolder]) -> None:
    seen: dict[str, RunFolder] = {}
    for run in runs:
        twin = seen.setdefault(identity(run.record), run)
        if twin is not run:
            raise InputError(
                f"{twin.path} and {run.path} have the same settings and the same seed, so they are "
                "one run: give only one of them."
            )


def _groups(runs: Sequence[RunFolder]) -> list[Group]:
    """Runs by settings; each group is labelled by its method and the settings in which it differs
    from others of that method."""
    alike: dict[str, list[RunFolder]] = {}
    for run in runs:
        settings = {name: value for name, value in run.config.items() if name != "seed"}
        alike.setdefault(json.dumps(settings, sort_keys=True), []).append(run)
    members = [sorted(group, key=lambda run: run.config["seed"]) for group in alike.values()]
    return [Group(_label(group[0], members), i, group) for i, group in enumerate(members)]


def _label(run: RunFolder, members: Iterable[list[RunFolder]]) -> str:
    method = run.config["method"]["name"]
    same = [group for group in members if group[0].config["method"]["name"] == method]
    rivals = [dict(flat(group[0].config)) for group in same]
    own = {name: value for name, value in flat(run.config) if name != "seed"}
    apart = [
        f"{name} {value}"
        for name, value in own.items()
        if any(rival.get(name) != value for rival in rivals)
    ]
    return ", ".join([method, *apart])


def _section(env: str, groups: list[Group]) -> dict[str, Any]:
    return {
        "env": env,
        "found": _found(groups),
        "groups": [_summary(group) for group in groups],
        "runs": [_row(group, run) for group in groups for run in group.runs],
        "charts": _charts(groups),
    }


def _found(groups: Sequence[Group]) -> str:
    """The best method in one sentence; none, where the seeds do not separate them."""
    returns = {
        group: known
        for group in groups
        if (known := _known(best(run, "return_mean") for run in group.runs))
    }
    if not returns:
        return "No strategies yet."
    distinct = {group: [float(run.distinct) for run in group.runs] for group in groups}
    if len(groups) == 1:
        found, earned = (number(float(np.mean(of[groups[0]]))) for of in (distinct, returns))
        return (
            f"On average over seeds, {groups[0].label} finds {found} distinct strategies, and its "
            f"best return is {earned}."
        )
    said = [_leaders(distinct, "distinct strategies"), _leaders(returns, "the best return")]
    return f"On average over seeds, {', and '.join(said)}."


def _leaders(values: Mapping[Group, Sequence[float]], what: str) -> str:
    """The groups whose mean is not clearly below the greatest."""
    means = {group: float(np.mean(of)) for group, of in values.items()}
    top = values[max(means, key=lambda group: means[group])]
    level = [group for group, of in values.items() if not clearly_below(of, top)]
    shown = [f"{group.label} ({number(means[group])})" for group in level]
    if len(level) == 1:
        return f"{shown[0]} leads in {what}"
    names = f"{', '.join(shown[:-1])} and {shown[-1]}"
    return (
        f"no method stands out in {what}: {names}"
        if len(level) == len(values)
        else f"{names} lead in {what}, and the seeds do not separate them"
    )


def clearly_below(low: Sequence[float], high: Sequence[float]) -> bool:
    """Whether the mean of one sample is less than that of another by Welch's t-test (two-sided, at
    `CONFIDENCE`); single values say nothing about their spread."""
    if min(len(low), len(high)) < 2:
        return False
    first, second = (np.var(of, ddof=1) / len(of) for of in (low, high))
    difference = float(np.mean(high) - np.mean(low))
    if first + second == 0:
        return difference > 0
    freedom = (first + second) ** 2 / (first**2 / (len(low) - 1) + second**2 / (len(high) - 1))
    quantile = _quantile(float(freedom))
    return bool(difference > quantile * np.sqrt(first + second))


def _quantile(freedom: float) -> float:
    """Of Student's distribution, at `CONFIDENCE` on both sides."""
    from scipy.special import stdtrit  # here: it would delay the start of every run by 0.2 s

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def _summary(group: Group) -> dict[str, Any]:
    """One row of the table of methods."""
    seconds = [run.seconds for run in group.runs if run.seconds is not None]
    return {
        "label": group.label,
        "colour": group.colour,
        "seeds": ", ".join(str(run.config["seed"]) for run in group.runs),
        "distinct": _with_interval([run.distinct for run in group.runs]),
        "best": _with_interval([best(run, "return_mean") for run in group.runs]),
        "greedy": _with_interval([best(run, "greedy_return_mean") for run in group.runs]),
        "steps": f"{group.runs[0].steps_of_each * group.runs[0].config['iterations']:,}",
        "each": f"{group.runs[0].steps_of_each:,}",
        "took": duration(float(np.mean(seconds))) if seconds else "not recorded",
    }


def _row(group: Group, run: RunFolder) -> dict[str, Any]:
    """One row of the table of runs."""
    return {
        "label": group.label,
        "colour": group.colour,
        "seed": run.config["seed"],
        "folder": str(run.path),
        "done": f"{len(run.strategies)} of {run.config['iterations']}",
        "distinct": run.distinct,
        "names": ", ".join(s.name for s in run.strategies if s.status == "novel"),
        "best": fixed(best(run, "return_mean")) if run.strategies else "none yet",
        "command": command(run),
        "took": duration(run.seconds) or "not recorded",
    }


def best(run: RunFolder, name: str) -> float:
    """The greatest return of the run's strategies; NaN if there are none."""
    return max((strategy.evaluation[name] for strategy in run.strategies), default=np.nan)


def interval(values: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the leading axis and half the width of Student's confidence interval; 0 for a
    single value."""
    array = np.asarray(values, float)
    count = len(array)
    mean = array.mean(0)
    if count < 2:
        return mean, np.zeros_like(mean)
    quantile = _quantile(count - 1)
    return mean, quantile * array.std(0, ddof=1) / np.sqrt(count)


def _with_interval(values: Sequence[float]) -> str:
    known = _known(values)
    if not known:
        return "none yet"
    mean, half = interval(known)
    spread = f" ± {number(float(half))}" if len(known) > 1 else " (one seed)"
    lacking = f" ({len(known)} of {len(values)} seeds)" if len(known) < len(values) else ""
    return f"{number(float(mean))}{spread}{lacking}"


def _known(values: Iterable[float]) -> list[float]:
    """Without the values of runs that have no strategies yet."""
    return [value for value in values if np.isfinite(value)]


def _charts(groups: Sequence[Group]) -> list[Chart]:
    """The progress of each method, averaged over its seeds, as far as all of them got."""
    curves = (
        (
            "Distinct strategies",
            "iteration",
            lambda run: np.cumsum([s.status == "novel" for s in run.strategies]),
        ),
        ("Best return so far", "iteration", _best_so_far),
        ("Return in training", "update, of all rounds", _training_returns),
    )
    charts = []
    for title, x_label, curve in curves:
        begun = {group: [run for run in group.runs if run.strategies] for group in groups}
        drawn = {group: [curve(run) for run in runs] for group, runs in begun.items() if runs}
        every = np.concatenate([curve for of in drawn.values() for curve in of] or [np.zeros(1)])
        known = every[np.isfinite(every)]
        ends = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        lines = [_line(group, of, ends) for group, of in drawn.items()]
        charts.append(chart(title, lines, key=True, x_label=x_label, width=440, height=220))
    return [one for one in charts if not one.zero]


def _best_so_far(run: RunFolder) -> np.ndarray:
    return np.maximum.accumulate([s.evaluation["return_mean"] for s in run.strategies])


def _training_returns(run: RunFolder) -> np.ndarray:
    """The rounds one after the other; of policies that were trained together, the mean."""
    rounds: dict[int, list[list[float]]] = {}
    for strategy in run.strategies:
        rounds.setdefault(strategy.round, []).append([row["return"] for row in strategy.rows])
    together = (np.array([*zip(*of, strict=False)]).reshape(-1, len(of)) for of in rounds.values())
    return np.concatenate([table.mean(1) for table in together])


def _line(group: Group, curves: Sequence[np.ndarray], ends: tuple[float, float]) -> Line:
    """The mean and its interval, clipped to the range of the runs: few seeds make it wide."""
    length = min(len(curve) for curve in curves)
    mean, half = interval([curve[:length] for curve in curves])
    band = (
        (np.clip(mean - half, *ends), np.clip(mean + half, *ends))
        if len(curves) > 1
        else (None, None)
    )
    return Line(group.label, group.colour, np.arange(1, length + 1), mean, *band)
