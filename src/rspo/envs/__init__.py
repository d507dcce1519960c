"""One world a file; importing this package registers them by name."""

from rspo.env import register
from rspo.envs.escalation import Escalation
from rspo.envs.four_goals import FourGoals
from rspo.envs.monster_hunt import MonsterHunt
from rspo.envs.mujoco import Mujoco

register("four-goals-easy", lambda: FourGoals("easy"), "reach one of four fixed landmarks")
register("four-goals-medium", lambda: FourGoals("medium"), "reach one of four landmarks placed at random")
register("four-goals-hard", lambda: FourGoals("hard"), "as medium, with smaller landmarks worth more")
register("monster-hunt", MonsterHunt, "two agents: hunt a monster together, or eat apples alone")
register("escalation", Escalation, "two agents: follow a light together; whoever follows alone pays")
register("half-cheetah", lambda: Mujoco("half-cheetah"), "MuJoCo: run; nothing ends an episode")
register("hopper", lambda: Mujoco("hopper"), "MuJoCo: hop on one leg without falling")
register("walker2d", lambda: Mujoco("walker2d"), "MuJoCo: walk on two legs without falling")
register("humanoid", lambda: Mujoco("humanoid"), "MuJoCo: walk as a humanoid without falling")
