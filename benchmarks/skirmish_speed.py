"""Steps per second of the StarCraft skirmishes, beside SMAX on its nearest scenarios.

    python -m venv peers && peers/bin/pip install jaxmarl
    python benchmarks/skirmish_speed.py --smax-python peers/bin/python

JaxMARL pins its own versions, so it runs in its own virtual environment; contenders run
alternately, one at a time. A step is one environment step, whatever the number of units.
"""

import argparse
import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import machine
from output import publish, say

from rspo.core.devices import use_cores

PAIRS = {"2m_vs_1z": "2m_vs_1z", "2c_vs_64zg": "27m_vs_30m"}


class Ours:
    """Random masked play through the collector, and whole updates of training."""

    def __init__(self, env: str, environments: int) -> None:
        import jax

        from rspo.core.policies import uniform_policy
        from rspo.presets import preset
        from rspo.registry import make
        from rspo.rollout.collector import collector
        from rspo.search.archive import Archive
        from rspo.search.loop import Tools, keys

        self.environments, world = environments, make(env)
        self.horizon = world.spec.horizon
        collect = collector(world)
        random = uniform_policy(world.spec.action_space)

        @collect.program
        def play(key: Any) -> Any:
            played = collect(random, environments, key, padding="restart")
            return jax.tree.map(lambda leaf: leaf.sum(), (played.obs, played.reward))

        self.play, self.key, self.jax = play, jax.random.key(0), jax
        config = dataclasses.replace(preset(env, "pg"), iterations=1)
        self.batch = config.ppo.batch
        tools, archive = Tools(collect, config), Archive(config)
        position = tools.begin(archive, 0, attempt=1)
        references, own = tools.references(archive), keys(config, 0, 1).train[None]
        advance = tools.trainer_for(archive).advance
        self.learn = lambda count: advance(position.state, references, own, count)
        jax.block_until_ready((self.play(self.key), self.learn(1)))

    def rollout(self) -> float:
        start = time.perf_counter()
        self.jax.block_until_ready(self.play(self.key))
        return self.environments * self.horizon / (time.perf_counter() - start)

    def training(self, updates: int) -> float:
        start = time.perf_counter()
        self.jax.block_until_ready(self.learn(updates))
        return updates * self.batch / (time.perf_counter() - start)


class Smax:
    """The other side, in its own interpreter."""

    def __init__(self, python: str, scenario: str, environments: int, steps: int) -> None:
        script = str(Path(__file__).with_name("smax_side.py"))
        command = [python, script, scenario, str(environments), str(steps)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._line()

    def rollout(self) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write("again\n")
        self.process.stdin.flush()
        return float(self._line()["rate"])

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                return dict(json.loads(line))
        raise SystemExit("SMAX ended without an answer; does its interpreter have jaxmarl?")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def measure(python: str | None, environments: int, turns: int, updates: int) -> dict[str, Any]:
    use_cores()
    found: dict[str, Any] = {"machine": machine.describe(machine.OURS), "maps": {}}
    found["environments"] = environments
    for env, peer in PAIRS.items():
        say(f"{env}: compiling")
        ours = Ours(env, environments)
        smax = None if python is None else Smax(python, peer, environments, 100)
        rates: dict[str, list[float]] = {"rollout": [], "training": [], "smax": []}
        for turn in range(turns):
            say(f"{env}: turn {turn + 1} of {turns}")
            rates["rollout"].append(ours.rollout())
            rates["training"].append(ours.training(updates))
            if smax is not None:
                rates["smax"].append(smax.rollout())
        if smax is not None:
            smax.close()
        found["maps"][env] = rates
    # Kilobytes on Linux, bytes elsewhere.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found["peak_memory_gb"] = peak * (1024 if sys.platform == "linux" else 1) / 1e9
    return found


def markdown(found: dict[str, Any]) -> str:
    rows = []
    for env, rates in found["maps"].items():
        middle = {name: statistics.median(row) for name, row in rates.items() if row}
        smax, ratio = "-", "-"
        if "smax" in middle:
            smax = f"{middle['smax']:,.0f} ({PAIRS[env]})"
            ratio = f"{middle['rollout'] / middle['smax']:.1f}"
        rows.append(
            f"| {env} | {middle['rollout']:,.0f} | {smax} | {ratio} | {middle['training']:,.0f} |"
        )
    return "\n".join(
        [
            "# Speed of the skirmishes",
            "",
            "Made by `python benchmarks/skirmish_speed.py --smax-python PYTHON`: medians, in turns,",
            f"of random masked play in {found['environments']} environments, and of training with",
            "PPO, GRU policies and the preset's batch, in environment steps per second.",
            f"{machine.sentence(found['machine'])} Peak memory {found['peak_memory_gb']:.1f} GB.",
            "",
            "| map | rollout | SMAX's nearest scenario | times SMAX | training |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the skirmishes beside SMAX.")
    parser.add_argument("--smax-python", help="an interpreter that has jaxmarl; without it no SMAX")
    parser.add_argument("--environments", type=int, default=256)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results/skirmish-speed.json"))
    options = parser.parse_args()
    python = options.smax_python and os.path.abspath(options.smax_python)
    found = measure(python, options.environments, options.turns, options.updates)
    publish(options.out, found, markdown(found))


if __name__ == "__main__":
    main()
