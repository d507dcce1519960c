"""The skirmishes agree with a plain version step by step, in random play."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from plain_skirmish import FIELDS, Plain
from rspo.envs.skirmish import Skirmish


@pytest.mark.parametrize(
    ("name", "targets", "steps"),
    [
        ("2m_vs_1z", "shooters", 60),
        ("2m_vs_1z", "attackers", 40),
        ("2m_vs_1z", "nearest", 40),
        ("2m_vs_1z", "sticky", 40),
        ("3m", "shooters", 40),
        pytest.param("2c_vs_64zg", "shooters", 40, marks=pytest.mark.slow),
    ],
)
def test_random_play_agrees_with_the_plain_version(name, targets, steps):
    """Each step begins in the same state: a crowd multiplies what rounding leaves."""
    env, rng = Skirmish(name, targets=targets), np.random.default_rng(7)
    uniform = lambda count: jnp.asarray(rng.random(count), jnp.float32)
    advance = jax.jit(env.step)
    state, view = jax.device_get(jax.jit(env.reset)(uniform(env.spec.reset_noise)))
    for _ in range(steps):
        plain = Plain(name, state, targets)
        np.testing.assert_array_equal(view.mask, plain.mask())
        action = np.array([rng.choice(np.flatnonzero(row)) for row in view.mask])
        noise = uniform(env.spec.step_noise)
        state, step = jax.device_get(advance(state, jnp.asarray(action), noise))
        reward, view = plain.step(action, np.asarray(noise)), step.obs
        np.testing.assert_allclose(step.reward, reward, atol=1e-3)
        for ours, theirs in ((state.allies, plain.allies), (state.enemies, plain.enemies)):
            alive = ours.hp > 0
            for field in FIELDS:
                found = np.array([getattr(unit, field) for unit in theirs], float)
                mine = getattr(ours, field).astype(float)
                if field == "calm":  # clocks stop after a while
                    mine, found = mine.clip(max=50), found.clip(max=50)
                np.testing.assert_allclose(mine[alive], found[alive], atol=2e-3, err_msg=field)
            np.testing.assert_array_equal(alive, [unit.hp > 0 for unit in theirs])
        for i in range(env.spec.agents):
            np.testing.assert_allclose(view.obs[i], plain.observation(i), atol=1e-3)
        np.testing.assert_allclose(view.state[0], plain.state(action), atol=1e-3)
        if step.terminated:
            state, view = jax.device_get(jax.jit(env.reset)(uniform(env.spec.reset_noise)))
