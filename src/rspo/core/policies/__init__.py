"""Policies: networks with or without memory, what normalises their inputs, and random play."""

from rspo.core.policies.gru import GRU
from rspo.core.policies.memoryless import Memoryless
from rspo.core.policies.mlp import MLP, init_mlp
from rspo.core.policies.normalizer import Normalizer, init_normalizer
from rspo.core.policies.policy import Actor, Policy, init_policy
from rspo.core.policies.uniform import UniformPolicy, uniform_policy

__all__ = [
    "GRU",
    "MLP",
    "Actor",
    "Memoryless",
    "Normalizer",
    "Policy",
    "UniformPolicy",
    "init_mlp",
    "init_normalizer",
    "init_policy",
    "uniform_policy",
]
