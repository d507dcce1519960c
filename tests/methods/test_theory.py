"""The paper's corollary, exactly: filtering and switching find M distinct global optima in M
iterations.

A small MDP with a fixed horizon and rewards >= 0 (`Rooms`: two random starts, three doors, two
steps in a room) and every deterministic policy of it. Each state belongs to one moment, so an
episode sees it at most once and any expectation over episodes is linear in each state's action
probabilities: its maximum over all policies, random ones included, is at a deterministic one. The
filter and the switching reward are the library's own.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rspo.core.types import Trajectory, View
from rspo.methods.base import Score
from rspo.methods.references import Measure, References, episode_nll
from rspo.methods.rspo import RSPO
from worlds import Rooms, Tabular

ENV = Rooms(doors=3, depth=2, starts=2)
# optima that differ at both starts: one for each door, whichever doors the starts are paired with
M = 3
BEST = 2.0
POLICIES = np.array(
    list(itertools.product(range(ENV.doors), repeat=ENV.states)), np.int32
)  # [6561, states]


def play_all() -> Trajectory:
    """Every policy from every start: the episodes of policy p are columns 2 p and 2 p + 1, equally
    likely."""
    chosen = jnp.repeat(jnp.asarray(POLICIES), ENV.starts, axis=0)
    noise = jnp.tile(jnp.asarray([[0.25], [0.75]]), (len(POLICIES), 1))
    state, obs = jax.vmap(ENV.reset)(noise)
    rows = []
    for _ in range(ENV.spec.horizon):
        action = jnp.take_along_axis(chosen, state[:, None], axis=1)
        state, step = jax.vmap(ENV.step)(state, action, jnp.zeros((len(chosen), 0)))
        rows.append((obs, action, step.reward))
        obs = step.obs
    observations, actions, rewards = (jnp.stack(column) for column in zip(*rows, strict=True))
    live, counted = jnp.ones(rewards.shape[:2], bool), jnp.ones(rewards.shape, bool)
    return Trajectory(
        View(observations),
        actions,
        jnp.zeros_like(rewards),
        rewards,
        ~live,
        live,
        counted,
        View(obs),
    )


EPISODES = play_all()
RETURN = np.asarray(EPISODES.reward.sum(0)).reshape(
    len(POLICIES), ENV.starts
)  # by policy and start


def soft(policy: np.ndarray, sharpness: float) -> np.ndarray:
    """The policy as a table of logits: its own action is likelier than each other by the factor
    e^sharpness."""
    return sharpness * np.eye(ENV.doors, dtype=np.float32)[policy]


def references(kept: list[int], sharpness: float, delta: float) -> References:
    tables = np.zeros((M, ENV.states, ENV.doors), np.float32)
    for place, policy in enumerate(kept):
        tables[place] = soft(POLICIES[policy], sharpness)
    threshold, mask = np.full(M, delta, np.float32), np.arange(M) < len(kept)
    zeros = np.zeros(M, np.float32)
    return References(
        Tabular(tables), threshold, returns=zeros, memory=(), mask=mask, measure=Measure()
    )


class Judged(NamedTuple):
    nll: np.ndarray  # [policies, starts, M]
    accepted: np.ndarray  # [policies, starts] phi of each episode


@jax.jit
def _judge(references: References) -> tuple[jax.Array, jax.Array]:
    nll = episode_nll(references.step_nll(EPISODES), references.measure)
    return nll, references.accepts(nll).all(-1)


def judged(references: References) -> Judged:
    nll, accepted = jax.device_get(_judge(references))
    return Judged(
        nll.reshape(len(POLICIES), ENV.starts, M), accepted.reshape(len(POLICIES), ENV.starts)
    )


unit_bonus = jax.jit(lambda references: RSPO(lambda_b=1.0).score((), EPISODES, references, 0.0))
no_bonus = jax.jit(lambda references: RSPO(lambda_b=0.0).score((), EPISODES, references, 0.0))


def expected(score: Score) -> np.ndarray:
    """E[sum_t r_t] of each policy under the library's rewards."""
    return (
        np.asarray(score.reward.sum((0, 2, 3)), np.float64)
        .reshape(len(POLICIES), ENV.starts)
        .mean(1)
    )


def objective(references: References, lam: float) -> np.ndarray:
    """J_switch of each policy; J_filter where lam is 0. The bonus is linear in lambda, so one
    program serves all."""
    filtered = expected(no_bonus(references))
    return filtered if lam == 0 else filtered + lam * (expected(unit_bonus(references)) - filtered)


def nll_of_differences(sharpness: float) -> tuple[float, float]:
    """-log pi_j of the action that pi_j prefers, and of another."""
    total = np.exp(sharpness) + ENV.doors - 1
    return np.log(total) - sharpness, np.log(total)


def largest_delta(sharpness: float) -> float:
    """The least NLL between optima that take different doors at both starts: they may agree at all
    other states."""
    same, other = nll_of_differences(sharpness)
    return other + ENV.depth * same - 1e-4


def largest_lambda(kept: list[int], sharpness: float, delta: float) -> float:
    """Delta / (k delta) of the second theorem's proof."""
    accepted = judged(references(kept, sharpness, delta)).accepted
    infeasible = ~accepted.all(1)
    earned = (RETURN * accepted).mean(1)
    return (RETURN.mean(1).max() - earned[infeasible].max()) / (len(kept) * delta)


def iterate(sharpness: float, delta: float, order: np.ndarray, share: float) -> list[int]:
    """M rounds of the argmax; `order` breaks ties, lambda is `share` of the largest that the
    theorem allows."""
    kept: list[int] = []
    for _ in range(M):
        lam = share * largest_lambda(kept, sharpness, delta) if kept and share else 0.0
        value = objective(references(kept, sharpness, delta), lam)
        best = np.flatnonzero(value > value.max() - 1e-5)
        kept.append(int(best[order[best].argmin()]))
    return kept


def doors(policy: int) -> tuple[int, ...]:
    return tuple(POLICIES[policy, : ENV.starts])


def test_the_assumptions_hold():
    """Rewards >= 0; every episode of an optimum earns something; there are M optima as far apart as
    delta."""
    assert (np.asarray(EPISODES.reward) >= 0).all()
    mean = RETURN.mean(1)
    assert mean.max() == BEST
    assert (RETURN[mean == BEST] > 0).all()
    sharpness = 3.0
    delta = largest_delta(sharpness)
    optima = [
        next(p for p in np.flatnonzero(mean == BEST) if doors(p) == (door, door))
        for door in range(M)
    ]
    nll = judged(references(optima, sharpness, delta)).nll
    for i, j in itertools.permutations(range(M), 2):
        assert nll[optima[i], :, j].min() >= delta


SHARPNESS = st.floats(1.0, 12.0)
ORDERS = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).permutation(len(POLICIES))
)


@pytest.mark.parametrize(
    "share", [0.0, 0.5, 1.0], ids=["filtering", "switching", "switching-at-the-bound"]
)
@settings(max_examples=15)
@given(sharpness=SHARPNESS, order=ORDERS, part=st.floats(0.6, 1.0))
def test_m_iterations_find_m_distinct_global_optima(share, sharpness, order, part):
    """Whatever the ties' order, the references' sharpness and the threshold within what the
    assumptions allow."""
    same, _ = nll_of_differences(sharpness)
    repeated = (
        ENV.spec.horizon * same
    )  # the NLL of a policy's own episodes, which must stay below delta
    delta = repeated + part * (largest_delta(sharpness) - repeated)
    found = iterate(sharpness, delta, order, share)
    assert (RETURN[found] == BEST).all()
    for start in range(ENV.starts):
        assert {doors(policy)[start] for policy in found} == set(range(M))
    # Each keeps its distance from all the earlier ones, in every one of its episodes.
    for k in range(1, M):
        assert judged(references(found[:k], sharpness, delta)).accepted[found[k]].all()


@settings(max_examples=5)
@given(sharpness=SHARPNESS, order=ORDERS)
def test_without_the_filter_the_same_optimum_is_found_again(sharpness, order):
    found = iterate(sharpness, 0.0, order, 0.0)  # a threshold of 0 rejects nothing
    assert len(set(found)) == 1


@settings(max_examples=5)
@given(sharpness=st.floats(1.0, 2.0), order=ORDERS)
def test_beyond_the_bound_rejected_episodes_can_be_worth_more_than_any_optimum(sharpness, order):
    """Why lambda is bounded: with a large one the argmax is a policy that the first reference
    rejects."""
    delta = largest_delta(sharpness)
    first = int(order[RETURN[order].mean(1) == BEST][0])
    kept = references([first], sharpness, delta)
    lam = 10 * BEST / (ENV.spec.horizon * nll_of_differences(sharpness)[0])
    chosen = int(objective(kept, lam).argmax())
    assert not judged(kept).accepted[chosen].all()


@settings(max_examples=10)
@given(sharpness=SHARPNESS, order=ORDERS, count=st.integers(0, M))
def test_the_librarys_filter_is_the_one_of_the_theorem(sharpness, order, count):
    """phi and the switching objective once more, episode by episode from the actions alone."""
    kept = [int(p) for p in order[:count]]
    delta = largest_delta(sharpness)
    found = judged(references(kept, sharpness, delta))
    same, other = nll_of_differences(sharpness)
    values = objective(references(kept, sharpness, delta), 0.3)
    for policy in order[-20:]:
        total = 0.0
        for start in range(ENV.starts):
            door = POLICIES[policy, start]
            visited = [
                start,
                *(ENV.starts + door * ENV.depth + moment for moment in range(ENV.depth)),
            ]
            nll = [
                sum(same if POLICIES[policy, s] == POLICIES[j, s] else other for s in visited)
                for j in kept
            ]
            np.testing.assert_allclose(found.nll[policy, start, :count], nll, rtol=1e-4, atol=1e-4)
            accepted = all(n >= delta for n in nll)
            assert found.accepted[policy, start] == accepted
            paid = sum(POLICIES[policy, s] == door for s in visited[1:])
            total += accepted * paid + 0.3 * sum(n for n in nll if n < delta)
        np.testing.assert_allclose(values[policy], total / ENV.starts, rtol=1e-3, atol=1e-3)
