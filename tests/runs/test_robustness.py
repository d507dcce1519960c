"""The harnesses that end real runs and that damage what commands read: a part of what `python
tests/kills.py` and `python tests/fuzz.py` do, and that they would notice."""

import shutil
from pathlib import Path

import pytest

import fuzz
import kills
from product import Outcome

SENTENCE = "rspo: It is not.\n"


@pytest.mark.slow
def test_a_run_that_is_ended_over_and_over_comes_to_the_same_bytes(tmp_path: Path) -> None:
    harness = kills.kill(tmp_path, 5, seed=1)
    assert harness.ended.total() >= 5


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # they are for the user
def test_what_is_damaged_or_mistyped_is_answered_with_one_sentence(tmp_path: Path) -> None:
    harness = fuzz.fuzz(tmp_path, range(100), seed=1)
    assert harness.failures == []
    assert harness.codes.total() == 100
    # it is neither all refused nor all let through
    assert min(harness.codes[0], harness.codes[2]) > 7


@pytest.mark.parametrize(
    "name", ["report.html", "strategies/001/policy.safetensors", "more", "run.json"]
)
def test_a_difference_is_noticed(finished: Path, tmp_path: Path, name: str) -> None:
    run = shutil.copytree(finished, tmp_path / "run")
    assert kills.differences(run, finished) == []
    if name == "report.html":
        (run / "summary.json").write_bytes((run / "summary.json").read_bytes() + b"\n")
        name = "summary.json"
    elif name == "run.json":
        with kills.product.rewritten(run / name) as record:
            record["versions"]["jax"] = "0"
    else:
        with open(run / name, "ab") as file:
            file.write(b"\0")
    assert name in kills.differences(run, finished)


def test_what_changes_beside_a_run_is_noticed(tmp_path: Path) -> None:
    place = kills.Place(tmp_path)
    place.process(["true"])
    for command in (
        ["touch", str(tmp_path / "beside" / "new")],
        ["cp", "/dev/null", str(tmp_path / "beside" / "file")],
    ):
        with pytest.raises(AssertionError, match="outside"):
            place.process(command)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Outcome(3, "", SENTENCE), "exit code 3"),
        (Outcome(-11, "", ""), "exit code -11"),
        (Outcome(130, "", ""), "exit code 130"),
        (Outcome(2, "", ""), "no sentence"),
        (Outcome(2, "some", SENTENCE), "no sentence"),
        (Outcome(2, "", "Traceback (most recent call last)\n" + SENTENCE), "a traceback"),
        (Outcome(2, "", SENTENCE * 3), "several sentences"),
        (Outcome(2, "", "rspo: \x1b[2J\n"), "the output has"),
        (Outcome(0, "a\u202eb", ""), "the output has"),
        (Outcome(0, "", "a" * 10_000), "a line of 10000 characters"),
    ],
)
def test_a_wrong_answer_is_noticed(outcome: Outcome, words: str) -> None:
    with pytest.raises(fuzz.WrongError, match=words):
        fuzz.judge(["report", "run"], outcome)
    fuzz.judge(["report", "run"], Outcome(2, "", SENTENCE))
    fuzz.judge(["resume", "run"], Outcome(130, "Stopped early.\n", ""))
