"""The simulator behind SMAC's own Python interface, for tools that are written for SMAC.

from rspo.envs.skirmish.facade import StarCraft2Env

env = StarCraft2Env(map_name="2m_vs_1z", seed=0)
env.reset()
reward, terminated, info = env.step([1, 1])
"""

from typing import Any

import jax
import numpy as np

from rspo.core.types import View
from rspo.envs.skirmish import contract
from rspo.envs.skirmish.maps import MAPS
from rspo.envs.skirmish.skirmish import Skirmish
from rspo.envs.skirmish.state import info
from rspo.errors import InputError

# SMAC options that the simulator does not support: accepted only with SMAC's defaults.
DEFAULTS: dict[str, Any] = {
    "step_mul": 8,
    "move_amount": 2,
    "difficulty": "7",
    "obs_all_health": True,
    "obs_own_health": True,
    "obs_last_action": False,
    "obs_pathing_grid": False,
    "obs_terrain_height": False,
    "obs_instead_of_state": False,
    "obs_timestep_number": False,
    "state_last_action": True,
    "state_timestep_number": False,
    "reward_sparse": False,
    "reward_only_positive": True,
    "reward_death_value": 10,
    "reward_win": 200,
    "reward_defeat": 0,
    "reward_negative_scale": 0.5,
    "reward_scale": True,
    "reward_scale_rate": 20,
    "heuristic_ai": False,
}
# Options that do not affect the battle; heuristic_rest would do so only with heuristic_ai.
IGNORED = (
    "game_version",
    "window_size_x",
    "window_size_y",
    "replay_dir",
    "replay_prefix",
    "heuristic_rest",
    "debug",
)


class StarCraft2Env:
    """SMAC's environment, fought out by `Skirmish`."""

    def __init__(
        self,
        map_name: str = "2m_vs_1z",
        seed: int | None = None,
        continuing_episode: bool = False,
        **settings: Any,
    ) -> None:
        """continuing_episode: whether `info` says when the time limit ends an episode, which would
        have continued otherwise."""
        for name, value in settings.items():
            if name not in IGNORED and DEFAULTS.get(name, value) != value:
                raise InputError(
                    f"{name} is {value!r}, but the simulator has SMAC's default, "
                    f"{DEFAULTS[name]!r}, alone."
                )
            if name not in DEFAULTS and name not in IGNORED:
                raise InputError(f"SMAC has no setting '{name}'.")
        self._env = Skirmish(map_name)
        self.map_name, self._seed = map_name, 0 if seed is None else seed
        self.continuing_episode = continuing_episode
        self.n_agents = self._env.spec.agents
        self.n_enemies = MAPS[map_name].enemies.count
        self.n_actions = self._env.spec.action_space.n
        self.n_actions_no_attack, self.n_actions_move = contract.ATTACK, 4
        self.episode_limit = self._env.spec.horizon
        ally, enemy = self._env.game.allies.unit, self._env.game.enemies.unit
        place = ["rel_x", "rel_y"]
        self.ally_state_attr_names = ["health", "energy/cooldown", *place]
        self.ally_state_attr_names += ["shield"] if ally.shield else []
        self.enemy_state_attr_names = ["health", *place] + (["shield"] if enemy.shield else [])
        self._random = np.random.default_rng(self._seed)
        self._reset = jax.jit(self._env.reset)
        self._step = jax.jit(self._env.step)
        self.battles_game = self.battles_won = self.timeouts = self._episode_steps = 0
        self._state: Any = None
        self._view = View(None)

    def reset(self) -> tuple[list[np.ndarray], np.ndarray]:
        self._episode_steps = 0
        noise = self._random.random(self._env.spec.reset_noise, np.float32)
        self._state, view = self._reset(noise)
        self._view = jax.device_get(view)
        return self.get_obs(), self.get_state()

    def step(self, actions: Any) -> tuple[float, bool, dict[str, Any]]:
        """Step with the actions of all agents; masked actions raise an error, as in SMAC."""
        if self._state is None:
            raise InputError("The battle has not begun: call reset before step.")
        chosen = np.array([int(action) for action in actions], np.int32)
        if len(chosen) != self.n_agents:
            raise InputError(
                f"step needs {self.n_agents} actions, one for each agent, not {len(chosen)}."
            )
        for agent, action in enumerate(chosen):
            allowed = 0 <= action < self.n_actions and self._view.mask[agent][action]
            assert allowed, f"Agent {agent} cannot perform action {action}"
        noise = self._random.random(self._env.spec.step_noise, np.float32)
        self._state, step = self._step(self._state, chosen, noise)
        self._view = jax.device_get(step.obs)
        self._episode_steps += 1
        terminated = bool(step.terminated)
        told = {name: np.asarray(value).item() for name, value in info(self._state).items()}
        if not terminated and self._episode_steps >= self.episode_limit:
            terminated = True
            if self.continuing_episode:
                told["episode_limit"] = True
            self.timeouts += 1
        self.battles_game += terminated
        self.battles_won += terminated and told["battle_won"]
        return float(step.reward[0]), terminated, told

    def get_obs(self) -> list[np.ndarray]:
        return [self.get_obs_agent(agent) for agent in range(self.n_agents)]

    def get_obs_agent(self, agent_id: int) -> np.ndarray:
        return np.asarray(self._view.obs[agent_id], np.float32)

    def get_state(self) -> np.ndarray:
        return np.asarray(self._view.state[0], np.float32)

    def get_state_dict(self) -> dict[str, np.ndarray]:
        """The global state by its parts, a row for each unit."""
        allies = self.n_agents * self.get_ally_num_attributes()
        enemies = allies + self.n_enemies * self.get_enemy_num_attributes()
        parts = np.split(self.get_state(), [allies, enemies])
        rows = (self.n_agents, self.n_enemies, self.n_agents)
        names = ("allies", "enemies", "last_action")
        return {
            name: part.reshape(count, -1)
            for name, part, count in zip(names, parts, rows, strict=True)
        }

    def get_visibility_matrix(self) -> np.ndarray:
        """[agent, all agents and then all enemies] who sees whom."""
        seen = np.zeros((self.n_agents, self.n_agents + self.n_enemies), bool)
        enemies, others = self.get_obs_enemy_feats_size(), self.get_obs_ally_feats_size()
        start = self.get_obs_move_feats_size()
        middle = start + enemies[0] * enemies[1]
        end = middle + others[0] * others[1]
        for agent, obs in enumerate(self.get_obs()):
            # The fifth number of a row is the unit's health: 0 if it is dead or out of sight.
            seen[agent, self.n_agents :] = obs[start:middle].reshape(enemies)[:, 4] > 0
            among = np.delete(np.arange(self.n_agents), agent)
            seen[agent, among] = obs[middle:end].reshape(others)[:, 4] > 0
        return seen

    def get_avail_actions(self) -> list[list[int]]:
        return [self.get_avail_agent_actions(agent) for agent in range(self.n_agents)]

    def get_avail_agent_actions(self, agent_id: int) -> list[int]:
        return [int(allowed) for allowed in self._view.mask[agent_id]]

    def get_obs_size(self) -> int:
        return self._env.spec.obs_size

    def get_state_size(self) -> int:
        return self._env.spec.state_size

    def get_ally_num_attributes(self) -> int:
        return len(self.ally_state_attr_names)

    def get_enemy_num_attributes(self) -> int:
        return len(self.enemy_state_attr_names)

    # The parts of an observation, in its order.

    def get_obs_move_feats_size(self) -> int:
        return self.n_actions_move

    def get_obs_enemy_feats_size(self) -> tuple[int, int]:
        return self.n_enemies, 5 + ("shield" in self.enemy_state_attr_names)

    def get_obs_ally_feats_size(self) -> tuple[int, int]:
        return self.n_agents - 1, 5 + ("shield" in self.ally_state_attr_names)

    def get_obs_own_feats_size(self) -> int:
        return 1 + ("shield" in self.ally_state_attr_names)

    def unit_shoot_range(self, agent_id: int) -> float:
        return contract.SHOOTING_RANGE

    def unit_sight_range(self, agent_id: int) -> float:
        return contract.SIGHT

    def get_total_actions(self) -> int:
        return self.n_actions

    def get_env_info(self) -> dict[str, Any]:
        return {
            "state_shape": self.get_state_size(),
            "obs_shape": self.get_obs_size(),
            "n_actions": self.n_actions,
            "n_agents": self.n_agents,
            "episode_limit": self.episode_limit,
            "agent_features": self.ally_state_attr_names,
            "enemy_features": self.enemy_state_attr_names,
        }

    def get_stats(self) -> dict[str, Any]:
        return {
            "battles_won": self.battles_won,
            "battles_game": self.battles_game,
            "battles_draw": self.timeouts,
            "win_rate": self.battles_won / max(self.battles_game, 1),
            "timeouts": self.timeouts,
            "restarts": 0,
        }

    def seed(self) -> int:
        return self._seed

    def save_replay(self) -> None:
        raise InputError("The simulator writes no replays of StarCraft II: use `rspo play --gif`.")

    def render(self, mode: str = "human") -> None:
        raise InputError("The simulator has no window: use `rspo play` or the report.")

    def close(self) -> None:
        """Nothing to close."""
