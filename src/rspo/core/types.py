"""The records that pass between the packages. Axes, in this order wherever they occur:

P population, T time, N environments, A agents, C channels, R references.
A is always there (1 for one agent); agents are homogeneous and share one policy.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from rspo.core.spaces import ActionSpace


class Spec(NamedTuple):
    """The static description of an environment."""

    obs_size: int
    action_space: ActionSpace
    horizon: int
    """Steps after which an episode is truncated; the length of every trajectory."""
    agents: int = 1
    reset_noise: int = 0
    """Uniform numbers in [0, 1) that one reset consumes."""
    step_noise: int = 0
    """Uniform numbers in [0, 1) that one step consumes."""
    state_size: int = 0
    """Size of the global state that a centralised critic sees; 0: it sees the policy's
    observation."""
    features: int = 0
    """Number of features of which an agent's reward is a weighted sum, for methods that draw other
    weights; 0: none."""


Padding = Literal["count", "drop", "restart"]
"""What happens when an episode ends before the horizon (`PPO.padding`)."""


class View(NamedTuple):
    """What policy and critic see; any axes may precede those given."""

    obs: Any  # [O]
    mask: Any = None  # [n] true for the choices that are allowed; None: all are
    state: Any = None  # [S] what a centralised critic sees; None: obs
    latent: Any = None  # [Z] what the method drew for the episode; None: nothing


def as_view(seen: Any) -> View:
    """Environments without masks and global states give plain observations."""
    return seen if isinstance(seen, View) else View(seen)


class Step(NamedTuple):
    """The result of one step of one environment. There is no automatic reset: `obs` is always the
    one after the action."""

    obs: Any  # [A, O], or a View of such arrays
    reward: Array  # [A]
    terminated: Array  # [] the task ended: no future reward exists
    alive: Any = None  # [A] agents that act in the next step; None: all do
    features: Any = None  # [A, F] of this step's reward
    # Truncation is not here: the collector truncates at `Spec.horizon`, and nothing else does.


class Samples(NamedTuple):
    """Single steps; the axes [T, N, A], or one axis of samples, precede those given. For a policy
    with memory the time axis of a sequence comes right after them (`rspo.core.sequences`)."""

    view: View
    action: Array  # [] a choice, or [D] numbers in the policy's units
    reward: Array  # []
    counted: Array  # [] whether it enters losses and likelihoods
    starts: Array  # [] whether an episode begins with it
    extra: Any = None  # from a method's score, for its loss


class Trajectory(eqx.Module):
    """A batch of episodes, one per column, all of the horizon's length. One that terminates early
    stays frozen until then, or, with the padding "restart", is followed by the next one."""

    view: View  # [T, N, A, ...] before the action
    action: Array  # [T, N, A] choices, or [T, N, A, D] numbers in the policy's units
    log_prob: Array | None  # [T, N, A] under the policy that acted; None for a host environment
    reward: Array  # [T, N, A]
    # [T, N] true from the terminating step on; with "restart", only at terminating steps
    terminated: Array
    live: Array  # [T, N] false on the frozen steps after termination
    # [T, N, A] the steps that enter losses and likelihoods: live ones of living agents, or those
    # after an early end too (`PPO.padding`)
    counted: Array
    last: View  # [N, A, ...] after the last action
    state: Any = None  # the environment's own states [T, N, ...] after each action, when recorded
    start: Any = None  # those before the first action [N, ...], when recorded
    # [T, N] true at a step after which a host environment truncated the episode before the horizon
    truncated: Any = None
    features: Any = None  # [T, N, A, F] where the environment has them
    seeds: Any = None  # [N] that a host environment's episodes began from, when recorded

    @property
    def obs(self) -> Any:
        return self.view.obs

    @property
    def samples(self) -> Samples:
        starts = jnp.broadcast_to(self.starts[..., None], self.reward.shape)
        return Samples(self.view, self.action, self.reward, self.counted, starts)

    @property
    def ended(self) -> Array:
        """[T, N] true where an episode ended before the horizon, or a host environment truncated
        it."""
        return self.terminated if self.truncated is None else self.terminated | self.truncated

    @property
    def starts(self) -> Array:
        """[T, N] true where an episode begins: at the first step, and after each early end with a
        restart."""
        ended = self.ended
        xp = ended.__array_namespace__()
        return xp.concat([xp.ones_like(ended[:1]), ended[:-1] & self.live[1:]])

    @property
    def first(self) -> Array:
        """[T, N] the steps of each column's first episode, over which returns are summed."""
        ended = self.ended
        xp = ended.__array_namespace__()
        before = xp.concat([xp.zeros_like(ended[:1]), ended[:-1]])
        return xp.cumulative_sum(xp.astype(before, xp.int32), axis=0) == 0

    @property
    def returns(self) -> Array:
        """[N, A] the undiscounted sum of each column's first episode."""
        return (self.reward * self.first[..., None]).sum(0)


class Descriptor(NamedTuple):
    """The name of the strategy that a batch of episodes shows, and the numbers behind the name."""

    label: str
    stats: Mapping[str, float]
    clear: bool = True
    """False if the episodes show no single strategy: such a label is distinct only for the first
    good policy."""


class Played(NamedTuple):
    """What `pictures` gets for each finished strategy."""

    label: str | None  # of its descriptor
    stats: Mapping[str, float]  # the same
    episodes: Callable[[], Trajectory]  # replays its greedy evaluation episodes, recorded (NumPy)


class Shape(NamedTuple):
    """One thing to draw, in the environment's coordinates: a disc, or a limb with round ends;
    roles in `roles.STRIPS` have flat ends."""

    role: str  # "agent", "goal", ...: renderers choose the colour by it
    x: float
    y: float
    size: float  # the radius of the disc, half the thickness of the limb
    label: str = ""
    end: tuple[float, float] | None = None  # where a limb that begins at (x, y) ends; None: a disc
