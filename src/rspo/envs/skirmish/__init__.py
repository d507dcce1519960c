"""Skirmishes of StarCraft II in JAX, by the contract of the StarCraft Multi-Agent Challenge
(SMAC)."""

from rspo.envs.skirmish.skirmish import Skirmish

__all__ = ["Skirmish"]
