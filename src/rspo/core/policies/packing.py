"""Policies as named arrays, for pipes between processes."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from rspo.core.policies.gru import GRU
from rspo.core.policies.mlp import MLP
from rspo.core.policies.normalizer import Normalizer
from rspo.core.policies.policy import Actor, Policy
from rspo.core.spaces import ActionSpace


def to_arrays(policy: Policy) -> dict[str, np.ndarray]:
    """The arrays of a policy that acting needs."""
    leaves = jax.tree_util.tree_leaves_with_path(
        dataclasses.replace(policy, critic=None, state_normalizer=None)
    )
    return {
        jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf)
        for path, leaf in leaves
    }


def from_arrays(arrays: Mapping[str, np.ndarray], space: ActionSpace) -> Policy:
    """The inverse: a policy of NumPy arrays."""
    normalizer = None
    if "normalizer.mean" in arrays:
        seen: list[Any] = [arrays[f"normalizer.{name}"] for name in ("mean", "variance", "count")]
        normalizer = Normalizer(*seen)
    actor = Actor(_net(arrays, "actor.net"), arrays.get("actor.log_std"), space)  # type: ignore[arg-type]
    return Policy(actor, None, normalizer, None, arrays.get("context"))  # type: ignore[arg-type]


def _net(arrays: Mapping[str, np.ndarray], prefix: str) -> Any:
    if f"{prefix}.inputs" not in arrays:
        return _mlp(arrays, prefix)
    parts = {name: arrays[f"{prefix}.{name}"] for name in ("inputs", "memory", "bias")}
    return GRU(body=_mlp(arrays, f"{prefix}.body"), head=_mlp(arrays, f"{prefix}.head"), **parts)  # type: ignore


def _mlp(arrays: Mapping[str, np.ndarray], prefix: str) -> MLP:
    layers = sum(name.startswith(f"{prefix}.weights.") for name in arrays)
    each = lambda kind: tuple(arrays[f"{prefix}.{kind}.{i}"] for i in range(layers))
    return MLP(each("weights"), each("biases"))  # type: ignore[arg-type]
