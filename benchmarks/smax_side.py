"""SMAX of JaxMARL, played at random. Run by an interpreter that has `jaxmarl`; prints JSON lines.

python smax_side.py SCENARIO ENVIRONMENTS STEPS     then, for each line read, one measurement
"""

import json
import sys
import time

import jax
import jax.numpy as jnp
from jaxmarl.environments.smax import HeuristicEnemySMAX, map_name_to_scenario
from jaxmarl.environments.smax.smax_env import Scenario

MARINE, ZEALOT = 0, 3


def scenario(name):
    if name != "2m_vs_1z":
        return map_name_to_scenario(name)
    units = jnp.array([MARINE, MARINE, ZEALOT], dtype=jnp.uint8)
    return Scenario(units, 2, 1, False, False)


def main():
    name, environments, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    env = HeuristicEnemySMAX(scenario=scenario(name), walls_cause_death=True)

    def one(carry, key):
        _, state = carry
        action_key, step_key = jax.random.split(key)
        keys = jax.random.split(action_key, environments)

        def act(key, state):
            allowed = env.get_avail_actions(state)
            own = jax.random.split(key, len(env.agents))
            draw = lambda key, mask: jax.random.categorical(key, jnp.where(mask, 0.0, -1e9))
            return {a: draw(k, allowed[a]) for k, a in zip(own, env.agents, strict=True)}

        actions = jax.vmap(act)(keys, state)
        step_keys = jax.random.split(step_key, environments)
        obs, state, reward, done, _ = jax.vmap(env.step)(step_keys, state, actions)
        return (obs, state), (reward[env.agents[0]].mean(), done["__all__"].mean())

    @jax.jit
    def play(key):
        begin = jax.vmap(env.reset)(jax.random.split(key, environments))
        carry, seen = jax.lax.scan(one, begin, jax.random.split(key, steps))
        return jax.tree.map(lambda leaf: leaf.sum(), (carry[0], seen))

    jax.block_until_ready(play(jax.random.key(0)))
    print(json.dumps({"ready": True}), flush=True)
    for i, _ in enumerate(sys.stdin):
        start = time.perf_counter()
        jax.block_until_ready(play(jax.random.key(i)))
        rate = environments * steps / (time.perf_counter() - start)
        print(json.dumps({"rate": rate}), flush=True)


main()
