"""What share of the raw physics rate training on MuJoCo's robots reaches, and how fast
Stable-Baselines3's PPO is.

    pip install "rspo[bench]" envpool
    python benchmarks/host_speed.py --envpool --out results/host-speed.json

Raw physics replays the same simulations step by step: the actions, seeds and falls of batches of
the policies at every third update, one process per core, without policy, rewards or the time of
resets. Training is measured in both ways of using all cores: one run on all of them, and one run
per core in parallel, as in `rspo bench`. With `--envpool` the stepper alone is also compared with
envpool's: 256 environments, random actions, including observations and rewards. Everything is
interleaved and repeated; the machine should be idle. `--quick` only shows that it works.
"""

import argparse
import os
import shlex
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import machine
import numpy as np
from output import publish, say
from worker import Worker

IDS = {
    "half-cheetah": "HalfCheetah-v5",
    "hopper": "Hopper-v5",
    "walker2d": "Walker2d-v5",
    "humanoid": "Humanoid-v5",
}
STEPPED = (256, 100)  # environments and steps of each, with random actions
# consecutive training updates: the first after something else is slower, and an iteration has
# hundreds
UPDATES = 15
AGAIN = range(
    1, UPDATES, 3
)  # updates whose simulations are replayed: robots that fall less take longer
# per turn: short alternating measurements, because the speed of a shared machine changes from
# second to second
ROUNDS = 2
SB3_UPDATES = 5  # each takes seconds

HEAD = """# Speed of training on MuJoCo's robots

Made by `{command}`; medians over all turns, ratios turn by turn. *physics*: the
engine's steps alone for batches of the policies at every third of 15 updates, a process a core, without policy, rewards
and resets; *collect*: playing such batches, on all cores; *rspo*: those 15 updates of training, collecting and
learning, from the start of an iteration, one run on all cores; *rspo, a run a core*: the same in runs side by side,
each on one core, their rates added up; these one after another, twice in a turn; *sb3*: five updates of
Stable-Baselines3's PPO with the same network, batch and normalisation, which goes on learning from turn to turn, one
environment an episode; *stepper* and *envpool*: 256 environments and random actions, with observations and rewards.

"""


class RspoRobot:
    """rspo's training on one robot and its raw physics, on the cores that this process may use."""

    def __init__(self, name: str) -> None:
        from rspo.core.devices import cores, use_cores
        from rspo.presets import preset
        from rspo.registry import make

        self.env, self.config = make(name), preset(name)
        self.episodes = self.config.episodes(self.env.spec)
        use_cores(players=cores())

    @cached_property
    def tools(self) -> Any:
        from rspo.rollout.collector import collector
        from rspo.search.loop import Tools

        return Tools(collector(self.env), self.config)

    @cached_property
    def start(self) -> tuple[Any, Any, Any]:
        """The start of an iteration: its state, the references and the key."""
        from rspo.search.archive import Archive
        from rspo.search.loop import keys

        nobody = Archive(self.config)
        state = self.tools.begin(nobody, 0, 1).state
        return state, self.tools.references(nobody), keys(self.config, 0, 1).train[None]

    @cached_property
    def advance(self) -> Any:
        from rspo.search.archive import Archive

        return self.tools.trainer_for(Archive(self.config)).advance

    @cached_property
    def policies(self) -> list[Any]:
        """The policies whose simulations are replayed."""
        from rspo.core.members import member

        (state, *rest), policies = self.start, []
        for update in range(UPDATES):
            policies += [member(state.policy, 0)] * (update in AGAIN)
            state = self.advance(state, *rest, 1)[0]
        return policies

    @cached_property
    def simulated(self) -> list[tuple[np.ndarray, np.ndarray, list[np.ndarray]]]:
        """Seeds, actions and falls of their batches."""
        return [self._simulated(number) for number in range(len(self.policies))]

    def train(self) -> dict[str, float]:
        """Environment steps per second of training, and of collecting alone."""
        batch, count = self.config.ppo.batch, len(self.policies)
        self._collect(0)  # finishes rollouts that training has started, here and below
        begun = time.perf_counter()
        for number in range(count):
            self._collect(number)
        collected = time.perf_counter()
        self.advance(*self.start, UPDATES)
        trained = time.perf_counter()
        self._collect(0)
        return {
            "collect": count * batch / (collected - begun),
            "rspo": UPDATES * batch / (trained - collected),
        }

    def physics(self) -> float:
        """Environment steps per second of the engine alone, on one thread, without the time of
        resets."""
        simulated, batch = self.simulated, self.env.batch(self.episodes)
        replay = lambda simulated: _replay(batch, self.env.robot.frame_skip, *simulated)
        replay(simulated[0])  # warm-up: the first call after something else is slower
        return len(simulated) * self.config.ppo.batch / sum(map(replay, simulated))

    def _collect(self, number: int) -> tuple[Any, Any]:
        """A batch of one of the policies, and its key."""
        import jax

        key = jax.random.fold_in(self.start[2][0], number)
        return self.tools.collect(self.policies[number], self.episodes, key, padding="restart"), key

    def _simulated(self, number: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        from rspo.rollout.host import episode_seeds

        played, key = self._collect(number)
        action = self.env.spec.action_space.to_env(played.action)[:, :, 0].astype(np.float64)
        fallen = [np.flatnonzero(row) for row in played.terminated]
        return episode_seeds(key, self.episodes), action, fallen

    def step(self, environments: int, steps: int) -> float:
        """Environment steps per second with random actions, on one thread per core."""
        threads = len(os.sched_getaffinity(0))
        share = environments // threads
        everyone, (low, high) = np.arange(share), self.env.spec.action_space
        action = np.random.default_rng(0).uniform(low, high, (steps, share, 1, len(low)))
        batches = [self.env.batch(share) for _ in range(threads)]
        for batch in batches:
            batch.reset(everyone, everyone)

        def play(batch: Any) -> None:
            for t in range(steps):
                if (fallen := np.flatnonzero(batch.step(everyone, action[t]).terminated)).size:
                    batch.reset(fallen, fallen + t)

        with ThreadPoolExecutor(threads) as pool:
            begun = time.perf_counter()
            list(pool.map(play, batches))
            return share * threads * steps / (time.perf_counter() - begun)


def _replay(
    batch: Any, nstep: int, seeds: np.ndarray, action: np.ndarray, fallen: list[np.ndarray]
) -> float:
    """Seconds of the engine's steps for these actions [T, N, D] and falls."""
    seeds = seeds.copy()
    batch.reset(np.arange(len(seeds)), seeds)
    ctrl, step, now = batch.ctrl, batch.engine.step, time.perf_counter
    resets, begun = 0.0, now()
    for row, again in zip(action, fallen, strict=True):
        ctrl[:] = row
        step(nstep=nstep)
        if again.size:
            stopped = now()
            seeds[again] += 1
            batch.reset(again, seeds[again])
            resets += now() - stopped
    return now() - begun - resets


class EnvpoolRobots:
    """envpool's stepper in asynchronous mode: half of the environments are returned while the
    others step."""

    def step(self, name: str, environments: int, steps: int) -> float:
        import envpool

        half = environments // 2
        pool = envpool.make_gymnasium(
            IDS[name],
            num_envs=environments,
            batch_size=half,
            num_threads=len(os.sched_getaffinity(0)),
            max_episode_steps=512,
        )
        space = pool.action_space
        action = np.random.default_rng(0).uniform(
            space.low, space.high, (2 * steps, half, *space.shape)
        )
        pool.async_reset()
        for _ in range(2):
            pool.send(action[0], pool.recv()[4]["env_id"])
        begun, made = time.perf_counter(), 0
        for t in range(2 * steps):
            about = pool.recv()[4]
            made += np.count_nonzero(
                about["elapsed_step"]
            )  # after a fall the next one is a reset, not a step
            pool.send(action[t], about["env_id"])
        return made / (time.perf_counter() - begun)


class Sb3Robots:
    """Stable-Baselines3's PPO with the same network, batch, epochs and normalisation."""

    def __init__(self) -> None:
        self.learners: dict[tuple[str, str], Any] = {}

    def train(self, name: str, kind: str, updates: int) -> float:
        from rspo.presets import preset

        batch = preset(name).ppo.batch
        if (name, kind) not in self.learners:
            self.learners[name, kind] = _learner(name, kind)
            self.learners[name, kind].learn(batch, log_interval=None)
        begun = time.perf_counter()
        self.learners[name, kind].learn(
            updates * batch, log_interval=None, reset_num_timesteps=False
        )
        return updates * batch / (time.perf_counter() - begun)


def _learner(name: str, kind: str) -> Any:
    import gymnasium
    from sb3_ppo import same_ppo
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

    from rspo.presets import preset
    from rspo.registry import make

    config = preset(name)
    makers = [lambda: gymnasium.make(IDS[name], max_episode_steps=512)] * config.episodes(
        make(name).spec
    )
    vector = DummyVecEnv(makers) if kind == "dummy" else SubprocVecEnv(makers, start_method="fork")
    return same_ppo(config.ppo, VecNormalize(vector, gamma=config.ppo.gamma))


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Measure the speed of training on MuJoCo's robots."
    )
    parser.add_argument(
        "--out", type=Path, default=Path("results/host-speed.json"), help="the JSON file to write"
    )
    parser.add_argument("--robots", nargs="+", default=list(IDS), choices=list(IDS))
    parser.add_argument(
        "--quick", action="store_true", help="one short turn: numbers without meaning"
    )
    parser.add_argument("--no-sb3", action="store_true", help="leave Stable-Baselines3 out")
    parser.add_argument("--turns", type=int, default=5, help="repetitions of everything")
    parser.add_argument(
        "--envpool", action="store_true", help="measure the stepper alone too, and envpool's"
    )
    options = parser.parse_args()
    turns, rounds = (1, 1) if options.quick else (options.turns, ROUNDS)
    data = measure(options.robots, turns, rounds, not options.no_sb3, options.envpool)
    data["command"] = shlex.join(["python", "benchmarks/host_speed.py", *sys.argv[1:]])
    publish(options.out, data, markdown(data))


def measure(
    robots: list[str], turns: int, rounds: int, with_sb3: bool, with_envpool: bool
) -> dict[str, Any]:
    packages = (*machine.OURS, "mujoco") + machine.PEERS * with_sb3 + ("envpool",) * with_envpool
    counts = {
        "rounds": rounds,
        "updates": UPDATES,
        "again": [*AGAIN],
        "sb3 updates": SB3_UPDATES,
        "stepped": STEPPED,
    }
    data: dict[str, Any] = (
        {"machine": machine.describe(packages)} | counts | {"rates": {name: [] for name in robots}}
    )
    with ExitStack() as stack:
        sb3, envpool = (stack.enter_context(Worker(one)) for one in (Sb3Robots, EnvpoolRobots))
        rspo = {name: stack.enter_context(Worker(partial(RspoRobot, name))) for name in robots}
        cores = sorted(os.sched_getaffinity(0))
        each = {
            name: [stack.enter_context(_on_core(core, name)) for core in cores] for name in robots
        }
        for turn in range(turns):
            for name in robots:
                say(f"turn {turn + 1}/{turns}: {name}")
                rates = _mean([_round(rspo[name], each[name]) for _ in range(rounds)])
                if with_sb3:
                    rates |= {
                        f"sb3 {kind}": sb3("train", name, kind, SB3_UPDATES)
                        for kind in ("dummy", "subproc")
                    }
                if with_envpool:
                    rates |= {
                        "stepper": rspo[name]("step", *STEPPED),
                        "envpool": envpool("step", name, *STEPPED),
                    }
                data["rates"][name].append(rates)
    return data


def _on_core(core: int, name: str) -> Worker:
    """Pinned to one core from its start, as `rspo bench` starts its jobs."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        return Worker(partial(RspoRobot, name))
    finally:
        os.sched_setaffinity(0, cores)


def _round(rspo: Worker, each: list[Worker]) -> dict[str, float]:
    """A short measurement of each: physics on all cores in parallel, one run on all cores, one run
    per core."""
    with ThreadPoolExecutor(len(each)) as pool:
        physics = sum(pool.map(lambda one: one("physics"), each))
        together = rspo("train")
        alone = sum(pool.map(lambda one: one("train")["rspo"], each))
    return {"physics": physics} | together | {"rspo, a run a core": alone}


def _mean(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The mean of rates over the same number of steps each."""
    return {what: statistics.harmonic_mean([one[what] for one in rounds]) for what in rounds[0]}


def markdown(data: dict[str, Any]) -> str:
    """Medians over the turns; shares and ratios are computed per turn, then their median."""
    columns = list(next(iter(data["rates"].values()))[0])
    pairs = [("rspo", c) for c in columns if c == "physics" or c.startswith("sb3")]
    pairs.insert(1, ("rspo, a run a core", "physics"))
    pairs += [("stepper", "envpool")] * ("envpool" in columns)
    head = [*(f"{c}, steps/s" for c in columns), *(f"{one} / {other}" for one, other in pairs)]
    lines = [
        f"{HEAD.format(command=data['command'])}{machine.sentence(data['machine'])}\n",
        f"| robot | {' | '.join(head)} |",
        f"|---|{'---:|' * len(head)}",
    ]
    for name, turns in data["rates"].items():
        middle = lambda value, turns=turns: statistics.median(map(value, turns))
        rates = [f"{middle(lambda t, c=c: t[c]):,.0f}" for c in columns]
        ratios = [
            f"{middle(lambda t, one=one, other=other: t[one] / t[other]):.2f}"
            for one, other in pairs
        ]
        lines.append(f"| {name} | {' | '.join(rates + ratios)} |")
    together = lambda one, turns: sum(1 / turn[one] for turn in turns)
    turns = list(zip(*data["rates"].values(), strict=True))
    ratios = [
        f"{statistics.median(together(b, t) / together(a, t) for t in turns):.2f}" for a, b in pairs
    ]
    lines.append(f"| a step of each | {' | '.join([' '] * len(columns) + ratios)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
