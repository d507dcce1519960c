"""Every method gets the same number of environment steps for as many policies."""

import dataclasses

import pytest

from rspo.config import Config
from rspo.core.learning import PPO
from rspo.registry import METHODS

PLAIN = Config("any", iterations=6, method=METHODS.make("pg"), ppo=PPO(batch=64, updates=10))


@pytest.mark.parametrize("name", METHODS.summaries())
def test_all_methods_have_the_same_budget(name):
    config = dataclasses.replace(PLAIN, method=METHODS.make(name))
    assert config.steps == PLAIN.steps == 6 * 64 * 10
    assert config.plan.policies == 6


@pytest.mark.parametrize("name", METHODS.summaries())
def test_the_kind_of_a_method_is_what_its_plan_says(name):
    method = METHODS.make(name)
    plan = method.plan(6)
    assert (plan.members > 1) == (method.kind in ("population", "archive", "tabular"))
    assert (plan.latents > 1) == (method.kind == "latent") == (method.latent_size(plan) > 0)
