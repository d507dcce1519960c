"""PPO's steps in compiled code: what `rspo.ppo.update` does for a Gaussian policy, in half the time on two cores.

`ppo_steps.c` is compiled when rspo is installed, where there is a compiler. Only host environments learn by it: those
in JAX never leave XLA's program.
"""

import ctypes
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo import native, ppo
from rspo.config import Config
from rspo.host import HostEnv
from rspo.objective import Objective
from rspo.parallel import cores
from rspo.policy import LOG_STD, MLP, GaussianMLP, Policy
from rspo.types import Box

WIDEST = 128  # hidden layer; with 256 units XLA is as fast, with 512 faster
SHARE = 128  # samples a thread at least: with fewer, threads would do little but meet
PATIENCE = 4000  # turns that a thread waits for the others before it lets somebody else have its core
LANES = 8  # by which the compiled code counts
SUMS = ("surrogate", "value_loss", "approx_kl", "entropy", "norm")  # of the last step


def learns(env: Any, config: Config) -> bool:
    """Whether compiled code learns in this environment from now on."""
    return _could(env, config) and native.wanted() and why_not() is None


def missing_for(env: Any, config: Config) -> str | None:
    """Why no compiled code learns in this environment, which it could; None if it does, or never would."""
    return why_not() if _could(env, config) else None


def _could(env: Any, config: Config) -> bool:
    return (
        isinstance(env, HostEnv)
        and isinstance(env.spec.action_space, Box)
        and config.ppo.minibatches > 1
        and config.ppo.hidden <= WIDEST
        and type(config.method).loss is Objective.loss
        and jax.default_backend() == "cpu"
        and not jax.config.read("jax_enable_x64")
    )


@cache
def why_not() -> str | None:
    """What is missing for compiled steps, and what helps, in words; None if nothing is."""
    try:
        library = _library()
    except ImportError as error:
        return str(error)
    return None if library.rspo_can_learn() else "it is for x86 with AVX2 and FMA, compiled by GCC, and for ARM"


class Lesson(NamedTuple):
    """All that the steps of an update depend on, but for the parameters."""

    batch: ppo.Batch  # [samples, ...], of normalised observations
    orders: Array  # [epochs, samples]
    rates: Array  # [steps], of learning
    unbias: tuple[Array, Array]  # [steps], by which Adam divides its moments
    bonus: Array


def lesson(config: ppo.PPO, policy: Policy, batch: ppo.Batch, bonus: Array, number: Array, key: Array) -> Lesson:
    """Of an iteration's update of this number; to be compiled by XLA."""
    normalized = batch._replace(obs=policy.normalized(batch.obs))
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:]), normalized)
    count = config.epochs * config.minibatches
    steps = number * count + jnp.arange(count)
    unbias = 1 - config.momentum ** (steps + 1.0), 1 - ppo.SQUARES ** (steps + 1.0)
    return Lesson(flat, ppo.orders(config, batch.counted.size, key), ppo.learning_rate(config, steps), unbias, bonus)


def update(
    config: ppo.PPO, nets: tuple[Any, Any], opt_state: Any, lesson: Lesson
) -> tuple[tuple[Any, Any], Any, dict[str, Any]]:
    """As `rspo.ppo.update`, for an actor and a critic; arrays are NumPy's."""
    lesson = jax.tree.map(np.asarray, lesson)
    (done, mean, square, _), moments = jax.tree.flatten(opt_state)
    leaves, structure = jax.tree.flatten(nets)
    flat = np.concatenate([np.ravel(leaf) for leaf in leaves])
    numbers = {"parameter": flat, "mean": np.array(mean), "square": np.array(square)}
    surrogate, value_error, kl, entropy, _ = _take_steps(config, nets, numbers, lesson)
    loss = config.value_coefficient * value_error - surrogate - lesson.bonus * entropy
    done = np.asarray(done) + np.int32(len(lesson.rates))
    ends = itertools.accumulate(leaf.size for leaf in leaves)
    learned = [flat[end - leaf.size : end].reshape(leaf.shape) for leaf, end in zip(leaves, ends, strict=True)]
    opt_state = jax.tree.unflatten(moments, (done, numbers["mean"], numbers["square"], done))
    metrics = {"value_loss": value_error, "entropy": entropy, "approx_kl": kl, "loss": loss}
    return jax.tree.unflatten(structure, learned), opt_state, metrics


_Address = ctypes.c_void_p
_Int = ctypes.c_int
_Float = ctypes.c_float


class _Layer(ctypes.Structure):
    _fields_ = (("inputs", _Int), ("outputs", _Int), ("weight", ctypes.c_ssize_t), ("bias", ctypes.c_ssize_t))


class _Lesson(ctypes.Structure):
    _fields_ = (
        *((name, _Int) for name in ("threads", "patience", "steps", "size")),
        *((name, _Int) for name in ("inputs", "actions", "channels", "layers", "parameters")),
        ("layer", _Address * 2),
        ("log_std", ctypes.c_ssize_t),
        *((name, _Address) for name in ("order", *ppo.Batch._fields, "rate")),
        ("unbias", _Address * 2),
        *((name, _Float) for name in ("clip", "value_coefficient", "bonus", "norm")),
        ("decay", _Float * 2),
        ("gain", _Float * 2),
        ("epsilon", _Float),
        ("bounds", _Float * 2),
        *((name, _Address) for name in ("parameter", "mean", "square", "gradient", "sums", "memory")),
        ("met", ctypes.c_long),
        ("stopped", _Int),
    )


@cache
def _library() -> Any:
    library = native.library("_ppo_steps", (_Layer, _Lesson))
    library.rspo_memory.restype, library.rspo_memory.argtypes = ctypes.c_size_t, (_Address,)
    library.rspo_learn.restype, library.rspo_learn.argtypes = None, (_Address, _Int)
    return library


_ONE_AT_A_TIME = threading.Lock()  # of two lessons each could have half of the threads, and wait for the others


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "rspo-learner")


def thread_count(size: int) -> int:
    """Of a step of so many samples."""
    return max(min(jax.device_count(), size // SHARE), 1)


def _take_steps(config: ppo.PPO, nets: tuple[Any, Any], numbers: dict[str, np.ndarray], lesson: Lesson) -> np.ndarray:
    """All steps of a lesson; changes the parameters and Adam's moments, and gives the last step's SUMS."""
    size = lesson.orders.size // len(lesson.rates)
    threads = thread_count(size)
    sums = np.zeros((threads, len(SUMS)), np.float32)
    record, kept = _record(config, nets, {**numbers, "sums": sums}, lesson, size)
    learn = lambda number: (_library().rspo_learn(ctypes.byref(record), number), kept)  # noqa: E731
    with _ONE_AT_A_TIME:
        try:
            others = [_helpers(threads - 1).submit(learn, number) for number in range(1, threads)]
            learn(0)
            for other in others:
                other.result()
        except BaseException:  # Ctrl-C: nobody may wait for who was not called, or not yet
            record.stopped = 1
            raise
    return sums.sum(0)


def _record(
    config: ppo.PPO, nets: tuple[Any, Any], numbers: dict[str, np.ndarray], lesson: Lesson, size: int
) -> tuple[_Lesson, list[Any]]:
    """All that the compiled code reads and writes, and what must stay in memory as long as it does."""
    (actor, critic), threads, kept = nets, len(numbers["sums"]), native.Kept(numbers.values())
    address = kept.address
    layers, log_std = _places(actor, critic)
    kept += layers
    parameters = numbers["parameter"].size
    record = _Lesson(
        threads=threads,
        patience=PATIENCE if threads <= cores() else 0,
        steps=len(lesson.rates),
        size=size,
        inputs=actor.weights[0].shape[0],
        actions=actor.biases[-1].size,
        channels=critic.biases[-1].size,
        layers=len(actor.weights),
        parameters=parameters,
        layer=tuple(map(ctypes.addressof, layers)),
        log_std=log_std,
        order=address(lesson.orders, np.uint32),
        rate=address(lesson.rates),
        unbias=tuple(map(address, lesson.unbias)),
        clip=config.clip,
        value_coefficient=config.value_coefficient,
        bonus=float(lesson.bonus),
        norm=config.gradient_clip,
        decay=(config.momentum, ppo.SQUARES),
        gain=(1 - config.momentum, 1 - ppo.SQUARES),
        epsilon=ppo.EPSILON,
        bounds=LOG_STD,
        gradient=address(np.zeros((threads, parameters + LANES), np.float32)),
        **{name: array.ctypes.data for name, array in numbers.items()},
        **{name: address(rows) for name, rows in lesson.batch._asdict().items()},
    )
    record.memory = address(np.zeros((threads, _library().rspo_memory(ctypes.byref(record))), np.float32))
    return record, kept


def _places(actor: GaussianMLP, critic: MLP) -> tuple[list[Any], int]:
    """Where the numbers of both networks' layers, and the log-deviations, are in the vector of all."""
    arrays = jax.tree.leaves((actor, critic))
    starts = iter(itertools.accumulate((array.size for array in arrays), initial=0))
    layers, log_std = [], 0
    for network in (actor, critic):
        weights, biases = ([next(starts) for _ in network.biases] for _ in range(2))
        if network is actor:
            log_std = next(starts)
        rows = zip((weight.shape for weight in network.weights), weights, biases, strict=True)
        layers.append((_Layer * len(weights))(*(_Layer(*shape, weight, bias) for shape, weight, bias in rows)))
    return layers, log_std
