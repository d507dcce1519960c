"""The real StarCraft II by SMAC or SMACv2: `smac:<map>`, such as `smac:2m_vs_1z`.

SMAC pins old versions of its own dependencies, so every game runs in a process whose interpreter
may be another one: RSPO_SMAC_PYTHON names it, RSPO_SMAC_MODULE the module that has
`StarCraft2Env`. A game that crashes is relaunched, and the episode is truncated there.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rspo.core.spaces import Discrete
from rspo.core.types import Descriptor, Spec, Trajectory, View
from rspo.envs.adapters import smac_server
from rspo.envs.base import HostEnv, HostStep, Instances
from rspo.errors import EnvironmentFailure, InputError
from rspo.registry import of_length
from rspo.text import shorten

PYTHON, MODULE, GAMES = "RSPO_SMAC_PYTHON", "RSPO_SMAC_MODULE", "RSPO_SMAC_GAMES"
AT_ONCE = 8  # games by default; each is a StarCraft II of its own
LAUNCHES = 3  # attempts per game before giving up
PATIENCE = 5.0  # seconds for a game to close before its process is killed
QUOTED = 300  # characters of a dead game's last line
MISSING = {
    "package": "needs SMAC, which {python} cannot import ({why}): install it from its repository, "
    "oxwhirl/smac (the package 'smac' on PyPI is another project), or name an "
    f"interpreter that has it in {PYTHON}.",
    "map": "cannot be made by SMAC ({why}): its maps belong in Maps/SMAC_Maps of the game's "
    "folder.",
    "game": "cannot launch StarCraft II ({why}): SC2PATH must name the game's folder, by default "
    "~/StarCraftII, and SMAC's maps must be in its Maps/SMAC_Maps.",
}


def from_map(name: str, horizon: int | None = None) -> "Smac":
    """The environment of `smac:<map>`; a map sets the length of its episodes itself."""
    if not name or not name.replace("_", "").isalnum():
        raise InputError(f"'smac:{name}' names no map: give one such as smac:2m_vs_1z.")
    return of_length(Smac(name), f"smac:{name}", horizon)


class GameDied(Exception):
    """The process of a game ended, or sent an unexpected message. The text is the last line that it
    wrote to its standard error, if any."""

    @property
    def quoted(self) -> str:
        """The end of a sentence."""
        return f"; the last line that it wrote is: {self}" if str(self) else "."


class Chatter:
    """What a process writes to its standard error, of which only the end is kept. A thread reads
    it: nothing reaches the screen, and the process never waits for a full pipe."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._end = pipe, b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while read := os.read(self._pipe, 1 << 16):
            self._end = (self._end + read)[-8 * QUOTED :]
        os.close(self._pipe)

    def last_line(self) -> str:
        """After the process has ended."""
        self._reader.join(1)  # seconds; StarCraft II may outlive its process and hold the pipe open
        lines = self._end.decode(errors="replace").splitlines()
        return shorten(next((line.strip() for line in reversed(lines) if line.strip()), ""), QUOTED)


class Game:
    """One game in its process."""

    def __init__(self, env: "Smac", seed: int) -> None:
        server = str(Path(smac_server.__file__))
        command = [env.python, server, env.map_name, str(seed), *env.modules]
        self.title, self.python = env.title, env.python
        source, sink = os.pipe()
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink
            )
        except OSError as error:
            os.close(source)
            raise InputError(
                f"{env.title} cannot run {env.python!r}: {error.strerror}. {PYTHON} must name a "
                "Python interpreter that has SMAC."
            ) from error
        finally:
            os.close(sink)
        self.chatter = Chatter(source)
        try:
            self.receive()
        except InputError:
            self.close()
            raise

    def send(self, **asked: Any) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(asked).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self.death() from error

    def receive(self) -> dict[str, Any]:
        """A message with its arrays."""
        pipe = self.process.stdout
        assert pipe is not None
        try:
            told = json.loads(pipe.readline())
            for name, kind, shape in told.pop("arrays"):
                count = int(np.prod(shape)) * np.dtype(kind).itemsize
                told[name] = np.frombuffer(pipe.read(count), kind).reshape(shape)
        except (ValueError, OSError) as error:
            raise self.death() from error
        if "missing" in told:
            sentence = MISSING[told["missing"]].format(python=self.python, why=told["why"])
            raise InputError(f"{self.title} {sentence}")
        return told

    def ask(self, **asked: Any) -> dict[str, Any]:
        self.send(**asked)
        return self.receive()

    def death(self) -> GameDied:
        self.close()
        return GameDied(self.chatter.last_line())

    def close(self) -> None:
        """Without its input the process closes StarCraft II, which would outlive it if it were
        killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):  # the other end is gone
            self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Smac(HostEnv):
    """Games of one map. Their randomness is StarCraft's own: rspo's seeds have no effect on it."""

    def __init__(self, map_name: str, python: str | None = None, module: str | None = None) -> None:
        self.map_name = map_name
        # Other processes can make it by name unless arguments override the environment variables.
        self.name = f"smac:{map_name}" if python is module is None else None
        self.python = python or os.environ.get(PYTHON) or sys.executable
        module = module or os.environ.get(MODULE)
        self.modules = (module,) if module else ()
        self.at_once = _at_once(os.environ.get(GAMES))
        self.build = 0  # of StarCraft II: unknown before the first reset
        try:
            probe = Game(self, seed=0)
            told = probe.ask(do="info")
            probe.close()
        except GameDied as error:
            raise InputError(
                f"{self.title} ended before it described itself{error.quoted}"
            ) from error
        self._spec = Spec(
            told["obs_shape"],
            Discrete(told["n_actions"]),
            told["episode_limit"],
            agents=told["n_agents"],
            state_size=told["state_shape"],
        )

    @property
    def title(self) -> str:
        return f"smac:{self.map_name}"

    @property
    def spec(self) -> Spec:
        return self._spec

    def batch(self, size: int) -> "Games":
        return Games(self, size)

    @property
    def most_lanes(self) -> int:
        """One batch of games, however many episodes and cores there are: games run in processes of
        their own anyway, and dozens of StarCraft II would fill the memory."""
        return self.at_once

    @property
    def settings(self) -> Mapping[str, Any]:
        """For maps without a preset: policies with memory, by the paper's rates for SMAC."""
        own = super().settings
        paper = {"memory": "gru", "layers": 1, "learning_rate": 5e-4, "gradient_clip": 10.0}
        return {**own, "ppo": own["ppo"] | paper, "judge": {"episodes": 32}}

    def describe(self, trajectory: Trajectory) -> Descriptor:
        """How many battles were won; SMAC reports nothing else. And the game's build, as results
        differ between them."""
        won = float(np.asarray(trajectory.state)[-1].mean())
        stats = {"won": won} | ({"game build": float(self.build)} if self.build else {})
        return Descriptor("wins" if won >= 0.5 else "loses", stats, clear=False)


class Games(Instances):
    """Several games, each in its own process; all of them step at the same time."""

    def __init__(self, env: Smac, size: int) -> None:
        self.env = env
        self.games: list[Game] = []
        for i in range(size):
            try:
                self.games.append(Game(env, seed=i))
            except GameDied as error:
                raise EnvironmentFailure(f"{env.title} died at its start{error.quoted}") from error
        self.won = np.zeros(size, bool)
        self.failures = np.zeros(size, int)

    def reset(self, which: np.ndarray, seeds: np.ndarray) -> View:
        self.won[which] = False
        told = self._answers(which, [{"do": "reset"}] * len(which))
        self.env.build = told[0].get("build", 0)
        return _views(told)

    def step(self, which: np.ndarray, action: np.ndarray) -> HostStep:
        told = self._answers(which, [{"do": "step", "actions": a.tolist()} for a in action])
        view = _views(told)
        reward = np.array([one.get("reward", 0.0) for one in told], np.float32)
        over = np.array([one.get("over", False) for one in told])
        # SMAC reports no result of the battle where it had to relaunch the game.
        cut = np.array(["battle_won" not in one.get("info", {}) for one in told])
        cut |= np.array(["episode_limit" in one.get("info", {}) for one in told])
        self.won[which] = [bool(one.get("info", {}).get("battle_won")) for one in told]
        agents = self.env.spec.agents
        alive = ~view.mask[..., 0]
        return HostStep(view, np.repeat(reward[:, None], agents, 1), over & ~cut, cut, alive=alive)

    def state(self) -> np.ndarray:
        """[size] whether the battle is won."""
        return self.won

    def __del__(self) -> None:
        for game in getattr(self, "games", ()):
            game.close()

    def _answers(self, which: np.ndarray, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Requests are sent to all games before the first answer is read."""
        heard = [self._heard(i, one) for i, one in zip(which, asked, strict=True)]
        return [self._answer(i, ok) for i, ok in zip(which, heard, strict=True)]

    def _heard(self, i: int, asked: dict[str, Any]) -> bool:
        try:
            self.games[i].send(**asked)
        except GameDied:
            return False
        return True

    def _answer(self, i: int, heard: bool) -> dict[str, Any]:
        """The answer; for a game that died, its successor's observation, without a battle
        result."""
        try:
            if heard:
                told = self.games[i].receive()
                self.failures[i] = 0
                return told
        except GameDied:
            pass
        return self._relaunched(i)

    def _relaunched(self, i: int) -> dict[str, Any]:
        """A new game in the place of one that died, at the start of an episode."""
        died = self.games[i].death()
        while True:
            self.failures[i] += 1
            if self.failures[i] > LAUNCHES:
                raise EnvironmentFailure(
                    f"{self.env.title} died {LAUNCHES} times in a row and is not launched again"
                    f"{died.quoted}"
                )
            try:
                self.games[i] = Game(self.env, seed=i)
                return self.games[i].ask(do="reset")
            except GameDied as again:
                died = again


def _at_once(given: str | None) -> int:
    if not given:
        return AT_ONCE
    if not given.isdecimal() or int(given) < 1:
        raise InputError(f"{GAMES} is {given!r}, but it must be a whole number of games from 1 on.")
    return int(given)


def _views(told: list[dict[str, Any]]) -> View:
    obs, mask = (np.stack([one[name] for one in told]) for name in ("obs", "mask"))
    state = np.stack([one["state"] for one in told])
    shared = np.broadcast_to(state[:, None], (*obs.shape[:2], state.shape[-1]))
    return View(obs, mask, np.ascontiguousarray(shared))
