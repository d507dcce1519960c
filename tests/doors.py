"""Which doors of `Rooms` the strategies of a method open: a probe with as many optima as doors."""

import dataclasses

import jax
import numpy as np

import plain
from rspo.core.learning import PPO
from rspo.core.members import member
from rspo.core.types import View
from rspo.learn.trainer import make_trainer
from rspo.methods.base import Setup
from rspo.methods.references import Measure
from rspo.rollout.collector import collector
from worlds import Rooms

LEARNER = PPO(
    batch=192, updates=40, learning_rate=1e-2, hidden=16, layers=1, entropy_coefficient=0.02
)


def opened(method, seeds, doors=2, learner=LEARNER):
    """By seed: the door of every strategy, its probability, and all metrics [updates, P, ...].
    Random play prefers door 0; every door pays the same at best."""
    env, plan = Rooms(doors=doors, consolation=0.25), method.plan(doors)
    learner = dataclasses.replace(learner, updates=plan.updates(learner.updates))
    setup = Setup(env.spec, plan, plan.members, learner.updates)
    trainer = make_trainer(collector(env), method, learner, Measure(), setup, learner.updates)
    nobody = plain.random_policy(np.random.default_rng(0), env.states, doors)
    kept = plain.references([nobody], [0.0], 1, kept=0)
    found = []
    for seed in seeds:
        keys = jax.random.split(jax.random.key(seed), plan.members)
        advanced = trainer.advance(trainer.init(keys), kept, keys, learner.updates)
        # Nothing else may use the devices while a sharded program runs.
        state, table = jax.device_get(jax.block_until_ready(advanced))
        chances = _first_moves(method, plan, state.policy, env)
        found.append((chances.argmax(-1).tolist(), chances.max(-1), table))
    return found


def _first_moves(method, plan, policies, env):
    """The probabilities of the doors: [strategies, doors]."""
    start = np.eye(env.states, dtype=np.float32)[0]
    latents = np.asarray(method.latents(plan)) if method.latent_size(plan) else [None]
    chances = lambda i, z: np.exp(member(policies, i)(View(start, latent=z)).log_probs)
    return np.stack([chances(i, z) for i in range(plan.members) for z in latents])
