"""RSPO's reward switching against the paper's equation, for every way of switching."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
from rspo.core.spaces import Discrete
from rspo.core.types import Spec
from rspo.errors import InputError
from rspo.methods.base import Method
from rspo.methods.references import Measure
from rspo.methods.reward_model import RewardModel
from rspo.methods.rspo import RSPO, paid_at_the_end

CAPACITY, ACTIONS, OBS = 3, 4, 3
SPEC = Spec(OBS, Discrete(ACTIONS), horizon=5)
SEEDS = st.integers(0, 2**32 - 1)

score = jax.jit(
    lambda method, trajectory, references, progress=0.0: method.score(
        (), trajectory, references, progress
    ),
    static_argnames="method",
)

EVERY_SWITCH = [
    RSPO(lambda_b=0.7, lambda_r=0.3, switch=switch, rejected=rejected, streams=streams)
    for switch, rejected, streams in itertools.product(
        ("hard", "smooth", "off"), ("zero", "mask"), ("single", "grouped", "per-reference")
    )
]
# Each choice of one kind with each of another, where the three together add nothing.
SOME_SWITCHES = [
    RSPO(lambda_b=0.7, lambda_r=0.3, switch=switch, rejected=rejected, streams=streams)
    for switch, rejected, streams in (
        ("hard", "zero", "single"),
        ("hard", "mask", "grouped"),
        ("smooth", "zero", "grouped"),
        ("smooth", "mask", "per-reference"),
        ("off", "zero", "per-reference"),
        ("off", "mask", "single"),
    )
]
EVERY_KIND = [
    RSPO(lambda_b=lambda_b, lambda_r=lambda_r, streams=streams)
    for streams in ("single", "grouped", "per-reference")
    for lambda_b, lambda_r in ((2.0, 0.0), (0.0, 2.0), (0.0, 0.0))
]


def name(method):
    return f"{method.switch}-{method.rejected}-{method.streams}-{method.lambda_b}-{method.lambda_r}"


class Case:
    """A random batch, references and reward models, with the plain NLLs and errors under each."""

    def __init__(self, seed, kept, padding=True, measure=None, capacity=CAPACITY, outlier=1.0):
        rng = np.random.default_rng(seed)
        self.measure = measure or Measure()
        self.trajectory = plain.random_trajectory(rng, obs=OBS, actions=ACTIONS, padding=padding)
        self.trajectory.reward[:, 0] *= outlier
        self.policies = [plain.random_policy(rng, OBS, ACTIONS) for _ in range(CAPACITY)]
        self.models = [
            RewardModel(plain.random_mlp(rng, (OBS + ACTIONS, 5, 1)), Discrete(ACTIONS))
            for _ in range(CAPACITY)
        ]
        self.nll = [
            plain.step_nll(policy, self.trajectory, self.measure.cap)
            for policy in self.policies[:kept]
        ]
        self.error = [
            plain.reward_error(model, self.trajectory, self.measure.cap)
            for model in self.models[:kept]
        ]
        sums = [plain.episode_nll(steps, self.measure.discount) for steps in self.nll]
        self.threshold = [plain.between(rng, total) for total in sums]
        self.references = plain.references(
            self.policies, self.threshold, capacity, kept, memory=self.models, measure=self.measure
        )

    def wanted(self, method):
        reward = (
            self.trajectory.reward
            if method.paid == "step"
            else plain.paid_at_the_end(self.trajectory)
        )
        return plain.score(
            method, reward, self.nll, self.error, self.threshold, self.measure.discount
        )


def places(method, kept, capacity):
    """The channels that belong to kept references (or to none), out of those for `capacity`
    references."""
    kinds = (method.lambda_b > 0) + (method.lambda_r > 0)
    if method.streams != "per-reference":
        return list(range(len(method.channels(capacity))))
    return [0, *(1 + kind * capacity + j for kind in range(kinds) for j in range(kept))]


def check(method, case, kept):
    found = score(method, case.trajectory, case.references)
    reward, weight = case.wanted(method)
    channels = places(method, kept, CAPACITY)
    assert found.reward.shape[-1] == found.weight.shape[-1] == len(method.channels(CAPACITY))
    np.testing.assert_allclose(found.weight[..., channels], weight, rtol=1e-4, atol=1e-5)
    counts = weight.any((0, 1, 2))  # rewards of a stream without weight do not matter
    np.testing.assert_allclose(
        (found.reward[..., channels] * counts), reward * counts, rtol=1e-3, atol=1e-4
    )
    empty = [c for c in range(len(method.channels(CAPACITY))) if c not in channels]
    assert not found.reward[..., empty].any()
    assert not found.weight[..., empty].any()


@pytest.mark.slow
@pytest.mark.parametrize("method", EVERY_SWITCH + EVERY_KIND, ids=name)
@settings(max_examples=15)
@given(seed=SEEDS, kept=st.integers(0, CAPACITY), padding=st.booleans())
def test_the_score_is_the_papers_switching_reward(method, seed, kept, padding):
    check(method, Case(seed, kept, padding), kept)


@pytest.mark.parametrize("streams", ["grouped", "per-reference"])
@settings(max_examples=15)
@given(seed=SEEDS, kept=st.integers(0, CAPACITY), padding=st.booleans())
def test_the_task_may_be_paid_at_the_end(streams, seed, kept, padding):
    """It then does not bootstrap past the end; intrinsic rewards, paid step by step, do."""
    method, case = (
        RSPO(lambda_b=0.7, lambda_r=0.3, paid="end", streams=streams),
        Case(seed, kept, padding),
    )
    check(method, case, kept)
    task, *intrinsic = method.channels(CAPACITY)
    assert task == "settled"
    assert set(intrinsic) == {"episodic"}


@pytest.mark.slow
@given(seed=SEEDS)
def test_every_episode_of_a_column_is_paid_at_its_own_end(seed):
    """Where episodes follow on one another, and a host environment may cut them short."""
    rng = np.random.default_rng(seed)
    trajectory = plain.random_trajectory(rng, steps=9)
    terminated, truncated = rng.random((2, *trajectory.live.shape)) < 0.2
    restarted = dataclasses.replace(
        trajectory,
        reward=rng.standard_normal(trajectory.reward.shape).astype(np.float32),
        terminated=terminated,
        truncated=truncated,
        live=np.cumsum(truncated, 0) - truncated
        == 0,  # a host environment that cuts short does not go on
    )
    found = paid_at_the_end(jax.tree.map(jax.numpy.asarray, restarted))
    np.testing.assert_allclose(found, plain.paid_at_the_end(restarted), rtol=1e-4, atol=1e-5)


@settings(max_examples=15)
@given(seed=SEEDS, kept=st.integers(0, CAPACITY), padding=st.booleans())
def test_cap_and_discount_enter_the_switch_and_the_cap_the_reward(seed, kept, padding):
    """The filter sees the discounted sum of capped steps; intrinsic rewards are capped but not
    discounted."""
    measure = Measure(cap=1.5, discount=0.8)
    check(RSPO(lambda_b=0.7, lambda_r=0.3), Case(seed, kept, padding, measure), kept)


@settings(max_examples=15)
@given(seed=SEEDS, kept=st.integers(0, CAPACITY), outlier=st.sampled_from([1.0, 30.0]))
def test_errors_can_be_scaled_by_the_size_of_their_sums_in_the_batch(seed, kept, outlier):
    """By their mean or their deviation, whichever is larger; with an outlier it is the
    deviation."""
    measure = Measure(discount=0.8)
    case = Case(seed, kept, measure=measure, outlier=outlier)
    for j, error in enumerate(case.error):
        total = plain.episode_nll(error, measure.discount)
        case.error[j] = error / max(total.mean(), total.std())
    check(RSPO(lambda_b=0.7, lambda_r=0.3, error_scale="batch"), case, kept)


@pytest.mark.slow
@pytest.mark.parametrize("streams", ["single", "grouped", "per-reference"])
@pytest.mark.parametrize("switch", ["hard", "smooth"])
@settings(max_examples=15)
@given(seed=SEEDS, kept=st.integers(0, CAPACITY))
def test_empty_places_change_nothing(streams, switch, seed, kept):
    """An archive of capacity 7 gives the same score as one of capacity 3, whatever the empty places
    hold."""
    method = RSPO(lambda_b=0.7, lambda_r=0.3, switch=switch, streams=streams)
    small, large = Case(seed, kept), Case(seed, kept, capacity=7)
    one, other = (score(method, case.trajectory, case.references) for case in (small, large))
    chosen, others = places(method, kept, CAPACITY), places(method, kept, 7)
    np.testing.assert_allclose(
        one.reward[..., chosen], other.reward[..., others], rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        one.weight[..., chosen], other.weight[..., others], rtol=1e-5, atol=1e-6
    )
    for metric in ("accepted", "intrinsic"):
        np.testing.assert_allclose(one.metrics[metric], other.metrics[metric], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        one.metrics["accepted_by"][:kept], other.metrics["accepted_by"][:kept]
    )


@settings(max_examples=15)
@given(seed=SEEDS, kept=st.integers(1, CAPACITY))
def test_metrics_say_what_was_accepted(seed, kept):
    case, method = Case(seed, kept), RSPO(lambda_b=0.5)
    metrics = score(method, case.trajectory, case.references).metrics
    phi_j = np.stack(
        [plain.episode_nll(s) >= d for s, d in zip(case.nll, case.threshold, strict=True)], -1
    )
    np.testing.assert_allclose(metrics["accepted"], phi_j.all(-1).mean(), rtol=1e-6)
    np.testing.assert_allclose(metrics["accepted_by"][:kept], phi_j.mean((0, 1)), rtol=1e-6)
    bonus = sum(0.5 * (1 - phi_j[..., j]) * case.nll[j] for j in range(kept))
    np.testing.assert_allclose(metrics["intrinsic"], bonus.mean(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", SOME_SWITCHES, ids=name)
def test_without_references_every_variant_is_plain_reinforcement_learning(method):
    case = Case(0, 0)
    found = score(method, case.trajectory, case.references)
    plain_rl = Method().score((), case.trajectory, case.references, 0.0)
    np.testing.assert_array_equal(found.reward[..., :1], plain_rl.reward)
    np.testing.assert_array_equal(found.weight[..., :1], plain_rl.weight)
    assert not found.weight[..., 1:].any()
    assert float(found.metrics["accepted"]) == 1.0


@pytest.mark.parametrize("streams", ["single", "grouped", "per-reference"])
def test_if_all_is_rejected_nothing_is_divided_by_zero(streams):
    case = Case(0, 2)
    all_rejected = plain.references(case.policies, [1e6, 1e6], CAPACITY, 2, memory=case.models)
    found = score(RSPO(rejected="mask", streams=streams), case.trajectory, all_rejected)
    assert np.isfinite(found.reward).all()
    assert not found.weight[..., 0].any()
    zeroed = score(
        RSPO(rejected="zero", streams="grouped", lambda_b=0.0), case.trajectory, all_rejected
    )
    assert not zeroed.reward.any()


@pytest.mark.slow
@pytest.mark.parametrize("method", SOME_SWITCHES, ids=name)
def test_after_its_release_an_iteration_is_plain_reinforcement_learning(method):
    """The soft objective has no filter to lift, but intrinsic rewards to end; what would be
    accepted is still told."""
    case, method = Case(0, 2), dataclasses.replace(method, release=0.25)
    before, after = (
        score(method, case.trajectory, case.references, progress) for progress in (0.74, 0.76)
    )
    paper = score(dataclasses.replace(method, release=0.0), case.trajectory, case.references, 0.99)
    np.testing.assert_array_equal(before.reward, paper.reward)
    np.testing.assert_array_equal(before.weight, paper.weight)
    assert after.metrics["accepted"] == paper.metrics["accepted"] < 1
    np.testing.assert_array_equal(after.metrics["accepted_by"], paper.metrics["accepted_by"])
    np.testing.assert_array_equal(after.reward[..., 0], case.trajectory.reward)
    assert (after.weight[..., 0] == 1).all()
    assert not after.weight[..., 1:].any()
    assert after.metrics["intrinsic"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("switch", ["hard", "smooth"])
def test_before_its_gate_the_reward_driven_term_counts_whatever_is_accepted(switch):
    """As under references that reject all; the other streams are as the filter says, and after it
    everything is."""
    case, paper = Case(0, 2), RSPO(switch=switch, lambda_r=0.5, streams="per-reference")
    method = dataclasses.replace(paper, ungated=0.25)
    all_rejected = plain.references(case.policies, [1e6, 1e6], CAPACITY, 2, memory=case.models)
    before, after = (
        score(method, case.trajectory, case.references, progress) for progress in (0.24, 0.26)
    )
    gated, rejected = (
        score(paper, case.trajectory, references) for references in (case.references, all_rejected)
    )
    np.testing.assert_array_equal(after.weight, gated.weight)
    np.testing.assert_array_equal(after.reward, gated.reward)
    driven = slice(1 + CAPACITY, None)  # the task's stream, the behaviour-driven ones, then these
    np.testing.assert_array_equal(before.weight[..., driven], rejected.weight[..., driven])
    np.testing.assert_array_equal(before.reward[..., driven], rejected.reward[..., driven])
    np.testing.assert_array_equal(
        before.weight[..., : 1 + CAPACITY], gated.weight[..., : 1 + CAPACITY]
    )
    assert (before.weight[..., driven] != gated.weight[..., driven]).any()
    assert not before.weight[..., 1 + CAPACITY + 2 :].any()  # room without a reference


@pytest.mark.slow
@pytest.mark.parametrize(("every", "with_one"), [(1, [1, 2, 3]), (2, [1, 3]), (3, [1])])
def test_some_iterations_have_no_ungated_part(every, with_one):
    method = RSPO(lambda_r=0.5, ungated=1.0, ungated_every=every, streams="grouped")
    cases = {kept: Case(0, kept) for kept in range(CAPACITY + 1)}
    scores = {kept: score(method, case.trajectory, case.references) for kept, case in cases.items()}
    ungated = [
        kept
        for kept, found in scores.items()
        if kept and (found.weight[..., 2] == 0.5 * kept).all()
    ]
    assert ungated == with_one
    for kept in cases.keys() - with_one:
        paper = dataclasses.replace(method, ungated=0.0)
        gated = score(paper, cases[kept].trajectory, cases[kept].references)
        np.testing.assert_array_equal(scores[kept].weight, gated.weight)
        np.testing.assert_array_equal(scores[kept].reward, gated.reward)


@pytest.mark.parametrize(
    "settings",
    [
        {"rejected": "mask", "streams": "grouped"},
        {"switch": "off"},
        {"streams": "single", "lambda_b": 1.0},
    ],
)
def test_what_paying_at_the_end_does_not_go_with(settings):
    with pytest.raises(InputError, match=r"method\.paid"):
        RSPO(**{"paid": "end", "lambda_b": 0.0} | settings).validate()
    RSPO(paid="end", lambda_b=0.0).validate()


def test_masking_a_single_stream_would_mask_the_intrinsic_reward_too():
    with pytest.raises(InputError, match=r"method\.rejected .* method\.streams"):
        RSPO(rejected="mask", streams="single", lambda_b=0.0, lambda_r=1.0).validate()
    for method in (
        RSPO(rejected="mask", lambda_b=0.0),
        RSPO(rejected="mask", switch="off"),
        RSPO(),
    ):
        method.validate()


def test_smoothed_switching_is_exactly_off_where_nothing_is_rejected():
    """A rounding error in its place would switch the intrinsic streams' value heads on, or turn
    their sign."""
    rng = np.random.default_rng(0)
    references = plain.references([plain.random_policy(rng)], [-1.0], 1)
    for episodes in (41, 512):  # in single precision 41 times 1/41 is not 1
        trajectory = plain.random_trajectory(rng, steps=2, episodes=episodes, agents=1)
        found = score(RSPO(switch="smooth", streams="grouped"), trajectory, references)
        np.testing.assert_array_equal(found.reward[..., 0], trajectory.reward)
        assert not found.reward[..., 1].any()
        assert not found.weight[..., 1].any()


def test_agents_are_filtered_each_by_its_own_likelihood():
    """One agent that repeats a reference is rejected while the other, in the same episode, is
    not."""
    rng = np.random.default_rng(0)
    trajectory, policy = (
        plain.random_trajectory(rng, steps=3, episodes=1, agents=2),
        plain.random_policy(rng),
    )
    actions = np.asarray(policy(trajectory.obs).logits)
    copied = np.stack([actions[..., 0, :].argmax(-1), actions[..., 1, :].argmin(-1)], -1)
    trajectory = dataclasses.replace(trajectory, action=copied.astype(np.int32))
    sums = plain.episode_nll(plain.step_nll(policy, trajectory))[0]
    assert sums[0] < sums[1]
    references = plain.references([policy], [sums.mean()], 1)
    found = score(RSPO(lambda_b=0.0), trajectory, references)
    assert not found.reward[:, 0, 0].any()
    np.testing.assert_array_equal(found.reward[:, 0, 1, 0], trajectory.reward[:, 0, 1])
