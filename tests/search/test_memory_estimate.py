"""What a run would take is known before anything is allocated."""

import functools
import math
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import product
import rspo
from product import assert_refused, contents, here
from rspo.config import merge
from rspo.errors import InputError
from rspo.learn.trainer import make_trainer
from rspo.presets import preset
from rspo.registry import make
from rspo.rollout.collector import collector
from rspo.search import memory
from rspo.search.archive import Archive
from rspo.search.loop import kept_shapes, setup_of, training_shapes
from rspo.search.memory import Estimate, Memory, machine

GB = 10**9


# ---- what there is


def files(root: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MEMINFO = "MemTotal: 8000 kB\nMemFree: 100 kB\nMemAvailable: 5000 kB\nSwapTotal: 1000 kB\nSwapFree: 500 kB\n"
STAT = "anon 1\ninactive_file 1024000\n"


@pytest.mark.parametrize(
    ("texts", "total", "free"),
    [
        ({}, math.inf, math.inf),
        ({"proc/meminfo": MEMINFO}, 9000 * 1024, 5500 * 1024),
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "0::/box/inner\n",
                "sys/fs/cgroup/box/memory.max": "4096000\n",
                "sys/fs/cgroup/box/memory.current": "3072000\n",
                "sys/fs/cgroup/box/memory.stat": STAT,
                "sys/fs/cgroup/box/inner/memory.max": "max\n",
            },
            4000 * 1024,
            2000 * 1024,
        ),
        (
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "3:cpu,cpuacct:/a\n2:memory:/a\n",
                "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "2048000\n",
                "sys/fs/cgroup/memory/a/memory.usage_in_bytes": "1024000\n",
            },
            2000 * 1024,
            1000 * 1024,
        ),
        (  # a container that sees its own group as the outermost
            {
                "proc/meminfo": MEMINFO,
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.max": "4096000\n",
                "sys/fs/cgroup/memory.current": "0\n",
            },
            4000 * 1024,
            4000 * 1024,
        ),
    ],
)
def test_what_there_is(tmp_path: Path, texts: dict[str, str], total: float, free: float) -> None:
    assert machine(files(tmp_path, texts)) == Memory(total, free)


def test_this_machine_has_some() -> None:
    assert 10**8 < machine().free <= machine().total < math.inf


# ---- what is refused, what is said


def machine_of(monkeypatch: pytest.MonkeyPatch, total: float, free: float | None = None) -> None:
    monkeypatch.setattr(memory, "machine", lambda: Memory(total, total if free is None else free))


def value_in(words: str, name: str) -> int:
    return int(words.split(f"Try {name} ")[1].rstrip(".\n"))


@pytest.mark.parametrize(
    ("name", "value"),
    [("ppo.batch", 8_000_000), ("judge.episodes", 1_000_000), ("ppo.hidden", 10_000)],
)
def test_what_cannot_fit_is_refused_with_a_value_that_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: int
) -> None:
    machine_of(monkeypatch, GB)
    flags = ("discover", "four-goals-easy", "--out", tmp_path / "run", "--iterations", "1")
    outcome = here(*flags, f"--{name}", str(value))
    assert_refused(outcome, "This run would take about", "there is only 1 GB.", f"Try {name} ")
    assert contents(tmp_path) == {}
    env, less = make("four-goals-easy"), value_in(outcome.err, name)
    group, setting = name.split(".")
    settings = {"env": "four-goals-easy", "iterations": 1, group: {setting: less}}
    config = merge(preset("four-goals-easy", "rspo", env), settings, "")
    memory.check(env, config, pytest.fail)
    assert less < value <= 1000 * less


def test_a_value_that_is_named_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_of(monkeypatch, GB)
    ppo = {"minibatches": 6, "batch": 16 * 6 * 100_000}
    with pytest.raises(InputError) as refusal:
        rspo.discover("four-goals-easy", quiet=True, ppo=ppo)
    batch = value_in(str(refusal.value), "ppo.batch")
    rspo.config.validate(
        merge(preset("four-goals-easy", "rspo"), {"ppo": {**ppo, "batch": batch}}, ""),
        make("four-goals-easy").spec,
    )


@pytest.mark.slow
def test_what_takes_more_than_is_free_is_said_and_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine_of(monkeypatch, 64 * GB, GB // 100)
    outcome = here(*product.DISCOVER, "--iterations", "1", "--out", tmp_path / "run")
    assert outcome.code == 0
    assert "this run would take about 50" in outcome.err
    assert "only 10 MB is free. Lower ppo.batch, judge.episodes, ppo.hidden." in outcome.err


def test_where_the_system_does_not_tell_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_of(monkeypatch, math.inf)
    memory.check(make("four-goals-easy"), preset("four-goals-easy", "rspo"), pytest.fail)


def test_evaluating_is_about_episodes_alone(
    monkeypatch: pytest.MonkeyPatch, finished: Path
) -> None:
    machine_of(monkeypatch, GB)
    outcome = here("evaluate", finished, "--episodes", "1000000")
    assert_refused(outcome, "there is only 1 GB. Try judge.episodes ")


def test_resuming_on_a_smaller_machine(monkeypatch: pytest.MonkeyPatch, finished: Path) -> None:
    before = contents(finished)
    machine_of(monkeypatch, GB // 100)
    assert_refused(here("resume", finished), "there is only 10 MB.")
    assert contents(finished) == before


def test_host_environments_have_players(monkeypatch: pytest.MonkeyPatch) -> None:
    env, config = make("gym:CartPole-v1"), preset("gym:CartPole-v1", "rspo")
    machine_of(monkeypatch, GB // 20)
    with pytest.raises(InputError, match="would take about"):
        memory.check(env, config, pytest.fail)


# ---- how good the estimate is

ROUND = 1024 * 100
CASES = [
    ("four-goals-easy", {"ppo": {"batch": 160_000, "hidden": 256}}),  # cannot be cut into pieces
    ("four-goals-easy", {"iterations": 100, "ppo": {"batch": ROUND, "minibatches": 4}}),
    ("monster-hunt", {"ppo": {"batch": 512 * 50 * 8}}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_the_estimate_is_near_what_the_compiler_allocates(name: str, settings: dict) -> None:
    env = make(name)
    config = merge(preset(name, "rspo", env), {"env": name, **settings}, "")
    setup = setup_of(config, env.spec, config.iterations - 1)
    state, empty = (
        training_shapes(config, env.spec, config.iterations - 1),
        kept_shapes(config, env.spec),
    )
    room = lambda leaf: jax.ShapeDtypeStruct((setup.capacity, *leaf.shape[1:]), leaf.dtype)
    references = jax.tree.map(room, Archive(config).references(*empty))
    trainer = make_trainer(collector(env), config.method, config.ppo, config.measure, setup, 10)
    program = trainer.advance.lower(
        state, references, jax.random.split(jax.random.key(0), 1), 10
    ).compile()
    allocated = program.memory_analysis().temp_size_in_bytes * jax.device_count()
    estimate = memory.FLOAT * Estimate(env, config).training(config)
    assert 0.5 < estimate / allocated < 2


PEAK = """
import sys
import rspo
ppo = {"batch": int(sys.argv[1]), "updates": 1, "epochs": 1}
rspo.discover("four-goals-easy", quiet=True, iterations=1, ppo=ppo, judge={"episodes": int(sys.argv[2])})
# Not getrusage's: that is the peak of whoever started this process, if it was higher.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmHWM"].split()[0]) * 1024)
"""


@functools.cache
def peak(batch: int, episodes: int) -> float:
    command = [sys.executable, "-c", PEAK, str(batch), str(episodes)]
    for _ in range(2):  # the first one may compile, which takes memory too
        done = subprocess.run(
            command, capture_output=True, text=True, env=product.environment(), check=True
        )
    return float(done.stdout.split()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "episodes"), [(16 * 2**17, 64), (1024, 50_000)])
def test_the_estimate_is_near_what_a_run_really_takes(batch: int, episodes: int) -> None:
    """Its peak, beyond that of a small one."""
    peaks, estimates = [], []
    env = make("four-goals-easy")
    for sizes in ((1024, 64), (batch, episodes)):
        peaks.append(peak(*sizes))
        settings = {"iterations": 1, "ppo": {"batch": sizes[0]}, "judge": {"episodes": sizes[1]}}
        config = merge(preset("four-goals-easy", "rspo", env), settings, "")
        estimates.append(Estimate(env, config).bytes(config))
    assert 0.5 < (estimates[1] - estimates[0]) / (peaks[1] - peaks[0]) < 2, (peaks, estimates)
    assert 0.5 < estimates[1] / peaks[1] < 2, (peaks, estimates)
