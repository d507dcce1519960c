"""What a record keeps from a finished run besides its summary, by domain."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rspo.bench.naming import agreed_name
from rspo.bench.record import Record, steps_of_each
from rspo.config import to_dict
from rspo.envs.escalation_equilibria import examine
from rspo.registry import make
from rspo.report.reading import read_run
from rspo.rollout.collector import collector
from rspo.runs.run import Run, summary
from rspo.search.archive import Archive, Strategy
from rspo.search.diversity import PopulationDiversity, dvd_diversity
from rspo.search.population import authors_diversity_of, diversity_of

POINTS = 100  # of a learning curve
WIDER = math.sqrt(10)  # ten times the denominator, as in the paper's study of alpha


def measured(folder: Path, archive: Archive, domain: str) -> Record:
    """Settings, strategies and measures of a finished run."""
    config, found = archive.config, summary(archive)
    record = {
        "steps": steps_of_each(config),
        "seconds": read_run(folder).seconds,
        "config": to_dict(config),
        "distinct": found["distinct"],
        "strategies": found["strategies"],
    }
    return record | MEASURES.get(domain, _nothing)(folder, archive)


def _nothing(folder: Path, archive: Archive) -> Record:
    return {}


def _equilibria(folder: Path, archive: Archive) -> Record:
    """What each policy of Escalation earns with itself, and a best response against it; and the
    learning curve of the second one."""
    pairs = []
    for strategy in archive:
        act = lambda obs, policy=strategy.policy: np.exp(
            np.asarray(policy(obs).log_probs, np.float64)
        )
        pairs.append(examine(act)._asdict())
    return {"pairs": pairs, "second": _curve(folder, archive, 1)}


def _after_apple(folder: Path, archive: Archive) -> Record:
    """How many trajectories are accepted in the iteration after the first Apple policy."""
    strategies = summary(archive)["strategies"]
    apples = [policy["index"] for policy in strategies if agreed_name(policy) == "Apple"]
    following = apples[0] + 1 if apples else len(strategies)
    return {"after_apple": _curve(folder, archive, following)}


def _continuous(folder: Path, archive: Archive) -> Record:
    """Population Diversity of all policies, whatever their verdict, by every kernel; and the
    learning curve of the second one."""
    return {"second": _curve(folder, archive, 1), "diversity": _diversities(folder, archive)}


def _diversities(folder: Path, archive: Archive) -> Record:
    run, strategies, whose = Run.open(folder), list(archive), "all policies"
    if len(strategies) < 2:
        return {}
    with collector(make(archive.config.env)) as collect:
        authors = authors_diversity_of(collect, strategies, archive.config, whose)
    scores = {"authors": authors} | _on_states(run, strategies, whose)
    return {name: _compact(dataclasses.asdict(score)) for name, score in scores.items()}


def _on_states(
    run: Run, strategies: Sequence[Strategy], whose: str
) -> dict[str, PopulationDiversity]:
    """The actions of policies without memory in single states."""
    states = run.visited(strategies)
    if not states or any(one.policy.recurrent for one in strategies):
        return {}
    obs = np.concatenate(states).astype(np.float32)
    scores = {
        "p1": diversity_of(strategies, states, 1.0, whose),
        "wider": diversity_of(strategies, states, WIDER, whose),
    }
    seen = [one.policy(obs) for one in strategies]
    if all(hasattr(one, "mean") for one in seen):
        actions = np.stack([np.clip(np.asarray(one.mode()), -1, 1) for one in seen])
        source = f"sampled episodes of {whose}, equally many from each"
        scores["dvd"] = dvd_diversity(actions, length=1.0, source=source)
    return scores


def _compact(score: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in score.items() if name != "matrix"}


def _curve(folder: Path, archive: Archive, index: int) -> Record | None:
    """Training return and acceptance over environment steps of one iteration; None if it does not
    exist."""
    strategies = read_run(folder).strategies
    if index >= len(strategies):
        return None
    rows = strategies[index].rows
    size = -(-len(rows) // POINTS)
    pieces = [rows[i : i + size] for i in range(0, len(rows), size)]
    mean = lambda name: [
        round(float(np.mean([row.get(name, math.nan) for row in piece])), 6) for piece in pieces
    ]
    curve: Record = {
        "iteration": index + 1,
        "steps": [int(piece[-1]["update"]) * archive.config.ppo.batch for piece in pieces],
        "return": mean("return"),
    }
    if "accepted" in rows[0]:
        curve["accepted"] = mean("accepted")
    return curve


MEASURES: dict[str, Callable[[Path, Archive], Record]] = {
    "escalation": _equilibria,
    "monster-hunt": _after_apple,
    "mujoco": _continuous,
    "point": _continuous,
    "smac": _continuous,
}
