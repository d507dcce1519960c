"""rspo's training speed, compared with Stable-Baselines3 on the same game and with the cores' peak
arithmetic.

    pip install "rspo[bench]"
    python benchmarks/speed.py --out results/speed.json

Everything is measured in one run, interleaved and repeated; the machine should be idle. Takes
about five minutes on two cores. Writes all repetitions as JSON, and tables as Markdown beside it.
`--quick` only shows that it works.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import machine
import parity
from flops import FORMULA, update_flops_of
from output import command, say
from rspo_side import RspoSide
from sb3_side import KINDS, Sb3Side, Setup
from startup import cold_and_warm
from worker import Worker

from report import GAMES, markdown


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    repetitions: int = 7
    rspo_updates: int = 20
    sb3_updates: int = 2
    pilot_updates: int = 2
    references: tuple[int, ...] = tuple(range(8))
    envs: tuple[tuple[str, tuple[int, ...]], ...] = (
        ("dummy-usual", (16,)),
        ("dummy", (64, 512)),
        ("subproc", (2, 16, 64)),
        ("numpy", (128, 512, 2048)),
        ("numpy-terminate", (128, 512, 2048)),
    )
    threads: tuple[int, ...] = (1, 2)
    matrix: int = 3072
    starts: int = 3
    whole_iteration: bool = True


QUICK = Settings(
    repetitions=2,
    rspo_updates=2,
    sb3_updates=1,
    pilot_updates=1,
    references=(0, 6),
    envs=(
        ("dummy-usual", (16,)),
        ("dummy", (512,)),
        ("subproc", (16,)),
        ("numpy", (512,)),
        ("numpy-terminate", (512,)),
    ),
    threads=(1,),
    matrix=512,
    starts=1,
    whole_iteration=False,
)


def main() -> None:
    command("Measure the speed of training.", "results/speed.json", measure, markdown)


def measure(quick: bool) -> dict[str, Any]:
    start, settings = time.perf_counter(), QUICK if quick else Settings()
    data: dict[str, Any] = {"machine": machine.describe(), "settings": asdict(settings)}
    say("do the NumPy games play as rspo's does?")
    data["parity_episodes"] = parity.check()
    with Worker(RspoSide) as rspo, Worker(Sb3Side) as sb3:
        say("compiling")
        data["compile_seconds"] = {game: rspo("compile", game) for game in GAMES}
        data["pilot"] = list(pilot(settings, sb3))
        data["chosen"] = {kind: best(data["pilot"], kind) for kind in KINDS}
        sb3("close", *(Setup(*setup) for setup in data["chosen"].values()))
        rounds(settings, data, rspo, sb3)
        say("whole iterations")
        data["whole_iteration"] = {
            game: rspo("train", game, 0, whole(settings, game)) for game in GAMES
        }
    data["startup_seconds"] = list(starts(settings))
    data["flops_formula"] = FORMULA
    data["update_flops"] = {
        f"{game} {kept}": update_flops_of(game, kept) for game in GAMES for kept in (0, 6)
    }
    data["total_seconds"] = time.perf_counter() - start
    return data


def pilot(settings: Settings, sb3: Worker) -> Iterator[dict[str, Any]]:
    """Short trials of every setting that Stable-Baselines3 may benefit from."""
    setups = [
        Setup(GAMES[0], kind, n, k)
        for kind, counts in settings.envs
        for n in counts
        for k in settings.threads
    ]
    for i, setup in enumerate(setups, 1):
        trial = sb3("train", setup, settings.pilot_updates)
        say(
            f"trial {i}/{len(setups)}: {setup.kind}, {setup.envs} environments, {setup.threads} "
            f"threads: {pace(trial)}"
        )
        yield {"setup": setup, **trial}
        if i < len(setups) and setups[i][:3] != setup[:3]:
            sb3("close")  # idle processes still take memory


def best(trials: list[dict[str, Any]], kind: str) -> Setup:
    return max(
        (t for t in trials if t["setup"].kind == kind), key=lambda t: t["steps"] / t["seconds"]
    )["setup"]


def rounds(settings: Settings, data: dict[str, Any], rspo: Worker, sb3: Worker) -> None:
    """All contenders alternately; every second round in reverse, so that the order does not bias
    them."""
    ours = [(GAMES[0], kept) for kept in settings.references] + [
        (GAMES[1], kept) for kept in (0, 6)
    ]
    theirs = [setup._replace(env=game) for game in GAMES for setup in data["chosen"].values()]
    turns = [
        (f"rspo {game} {kept}", rspo, (game, kept, settings.rspo_updates)) for game, kept in ours
    ]
    turns += [
        (f"sb3 {setup.env} {setup.kind}", sb3, (setup, settings.sb3_updates)) for setup in theirs
    ]
    for _, contender, arguments in turns:
        contender("train", *arguments[:-1], 1)  # warm-up
    data["rounds"], data["peak_flops"] = [], {"jax": [], "numpy": []}
    for repetition in range(1, settings.repetitions + 1):
        for name, contender, arguments in turns if repetition % 2 else reversed(turns):
            result = contender("train", *arguments)
            data["rounds"].append({"name": name, "repetition": repetition, **result})
            say(f"repetition {repetition}/{settings.repetitions}: {name}: {pace(result)}")
        for library, values in data["peak_flops"].items():
            values.append(rspo("peak", library, settings.matrix))


def whole(settings: Settings, game: str) -> int:
    """Updates of one iteration: how long episodes live changes while a policy learns."""
    from rspo.presets import preset

    return preset(game).ppo.updates if settings.whole_iteration else settings.rspo_updates


def starts(settings: Settings) -> Iterator[dict[str, dict[str, float]]]:
    for i in range(1, settings.starts + 1):
        result = cold_and_warm(GAMES[0])
        say(
            f"start {i}/{settings.starts}: "
            + ", ".join(f"{k} {v['first_return']:.1f} s" for k, v in result.items())
        )
        yield result


def pace(result: dict[str, float]) -> str:
    return f"{result['steps'] / result['seconds']:,.0f} steps/s"


if __name__ == "__main__":
    main()
