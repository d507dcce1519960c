"""Planar robots played by compiled code: policy and physics by turns in one call, on all cores, without Python.

`robot_player.c` is compiled when rspo is installed, where there is a compiler. Elsewhere the same robots are played by
`rspo.play`, only slower. Their actions round otherwise, so a run goes on as it began, with compiled code or without.
"""

import ctypes
import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rspo import interrupt, native
from rspo.actor import Plain, draw
from rspo.distributions import Noise
from rspo.errors import RspoError
from rspo.host import HostEnv
from rspo.play import Ensemble, Record, Stopped
from rspo.policy import CLIP_OBS
from rspo.types import Box, Padding, Spec

if TYPE_CHECKING:
    from rspo.envs.mujoco import Planar

STEPS = 64  # of one robot at a time: a few milliseconds, so that no core waits long for the others at the end


def plays(env: Any) -> bool:
    """Whether compiled code plays this environment from now on."""
    return isinstance(env, HostEnv) and env.compiled_play and native.wanted() and why_not() is None


def missing_for(env: Any) -> str | None:
    """Why no compiled code plays this environment, which it could; None if it does, or never would."""
    return why_not() if isinstance(env, HostEnv) and env.compiled_play else None


@cache
def why_not() -> str | None:
    """What is missing for compiled play, and what helps, in words; None if nothing is. Loads MuJoCo."""
    try:
        _player()
    except ImportError as error:
        return str(error)
    try:
        _engine()
    except (ImportError, OSError, AttributeError) as error:
        return f"this MuJoCo has no batches for other programs ({error})"
    return None


_Address = ctypes.c_void_p
_Int = ctypes.c_int


class _Layer(ctypes.Structure):
    _fields_ = (("inputs", _Int), ("outputs", _Int), ("weight", _Address), ("bias", _Address))


class _Task(ctypes.Structure):
    _fields_ = (
        *((name, _Address) for name in ("step", "get_state", "set_state")),
        *((name, _Int) for name in ("seen", "driven", "size", "actions", "frame_skip", "layers")),
        *((name, _Address) for name in ("layer", "mean", "deviation")),
        ("clip", ctypes.c_float),
        *((name, _Address) for name in ("low", "high", "middle", "half")),
        *((name, _Address * 2) for name in ("healthy", "shown")),
    )


class _Robot(ctypes.Structure):
    _fields_ = (
        ("task", _Address),
        *((name, _Int) for name in ("episodes", "t", "until", "fallen")),
        *((name, _Address) for name in ("obs", "action", "added", "way", "states")),
        ("scratch", _Address * 2),
        *((name, _Address) for name in ("state", "ctrl")),
    )


class _Config(ctypes.Structure):
    """The engine's mjBatchConfig, and room for what later versions may add."""

    _fields_ = (("nthread", _Int), ("persistent", ctypes.c_bool), ("rest", ctypes.c_char * 256))


@cache
def _player() -> Any:
    """The address of the compiled function."""
    library = native.library("_robot_player", (_Layer, _Task, _Robot))
    return ctypes.cast(library.rspo_play, _Address).value


@cache
def _engine() -> Any:
    """The engine's own library: its functions for other programs than Python."""
    import mujoco
    from mujoco import _batch

    engine = ctypes.CDLL(_batch.__file__)  # what is asked of it is looked for in the engine that it is linked with too
    for name, result, arguments in (
        ("mjb_defaultConfig", None, (_Address,)),
        ("mjb_makeBatch", _Address, (_Address, _Int, _Address, ctypes.c_char_p, _Int)),
        ("mjb_deleteBatch", None, (_Address,)),
        ("mjb_state", _Address, (_Address,)),
        ("mjb_apply", _Int, (_Address, _Address, _Int, _Address, _Address, _Int)),
        ("mjb_error", ctypes.c_char_p, (_Address, _Int)),
    ):
        function = getattr(engine, name)
        function.restype, function.argtypes = result, arguments
    _ = engine.mj_step, engine.mj_getState, engine.mj_setState, mujoco.MjModel._address  # or say so now, not in a run
    return engine


class _Simulation:
    """Of one robot at a time, whichever it is: what is left of one is a row of numbers."""

    def __init__(self, model: Any, starts: "Planar") -> None:
        self.engine, self.starts = _engine(), starts
        said = ctypes.create_string_buffer(1000)
        config = _Config()
        self.engine.mjb_defaultConfig(ctypes.byref(config))
        config.nthread, config.persistent = 1, True
        self.batch = self.engine.mjb_makeBatch(model._address, 1, ctypes.byref(config), said, len(said))
        if not self.batch:
            raise RspoError(f"MuJoCo cannot simulate this robot: {said.value.decode(errors='replace')}")
        memory = ctypes.cast(self.engine.mjb_state(self.batch), ctypes.POINTER(ctypes.c_double))
        self.state = np.ctypeslib.as_array(memory, starts.engine.state.shape[1:])

    def __del__(self) -> None:
        if getattr(self, "batch", None):
            self.engine.mjb_deleteBatch(self.batch)

    def start(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The engine's state and the observation [A, O] that an episode of this seed begins with."""
        obs = self.starts.reset(np.zeros(1, int), np.array([seed]))[0]
        return self.starts.engine.state[0].copy(), obs

    def play(self, robot: _Robot, state: np.ndarray) -> None:
        """As far as the record says, from a state that is then the last one."""
        self.state[:] = state
        if self.engine.mjb_apply(self.batch, None, 1, _player(), ctypes.byref(robot), 1):
            raise RuntimeError(f"MuJoCo failed: {self.engine.mjb_error(self.batch, 0).decode(errors='replace')}")
        state[:] = self.state


class Robots(Ensemble):
    """A thread for each of some simulations; while they play, Python's lock is free. `field` is where many episodes
    begin at once, `starts` are where single robots begin again."""

    def __init__(self, spec: Spec, model: Any, field: "Planar", starts: Sequence["Planar"]) -> None:
        self.spec, self.field, self.lock = spec, field, threading.Lock()
        self.free: queue.SimpleQueue[_Simulation] = queue.SimpleQueue()
        for one in starts:
            self.free.put(_Simulation(model, one))
        self.threads, self.closed = len(starts), threading.Event()
        self.pool = ThreadPoolExecutor(self.threads, "rspo-robots")

    def begin(
        self, policy: Plain, noise: Noise, seeds: np.ndarray, *, greedy: bool, padding: Padding, record: bool
    ) -> Callable[[], Record]:
        with self.lock:
            batch = _Batch(self.spec, self.field, policy, None if greedy else noise, seeds, padding, record)
        workers = [self.pool.submit(self._work, batch) for _ in range(min(self.threads, len(seeds)))]
        return lambda: self._finish(batch, workers)

    def _work(self, batch: "_Batch") -> None:
        """Whoever is free goes on with the episode that has waited longest."""
        simulation = self.free.get()  # at once: there is one for every thread
        try:
            while (episode := batch.next()) is not None:
                if batch.stopped.is_set() or self.closed.is_set():
                    raise Stopped
                if episode.go_on(simulation):
                    batch.waiting.append(episode)
        finally:
            self.free.put(simulation)

    def _finish(self, batch: "_Batch", workers: list[Future[None]]) -> Record:
        try:
            interrupt.results(workers)
        except BaseException:  # Ctrl-C, or one failed: do not play the others to the horizon
            batch.stopped.set()
            raise
        return batch.record()

    def close(self) -> None:
        self.closed.set()
        self.pool.shutdown()  # whoever has not yet begun will see that at once; what is cancelled is waited for in vain


class _Batch:
    """Episodes that are played side by side: all that the compiled code reads and writes."""

    def __init__(
        self,
        spec: Spec,
        field: "Planar",
        policy: Plain,
        noise: Noise | None,
        seeds: np.ndarray,
        padding: Padding,
        record: bool,
    ) -> None:
        assert policy.log_std is not None  # as actions are numbers, not choices
        _check_sizes(spec, policy)
        self.spec, self.rules, self.padding, self.seeds = spec, field, padding, seeds.copy()
        steps, episodes, actions = spec.horizon, len(seeds), spec.action_space.n
        self.obs = np.empty((steps + 1, episodes, 1, spec.obs_size), np.float32)
        self.action = np.empty((steps, episodes, 1, actions), np.float32)
        drawn = 0 if noise is None else np.exp(policy.log_std) * draw(noise, steps, seeds, episodes)
        self.added = np.ascontiguousarray(np.broadcast_to(policy.biases[-1] + drawn, self.action.shape), np.float32)
        self.way = np.empty((steps, episodes))
        self.live, self.terminated = np.ones((steps, episodes), bool), np.zeros((steps, episodes), bool)
        self.states = np.empty((steps + 1, episodes, spec.obs_size + 1)) if record else None
        self.task, self.kept = _task(spec, field, policy)
        self.widest = max(max(weight.shape) for weight in policy.weights)
        self.waiting = deque(_Episode(self, number, state) for number, state in enumerate(self._begin(field)))
        self.stopped = threading.Event()

    def _begin(self, field: "Planar") -> Iterator[np.ndarray]:
        """All episodes, as many at once as there is room for: the engine's state of each."""
        room = len(field.qpos)
        for some in (slice(i, i + room) for i in range(0, len(self.seeds), room)):
            seeds = self.seeds[some]
            self.obs[0, some] = field.reset(np.arange(len(seeds)), seeds)
            if self.states is not None:
                self.states[0, some] = np.concatenate([field.qpos, field.qvel], 1)[: len(seeds)]
            yield from field.engine.state[: len(seeds)].copy()

    def next(self) -> "_Episode | None":
        try:
            return self.waiting.popleft()
        except IndexError:
            return None

    def record(self) -> Record:
        """Of the finished episodes."""
        action = self.spec.action_space.to_env(self.action[:, :, 0])
        reward = self.rules.reward(self.way, ~self.terminated, self.rules.costs(slice(None), action))
        states = [] if self.states is None else [self.rules.apart(row) for row in self.states]
        return Record(
            obs=self.obs[:-1],
            action=self.action,
            reward=np.where(self.live, reward, 0).astype(np.float32)[..., None],
            terminated=self.terminated,
            truncated=np.zeros_like(self.terminated),
            live=self.live,
            last_obs=self.obs[-1],
            states=states[1:],
            start=states[0] if states else None,
        )


class _Episode:
    """One robot of a batch, some steps at a time."""

    def __init__(self, batch: _Batch, number: int, state: np.ndarray) -> None:
        self.batch, self.number, self.state = batch, number, state
        size = batch.spec.obs_size + 1
        self.scratch, self.numbers = np.empty((2, batch.widest), np.float32), np.empty(size + batch.spec.action_space.n)
        rows: dict[str, np.ndarray] = {name: getattr(batch, name) for name in ("obs", "action", "added", "way")}
        self.robot = _Robot(
            task=ctypes.addressof(batch.task),
            episodes=len(batch.seeds),
            scratch=tuple(row.ctypes.data for row in self.scratch),
            state=self.numbers.ctypes.data,
            ctrl=self.numbers[size:].ctypes.data,
            states=None if batch.states is None else batch.states[1, number].ctypes.data,
            **{name: array[0, number:].ctypes.data for name, array in rows.items()},
        )

    def go_on(self, simulation: _Simulation) -> bool:
        """Play some steps; whether more are left."""
        batch, robot, number = self.batch, self.robot, self.number
        steps, lay = batch.spec.horizon, robot.fallen
        robot.until = min(robot.t + STEPS, steps)
        simulation.play(robot, self.state)
        if robot.fallen and not lay:
            batch.terminated[robot.t - 1, number] = True
            if batch.padding == "restart":
                batch.seeds[number] += 1
                self.state, batch.obs[robot.t, number] = simulation.start(batch.seeds[number])
                robot.fallen = 0
            else:
                batch.terminated[robot.t :, number], batch.live[robot.t :, number] = True, False
        return robot.t < steps


def _check_sizes(spec: Spec, policy: Plain) -> None:
    """Compiled code would read and write beyond arrays of other ones."""
    widths = [spec.obs_size, *(bias.size for bias in policy.biases)]
    shapes = [weight.shape for weight in policy.weights]
    seen = {row.shape for row in (policy.mean, policy.deviation) if row is not None}
    if shapes != [*itertools.pairwise(widths)] or widths[-1] != spec.action_space.n or seen - {(spec.obs_size,)}:
        raise ValueError(
            f"a policy of layers {shapes} cannot play: {spec.obs_size} numbers are seen, {spec.action_space.n} chosen"
        )


def _task(spec: Spec, rules: "Planar", policy: Plain) -> tuple[_Task, list[Any]]:
    """What all robots of a batch share, and what must stay in memory as long as it does."""
    import mujoco

    kept = native.Kept()
    address = kept.address
    pairs = zip(policy.weights, policy.biases, strict=True)
    layers = (_Layer * len(policy.weights))(*(_Layer(*w.shape, address(w), address(b)) for w, b in pairs))
    kept.append(layers)
    engine, state, space = _engine(), mujoco.mjtState, spec.action_space
    assert isinstance(space, Box)
    units = dict(zip(("low", "high", "middle", "half"), space.scale, strict=True))
    functions = {"step": engine.mj_step, "get_state": engine.mj_getState, "set_state": engine.mj_setState}
    bounds = {"healthy": rules.healthy if rules.robot.can_fall else (None, None), "shown": rules.shown}
    task = _Task(
        seen=int(state.mjSTATE_QPOS | state.mjSTATE_QVEL),
        driven=int(state.mjSTATE_CTRL),
        size=spec.obs_size + 1,
        actions=space.n,
        frame_skip=rules.robot.frame_skip,
        layers=len(layers),
        layer=ctypes.addressof(layers),
        mean=address(policy.mean),
        deviation=address(policy.deviation),
        clip=CLIP_OBS,
        **{name: ctypes.cast(function, _Address).value for name, function in functions.items()},
        **{name: address(numbers) for name, numbers in units.items()},
        **{name: tuple(address(x if x is None else x[0], np.float64) for x in pair) for name, pair in bounds.items()},
    )
    return task, kept
