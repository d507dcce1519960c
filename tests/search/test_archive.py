"""The archive as a list, as references for the next iteration, and its strategies as players."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import plain
from plain import evaluation
from rspo.config import Config, Judge
from rspo.core.distributions import Categorical
from rspo.errors import InputError
from rspo.methods.references import Measure
from rspo.search.archive import Archive, Strategy


def strategy(index, status="novel", normalizer=True):
    rng = np.random.default_rng(index)
    return Strategy(
        index=index,
        status=status,
        evaluation=evaluation(1.0, f"goal {index}"),
        policy=plain.random_policy(rng, normalizer=normalizer),
        threshold=10.0 + index,
        memory={"w": np.full(2, index, np.float32)},
        attempt=1,
    )


CONFIG = Config("probe", iterations=5, measure=Measure(cap=3.0))


def filled(*statuses, references="all"):
    config = dataclasses.replace(CONFIG, judge=Judge(references=references))
    return Archive(config, [strategy(i, status) for i, status in enumerate(statuses)])


# --- a list ---


def test_strategies_are_found_by_number_or_name():
    found = filled("novel", "duplicate", "failed", "novel")
    assert [found.find(which).index for which in (0, "3", "goal 1", "GOAL 2")] == [0, 3, 1, 2]


def test_of_several_with_one_name_the_novel_one_is_found():
    named = lambda index, status, name: dataclasses.replace(
        strategy(index, status), evaluation=evaluation(1.0, name)
    )
    statuses = ("failed", "duplicate", "novel", "novel")
    found = Archive(CONFIG, [named(i, status, "up") for i, status in enumerate(statuses)])
    assert found.find("up").index == 2
    assert Archive(CONFIG, found[:2]).find("up").index == 0
    assert Archive(CONFIG, [named(0, "novel", "7")]).find("7").index == 0  # a name that is a number


@pytest.mark.parametrize(
    ("which", "words"),
    [
        (4, "There is no strategy 4: there are 0 to 3."),
        ("4", "There is no strategy 4: there are 0 to 3."),
        ("-1", "There is no strategy -1: there are 0 to 3."),
        ("gaol 2", "Did you mean 'goal 2'?"),
        ("down", "Allowed: goal 0, goal 1, goal 2, goal 3."),
        ("", "There is no strategy ''."),
    ],
)
def test_a_strategy_that_is_not_there_is_answered_with_those_that_are(which, words):
    with pytest.raises(InputError, match=re.escape(words)):
        filled(*["novel"] * 4).find(which)


def test_where_there_are_no_names_numbers_are_asked_for():
    unnamed = Archive(
        CONFIG, [dataclasses.replace(strategy(i), evaluation=evaluation(1.0)) for i in range(2)]
    )
    with pytest.raises(InputError, match=r"no names, give a number: there are 0 to 1\."):
        unnamed.find("down")


def test_an_archive_reads_like_a_list():
    archive = filled("novel", "duplicate", "failed", "novel")
    assert len(archive) == 4
    assert archive.distinct == 2
    assert [s.index for s in archive] == [0, 1, 2, 3]
    assert archive[-1].index == 3
    assert [s.index for s in archive[:2]] == [0, 1]
    assert archive[1].descriptor == "goal 1"
    assert not archive.interrupted
    assert "4 strategies" in repr(archive)
    assert "2 distinct" in repr(archive)


def test_add_says_what_the_strategy_was_judged_to_be():
    archive = filled()
    assert archive.add(strategy(0)) == "novel"
    assert archive.add(strategy(1, "failed")) == "failed"
    assert len(archive) == 2


def test_replace_puts_a_strategy_in_the_place_of_its_index():
    archive = filled("novel", "novel")
    archive.replace(dataclasses.replace(archive[1], status="failed"))
    assert [s.status for s in archive] == ["novel", "failed"]


# --- references ---

TEMPLATE = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, strategy(0).policy))
MEMORY = {"w": jax.ShapeDtypeStruct((2,), jnp.float32)}


def test_a_policy_that_repeats_another_is_no_reference_unless_all_are():
    """By distance alone: neither names nor the verdict that they enter count."""
    near = dataclasses.replace(
        strategy(1, "duplicate"),
        evaluation=dataclasses.replace(evaluation(1.0, "goal 1"), accepted_by=(0.4,)),
    )
    far = dataclasses.replace(
        strategy(2, "duplicate"),
        evaluation=dataclasses.replace(evaluation(1.0, "goal 0"), accepted_by=(0.5, 0.9)),
    )
    config = dataclasses.replace(CONFIG, judge=Judge(references="distant"))
    found = Archive(config, [strategy(0), near, far, strategy(3, "failed")])
    assert [kept.index for kept in found.kept] == [0, 2]


@pytest.mark.parametrize("references", ["all", "novel"])
def test_references_hold_the_kept_policies_in_order_and_zeros_after_them(references):
    archive = filled("novel", "duplicate", "failed", "novel", references=references)
    kept = [0, 1, 2, 3] if references == "all" else [0, 3]
    found = archive.references(TEMPLATE, MEMORY)
    assert found.capacity == 8
    assert found.measure == CONFIG.measure
    np.testing.assert_array_equal(found.mask, np.arange(8) < len(kept))
    np.testing.assert_array_equal(found.threshold[: len(kept)], [10.0 + i for i in kept])
    np.testing.assert_array_equal(found.memory["w"][: len(kept), 0], kept)
    for place, index in enumerate(kept):
        own = jax.tree.map(lambda leaf, place=place: leaf[place], found.policies)
        jax.tree.map(np.testing.assert_array_equal, own, archive[index].policy)
    for leaf in jax.tree.leaves((found.policies, found.memory)):
        assert not leaf[len(kept) :].any()


@pytest.mark.parametrize(("counts", "places"), [(range(9), 8), (range(9, 17), 16), ([17], 32)])
def test_references_have_the_same_shapes_and_types_while_there_are_places(counts, places):
    describe = lambda tree: jax.tree.map(lambda leaf: (leaf.shape, str(leaf.dtype)), tree)
    shapes = [describe(filled(*["novel"] * n).references(TEMPLATE, MEMORY)) for n in counts]
    assert all(shape == shapes[0] for shape in shapes)
    assert shapes[0].mask == ((places,), "bool")


# --- playing ---

BATCHES = pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (2, 1, 3), (0,)])


@BATCHES
@pytest.mark.parametrize("normalizer", [True, False])
def test_act_takes_any_batch_shape(shape, normalizer):
    player = strategy(0, normalizer=normalizer)
    obs = np.random.default_rng(0).standard_normal((*shape, 3))
    for greedy in (True, False):
        action = player.act(obs, rng=np.random.default_rng(1), greedy=greedy)
        assert isinstance(action, np.ndarray)
        assert action.shape == shape
        assert action.dtype == np.int32
        assert ((action >= 0) & (action < 4)).all()


def test_greedy_actions_are_the_likeliest():
    player, obs = strategy(3), np.random.default_rng(0).standard_normal((50, 3))
    likeliest = [plain.log_probs(player.policy, o).argmax() for o in obs]
    np.testing.assert_array_equal(player.act(obs, greedy=True), likeliest)


def test_a_seeded_generator_makes_actions_repeatable():
    player, obs = strategy(0), np.random.default_rng(0).standard_normal((200, 3))
    first, again, other = (player.act(obs, rng=np.random.default_rng(seed)) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert (player.act(obs) != player.act(obs)).any()  # without one, every call draws anew


def test_actions_have_the_policys_probabilities():
    player, obs = strategy(0), np.array([0.3, -0.2, 0.5])
    probabilities = np.exp(plain.log_probs(player.policy, obs))
    drawn = player.act(np.broadcast_to(obs, (20_000, 3)), rng=np.random.default_rng(0))
    deviation = np.sqrt(probabilities * (1 - probabilities) / 20_000)
    assert (np.abs(np.bincount(drawn, minlength=4) / 20_000 - probabilities) <= 4 * deviation).all()


def test_act_takes_lists_and_integers():
    player = strategy(0)
    assert player.act([1, 2, 3], greedy=True) == player.act(np.array([1.0, 2.0, 3.0]), greedy=True)


@pytest.mark.parametrize("obs", [0.0, np.zeros(2), np.zeros((3, 4)), np.zeros((0,))])
def test_act_refuses_another_observation_size_in_a_sentence(obs):
    with pytest.raises(ValueError, match="last axis must be the 3 observed numbers"):
        strategy(0).act(obs)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("greedy", [True, False])
def test_act_refuses_what_is_no_number_and_says_where(value, greedy):
    obs = np.zeros((2, 5, 3))
    obs[1, 4, 2] = value
    with pytest.raises(
        ValueError,
        match=rf"obs\[1, 4, 2\] is {re.escape(str(value))}, but every .* must be finite\.",
    ):
        strategy(0).act(obs, greedy=greedy)
    with pytest.raises(ValueError, match=r"obs\[2\] is"):
        strategy(0).act(obs[1, 4].tolist())


@pytest.mark.parametrize("obs", [["a", "b", "c"], [None, 1, 2], [1j, 0, 0], "abc", [{}, {}, {}]])
def test_act_refuses_what_are_no_real_numbers(obs):
    with pytest.raises(ValueError, match=r"obs has numbers of type .*, but they must be real\."):
        strategy(0).act(obs)
    with pytest.raises(ValueError, match="its parts differ in shape"):
        strategy(0).act([[1, 2, 3], [1, 2]])


def test_a_seed_is_as_good_as_a_generator():
    player, obs = strategy(0), np.random.default_rng(0).standard_normal((200, 3))
    for seed in (0, np.int64(7)):
        expected = player.act(obs, rng=np.random.default_rng(seed))
        np.testing.assert_array_equal(player.act(obs, rng=seed), expected)
        np.testing.assert_array_equal(player.act(obs, rng=seed), expected)
    generator = np.random.default_rng(0)
    assert (player.act(obs, rng=generator) != player.act(obs, rng=generator)).any()  # it goes on


@pytest.mark.parametrize("rng", [-1, 0.5, "zero", object()])
def test_what_is_neither_a_seed_nor_a_generator_is_refused(rng):
    with pytest.raises(
        ValueError, match=r"^rng is .*, but it must be a seed \(a whole number, 0 or more\)"
    ):
        strategy(0).act(np.zeros(3), rng=rng)


def test_act_computes_in_numpy_what_training_computes_in_jax():
    player, obs = strategy(0), np.random.default_rng(0).standard_normal((100, 3)).astype(np.float32)
    uniform = np.random.default_rng(5).random(100, dtype=np.float32)
    logits = jax.tree.map(jnp.asarray, player.policy)(jnp.asarray(obs)).logits
    cumulative = np.cumsum(np.exp(Categorical(logits).log_probs), -1)
    safe = np.abs(cumulative - uniform[:, None]).min(-1) > 1e-5
    expected = np.asarray(Categorical(logits).sample(jnp.asarray(uniform)))
    np.testing.assert_array_equal(
        player.act(obs, rng=np.random.default_rng(5))[safe], expected[safe]
    )
