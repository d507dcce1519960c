"""The speed benchmarks: their tables from hand-made numbers, and that our side of them runs."""

import itertools
import sys
from pathlib import Path
from typing import Any

import jax
import pytest

from handmade import cells
from rspo.config import merge
from rspo.presets import preset

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import games_report
import rspo_side
import skirmish_speed


def measured() -> dict[str, Any]:
    """Two repetitions of ten updates: 1 s each with no references, 2 s with 20 that reject, 1.5 if
    they accept."""
    rounds = []
    for game in games_report.GAMES:
        for repetition in (1, 2):
            rounds.append(
                {"name": f"rollout {game}", "repetition": repetition, "seconds": 5.0, "steps": 1000}
            )
            for kept, (kind, share) in itertools.product((0, 20), games_report.KINDS.items()):
                seconds = 10.0 + kept / 20 * (5 + 5 * share)
                name = f"train {game} {kept} {kind}"
                rounds.append(
                    {"name": name, "repetition": repetition, "seconds": seconds, "steps": 1000}
                )
    machine = {"cores": 2, "cpu": "chip", "load_before": 0.0, "versions": {"python": "3"}}
    settings = {"repetitions": 2, "updates": 10, "references": [0, 20]}
    seconds = dict.fromkeys(games_report.GAMES, 1.0)
    return {"machine": machine, "settings": settings, "compile_seconds": seconds, "rounds": rounds}


def test_the_speed_of_the_games() -> None:
    table = games_report.markdown(measured())
    assert cells(table, "monster-hunt", "rollout alone") == [
        ["monster-hunt", "rollout alone", "200 (200 to 200)"]
    ]
    ratios = (2.0, 1.75, 1.5)  # all, half and none of the references reject
    shown = [
        (f"{1e3 * r:.1f} ({1e3 * r:.1f} to {1e3 * r:.1f})", f"{r:.2f} ({r:.2f} to {r:.2f})")
        for r in ratios
    ]
    assert cells(table, "20")[0] == ["20", *itertools.chain(*shown)]
    config = preset("monster-hunt")
    for kind, most in (("all reject", 1.0), ("half reject", 0.75), ("all accept", 0.5)):
        expected = (
            sum(1 + most * k / 20 for k in range(config.iterations)) * config.ppo.updates / 60
        )
        assert games_report.whole_run_minutes(measured(), "monster-hunt", kind) == pytest.approx(
            expected
        )


@pytest.mark.slow
def test_our_side_of_the_speed_benchmarks_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        jax.config, "update", lambda *_: None
    )  # the tests keep their compiled programs
    side = rspo_side.RspoSide()
    assert side.compile("four-goals-easy", room=2) > 0
    assert side.rollout("four-goals-easy", 1)["steps"] == preset("four-goals-easy").ppo.batch
    assert side.train("four-goals-easy", kept=1, updates=1)["live"] > 0
    assert side.programs("four-goals-easy") == 1


@pytest.mark.slow
def test_our_side_of_the_skirmishes_speed_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"ppo": {"batch": 120, "minibatches": 1, "epochs": 1, "hidden": 4}}
    small = merge(preset("3m", "pg"), sizes, "test")
    monkeypatch.setattr("rspo.presets.preset", lambda *_: small)
    ours = skirmish_speed.Ours("3m", environments=2)
    assert ours.rollout() > 0
    assert ours.training(updates=1) > 0


def test_the_speed_of_the_skirmishes() -> None:
    """Medians; no peer where none was measured."""
    machine = {"cores": 2, "cpu": "chip", "load_before": 0.0, "versions": {"python": "3"}}
    rates = {"rollout": [300.0, 100.0, 200.0], "training": [5.0, 7.0, 6.0], "smax": [50.0]}
    maps = {"2m_vs_1z": rates, "2c_vs_64zg": rates | {"smax": []}}
    found = {"machine": machine, "maps": maps, "environments": 4, "peak_memory_gb": 1.0}
    table = skirmish_speed.markdown(found)
    assert cells(table, "2m_vs_1z") == [["2m_vs_1z", "200", "50 (2m_vs_1z)", "4.0", "6"]]
    assert cells(table, "2c_vs_64zg") == [["2c_vs_64zg", "200", "-", "-", "6"]]
