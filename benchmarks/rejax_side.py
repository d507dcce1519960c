"""rejax's PPO, pure JAX, on rspo's own game with the same network, batch and epochs.

Runs in its own virtual environment, whose Python `rejax_speed.py` starts with rspo's sources on
the path: a line of JSON with a number of updates comes in, a line with steps and seconds goes out.
"""

import json
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
from gymnax.environments import environment, spaces
from rejax import PPO

from rspo.envs.four_goals import FourGoals
from rspo.presets import preset


class Game(environment.Environment):
    """4-Goals with gymnax's interface; only resets are random, as in rspo."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.game = FourGoals(mode)

    @property
    def default_params(self) -> environment.EnvParams:
        return environment.EnvParams(max_steps_in_episode=self.game.spec.horizon)

    def reset(self, key: Any, params: Any = None) -> tuple[Any, Any]:
        state, obs = self.game.reset(jax.random.uniform(key, (self.game.spec.reset_noise,)))
        return obs[0], (state, jnp.int32(0))

    def step(self, key: Any, state: Any, action: Any, params: Any = None) -> tuple[Any, ...]:
        """Five values, as rejax expects; gymnax has returned six since 1.0. The next episode
        begins at once."""
        inner, time = state
        inner, out = self.game.step(inner, action[None], jnp.zeros(self.game.spec.step_noise))
        done = out.terminated | (time + 1 >= self.game.spec.horizon)
        after = (out.obs[0], (inner, time + 1))
        choose = lambda new, old: jnp.where(done, new, old)
        obs, state = jax.tree.map(choose, self.reset(key), after)
        return obs, state, out.reward[0], done, {}

    def observation_space(self, params: Any) -> spaces.Box:
        return spaces.Box(-jnp.inf, jnp.inf, (self.game.spec.obs_size,))

    def action_space(self, params: Any) -> spaces.Discrete:
        return spaces.Discrete(self.game.spec.action_space.n)


def main() -> None:
    name = sys.argv[1]  # one device, as rejax is used: XLA spreads its operations over the cores
    ppo, game = preset(name).ppo, Game(name.removeprefix("four-goals-"))
    horizon = game.game.spec.horizon
    learner = PPO.create(
        env=game,
        agent_kwargs={"hidden_layer_sizes": (ppo.hidden,) * ppo.layers, "activation": "tanh"},
        num_envs=ppo.batch // horizon,
        num_steps=horizon,
        num_epochs=ppo.epochs,
        num_minibatches=ppo.minibatches,
        learning_rate=ppo.learning_rate,
        gamma=ppo.gamma,
        gae_lambda=ppo.gae_lambda,
        clip_eps=ppo.clip,
        ent_coef=ppo.entropy_coefficient,
        vf_coef=ppo.value_coefficient,
        max_grad_norm=ppo.gradient_clip,
        total_timesteps=ppo.batch,
        eval_freq=ppo.batch,
    )
    state = learner.init_state(jax.random.PRNGKey(0))
    # The number of updates is traced, so that one compiled program serves all.
    several = lambda state, n: jax.lax.fori_loop(
        0, n, lambda _, s: learner.train_iteration(s), state
    )
    train = jax.jit(several)
    for line in sys.stdin:
        updates = json.loads(line)
        start = time.perf_counter()
        state = jax.block_until_ready(train(state, updates))
        seconds = time.perf_counter() - start
        print(json.dumps({"steps": updates * ppo.batch, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
