"""Shows strategies in the terminal, or as a picture or film in a file."""

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rspo.core.types import Shape
from rspo.envs.base import AnyEnv
from rspo.errors import InputError
from rspo.screen import draw
from rspo.screen.draw import Episode
from rspo.search.archive import Strategy
from rspo.text import NAME, counted, printable

FILES = (".svg", ".gif", ".mp4")
USUAL = 8.0  # steps per second


def play(
    env: AnyEnv,
    strategies: Sequence[Strategy],
    path: Path | None = None,
    *,
    episodes: int = 1,
    seed: int = 0,
    greedy: bool = True,
    speed: float | None = None,
) -> str:
    """Show episodes of each strategy, by default at the environment's own pace; returns a sentence
    on what was written, if there is a file."""
    speed = (env.pace or USUAL) if speed is None else speed
    _check(path, episodes, seed, speed)
    if env.filmed and not env.drawable:
        _check_film(env, path)
    played = [draw.record(env, one, episodes, seed, greedy) for one in strategies]
    if path is None:
        for strategy, shown in zip(strategies, played, strict=True):
            for episode in shown:
                show(strategy, episode, speed if sys.stdout.isatty() else None, env.backdrop())
        return ""
    if path.suffix.lower() == ".svg":
        draw.save_svg(path, strategies, played)
        return f"Drew {counted(len(strategies), 'strategy', 'strategies')} into {path}"
    from rspo.screen.film import save_film

    titles = [printable(f"{s.index}: {s.descriptor or s.status}", NAME) for s in strategies]
    count = save_film(path, titles, played, env.backdrop(), speed)
    return f"Wrote {counted(count, 'moment')} to {path}"


def _check_film(env: AnyEnv, path: Path | None) -> None:
    if path is None or path.suffix.lower() == ".svg":
        raise InputError(
            f"{env.title} renders images, which neither a terminal nor --svg can show: use "
            "--gif FILE.gif or --mp4 FILE.mp4."
        )


def _check(path: Path | None, episodes: int, seed: int, speed: float) -> None:
    if path is not None and path.suffix.lower() not in FILES:
        raise InputError(
            f"The file is {str(path)!r}, but its name must end with {', '.join(FILES[:-1])} or "
            f"{FILES[-1]}."
        )
    if not 1 <= episodes <= 1000:
        raise InputError(f"episodes is {episodes}, but it must be from 1 to 1000.")
    if not 0 <= seed < 2**32:
        raise InputError(f"seed is {seed}, but it must be from 0 to {2**32 - 1}.")
    if not 0 < speed < math.inf:
        raise InputError(f"speed is {speed}, but it must be greater than 0, in steps per second.")


def show(
    strategy: Strategy, episode: Episode, speed: float | None, backdrop: Sequence[Shape] = ()
) -> None:
    """Animate an episode, or print its last moment where there is no terminal (`speed` None)."""
    title = printable(
        f"strategy {strategy.index} ({strategy.status}) {strategy.descriptor or ''}".rstrip(), NAME
    )
    frames = [draw.text(scene, backdrop) for scene in episode.scenes]
    for t, frame in enumerate(frames):
        last = t == len(frames) - 1
        if speed is None and not last:
            continue
        outcome = f", return {episode.reward:.2f}" if last else ""
        print(f"{title}: step {t}{outcome}\n{frame}")
        if speed is not None:
            time.sleep(1 / speed if not last else 1.0)
            if not last:
                print(f"\x1b[{frame.count(chr(10)) + 2}A", end="")  # back up, to draw over it
