"""rspo's own training, driven as by `rspo discover`, and the peak arithmetic of the cores."""

import dataclasses
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rspo.core.devices import everywhere, share, use_cores
from rspo.core.members import member
from rspo.presets import preset
from rspo.registry import make
from rspo.rollout.collector import collector
from rspo.search.archive import Archive, Strategy, capacity
from rspo.search.evaluation import Evaluation
from rspo.search.loop import ROWS, Tools, keys


class RspoSide:
    """One trainer per game, compiled once for any number of references."""

    def __init__(self) -> None:
        use_cores()
        jax.config.update(
            "jax_enable_compilation_cache", False
        )  # compile time is one of the results
        self.tools: dict[str, Tools] = {}
        self.collectors: dict[str, Any] = {}

    def compile(self, env: str, room: int | None = None) -> float:
        """Seconds to trace and compile a game's training program: a call of no updates.

        It has slots for as many references as a run has iterations, unless `room` is given.
        """
        config = preset(env)
        config = dataclasses.replace(config, iterations=room or config.iterations)
        self.tools[env] = Tools(collector(make(env)), config)
        state, references, key = self._start(env, 0)
        start = time.perf_counter()
        jax.block_until_ready(self._trainer(env).advance(state, references, key, 0))
        return time.perf_counter() - start

    def _trainer(self, env: str) -> Any:
        """The trainer with slots for all references."""
        tools = self.tools[env]
        return tools.trainer(capacity(tools.config.iterations))

    def _start(self, env: str, kept: int, rejecting: float = 0.0) -> tuple[Any, Any, Any]:
        """Fresh weights with `kept` references, of which a share rejects all episodes; the others
        accept all.

        Their weights do not affect the time, but that share does: only references that reject need
        prediction errors. In the ungated part of a preset's iteration all do, so this starts
        half-way through one.
        """
        tools = self.tools[env]
        nobody = Evaluation(0, 0.0, 0.0, 0.0, 0.0, 1.0, (), (), ())
        memory = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), tools.shapes[1])
        begun = lambda i: self._trainer(env).init(keys(tools.config, i, 1).weights[None])
        policies = [
            jax.device_get(tools.playing(member(begun(i).policy, 0), 0)) for i in range(kept)
        ]
        deltas = np.where(np.arange(kept) < round(rejecting * kept), np.inf, 0.0)
        strategies = [
            Strategy(i, "novel", nobody, policies[i], float(deltas[i]), memory, 1)
            for i in range(kept)
        ]
        references = tools.references(Archive(tools.config, strategies))
        room = capacity(tools.config.iterations) - len(references.mask)
        grown = lambda leaf: np.pad(leaf, [(0, room)] + [(0, 0)] * (np.ndim(leaf) - 1))
        references = jax.device_put(jax.tree.map(grown, references))
        skip = lambda state: eqx.tree_at(
            lambda s: s.update, state, state.update + tools.config.ppo.updates // 2
        )
        state = jax.jit(skip, out_shardings=everywhere())(begun(kept))
        return state, references, keys(tools.config, kept, 1).train[None]

    def train(self, env: str, kept: int, updates: int, rejecting: float = 0.0) -> dict[str, float]:
        """Train from fresh weights, `ROWS` updates per call, fetching each call's metrics as `rspo
        discover` does."""
        advance = self._trainer(env).advance
        state, references, key = self._start(env, kept, rejecting)
        jax.block_until_ready((state, references))
        lengths = []
        start = time.perf_counter()
        for done in range(0, updates, ROWS):
            count = min(ROWS, updates - done)
            state, table = advance(state, references, key, count)
            lengths += [float(length) for length in jax.device_get(table)["length"][:count, 0]]
        jax.block_until_ready(state)
        seconds = time.perf_counter() - start
        live = float(np.mean(lengths)) / make(env).spec.horizon
        return {"seconds": seconds, "steps": updates * preset(env).ppo.batch, "live": live}

    def rollout(self, env: str, updates: int) -> dict[str, float]:
        """Collect `updates` batches with a fresh policy and do nothing with them; cores share the
        episodes."""
        config, world = self.tools[env].config, make(env)
        if env not in self.collectors:
            collect = collector(world)
            play = lambda policy, key: collect(policy, config.episodes(world.spec), key).samples
            shared = lambda samples: jax.tree.map(lambda leaf: share(leaf, axis=1), samples)
            self.collectors[env] = jax.jit(lambda policy, key: shared(play(policy, key)))
        policy, keys = (
            member(self._start(env, 0)[0].policy, 0),
            jax.random.split(jax.random.key(0), updates),
        )
        jax.block_until_ready(keys)
        start = time.perf_counter()
        for key in keys:
            jax.block_until_ready(self.collectors[env](policy, key))
        return {"seconds": time.perf_counter() - start, "steps": updates * config.ppo.batch}

    def programs(self, env: str) -> int:
        """How many training programs have been compiled for a game."""
        return self._trainer(env).advance._cache_size()

    def peak(self, library: str, n: int) -> float:
        """FLOP/s of an n x n float32 matrix product, the best of three."""
        a = np.random.default_rng(0).standard_normal((n, n), np.float32)
        product = np.matmul if library == "numpy" else jax.jit(jnp.matmul)
        a = a if library == "numpy" else jnp.asarray(a)
        jax.block_until_ready(product(a, a))
        times = []
        for _ in range(3):
            start = time.perf_counter()
            jax.block_until_ready(product(a, a))
            times.append(time.perf_counter() - start)
        return 2 * n**3 / min(times)
