"""A binary tree to choose a path in, small enough that returns are exact.

Four choices between left and right lead to one of sixteen leaves. Only the depth is seen, not the
way there. A leaf pays 1 if the first two choices are the same and 0.5 more if the last two are, so
four paths are best, and the gradient vanishes at the uniformly random policy: a saddle.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array

from rspo.core.spaces import Discrete
from rspo.core.types import Descriptor, Spec, Step, Trajectory
from rspo.envs.base import Env, Tables

DEPTH, PAY = 4, (1.0, 0.5)
NODES = 2 ** (DEPTH + 1) - 1  # numbered by levels: the children of i are 2 i + 1 and 2 i + 2
INNER = 2**DEPTH - 1


class Tree(Env):
    """Observation: the depth, one-hot."""

    @property
    def spec(self) -> Spec:
        return Spec(DEPTH, Discrete(2), horizon=DEPTH)

    def reset(self, noise: Array) -> tuple[Array, Array]:
        node = jnp.zeros((), jnp.int32)
        return node, self._observe(node)

    def step(self, state: Array, action: Array, noise: Array) -> tuple[Array, Step]:
        node = 2 * state + 1 + action[0]
        reward = jnp.asarray(_payoffs())[node]
        return node, Step(self._observe(node), reward[None], node >= INNER)

    def _observe(self, node: Array) -> Array:
        return jnp.asarray(_seen())[node][None]

    def tables(self) -> Tables:
        transition = np.zeros((NODES, 2, NODES), np.float32)
        reward = np.zeros((NODES, 2), np.float32)
        for node in range(NODES):
            for action in range(2):
                # A leaf is the end: it leads to itself and pays nothing more.
                child = 2 * node + 1 + action if node < INNER else node
                transition[node, action, child] = 1.0
                reward[node, action] = _payoffs()[child] if node < INNER else 0.0
        return Tables(transition, reward, np.eye(NODES, dtype=np.float32)[0], _seen())

    def describe(self, trajectory: Trajectory) -> Descriptor:
        """The path of at least 80 % of the episodes, such as "LL RR"."""
        paths, counts = np.unique(
            np.asarray(trajectory.action)[..., 0].T, axis=0, return_counts=True
        )
        letters = ["".join("LR"[choice] for choice in path) for path in paths]
        share = {
            f"{name[:2]} {name[2:]}": float(n)
            for name, n in zip(letters, counts / counts.sum(), strict=True)
        }
        label, most = max(share.items(), key=lambda item: item[1])
        return Descriptor(label if most >= 0.8 else "mixed", share, clear=most >= 0.8)

    def behaviour(self, trajectory: Trajectory) -> Array:
        """The path, from the leftmost leaf to the rightmost."""
        weights = 2.0 ** -jnp.arange(1, DEPTH + 1)
        return weights @ trajectory.action[..., 0] + 0.5 ** (DEPTH + 1)


def _payoffs() -> np.ndarray:
    """What reaching each node pays."""
    pays = np.zeros(NODES, np.float32)
    for leaf in range(INNER, NODES):
        choices = [(leaf - INNER) >> bit & 1 for bit in reversed(range(DEPTH))]
        same = (choices[0] == choices[1], choices[2] == choices[3])
        pays[leaf] = sum(pay for pay, is_same in zip(PAY, same, strict=True) if is_same)
    return pays


def _seen() -> np.ndarray:
    """The observation at each node: its depth, and nothing at a leaf."""
    depth = np.floor(np.log2(np.arange(NODES) + 1)).astype(int)
    return np.eye(DEPTH + 1, dtype=np.float32)[depth][:, :DEPTH]
