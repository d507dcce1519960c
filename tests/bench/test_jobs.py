"""Jobs: named, configured, carried out once, resumed, and never mixed up with others."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import handmade
import product
from rspo.bench import executors
from rspo.bench.executors import Ended, Processes, error_of
from rspo.bench.jobs import RECORD, Job, carry_out, difference, finished, task
from rspo.bench.records import Records, why_not
from rspo.errors import InputError

TINY = Job("four-goals-easy", "rspo", 0, "tiny", product.SETTINGS, domain="four-goals")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a job that is done; copy it before changing it."""
    home = tmp_path_factory.mktemp("bench")
    carry_out(task(TINY, home))
    return home


def test_names_tell_jobs_apart_and_can_be_folders() -> None:
    jobs = [
        TINY,
        dataclasses.replace(TINY, seed=1),
        dataclasses.replace(TINY, variant="alpha 0.6"),
        dataclasses.replace(TINY, paper=True),
        dataclasses.replace(TINY, steps=1000),
        dataclasses.replace(TINY, quick=True),
    ]
    names = [job.name for job in jobs]
    assert names[0] == "four-goals-easy-rspo-tiny-seed0"
    assert len(set(names)) == len(names)
    assert not any(set(name) & set(" /,") for name in names)


def test_asked_steps_set_the_number_of_updates() -> None:
    config = dataclasses.replace(TINY, steps=10_000).config()
    assert config["ppo"]["updates"] == 10
    assert dataclasses.replace(TINY, steps=1).config()["ppo"]["updates"] == 1


def test_a_finished_job_has_a_record_and_is_not_run_again(done: Path) -> None:
    folder = done / TINY.name
    record = finished(folder)
    assert record is not None
    assert record["job"] == TINY.name
    assert record["steps"] == 20 * 1024
    assert len(record["strategies"]) == 3
    assert record["seconds"] > 0
    before = (folder / "summary.json").stat().st_mtime_ns
    assert carry_out(task(TINY, done)) == record
    assert (folder / "summary.json").stat().st_mtime_ns == before


def test_a_job_goes_on_where_it_was(done: Path, tmp_path: Path) -> None:
    """As after a kill in the last iteration: it ends as it would have."""
    folder = shutil.copytree(done / TINY.name, tmp_path / TINY.name)
    shutil.rmtree(folder / "strategies" / "002")
    (folder / RECORD).unlink()
    record = carry_out(task(TINY, tmp_path))
    assert record is not None
    whole = finished(done / TINY.name)
    assert whole is not None
    assert record["strategies"] == whole["strategies"]


def test_a_run_of_other_settings_is_not_gone_on_with(done: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(done / TINY.name, tmp_path / TINY.name)
    other = dataclasses.replace(TINY, settings=product.SETTINGS | {"measure": {"alpha": 0.7}})
    with pytest.raises(InputError, match=r"other settings \(measure.alpha is 0.5 instead of 0.7\)"):
        carry_out(task(other, tmp_path))  # finished
    (folder / RECORD).unlink()
    with pytest.raises(InputError, match="other settings"):
        carry_out(task(other, tmp_path))


def test_a_finished_job_with_too_few_policies_is_extended(done: Path, tmp_path: Path) -> None:
    shutil.copytree(done / TINY.name, tmp_path / TINY.name)
    longer = dataclasses.replace(TINY, settings=product.SETTINGS | {"iterations": 4})
    record = carry_out(task(longer, tmp_path))
    assert record is not None
    assert len(record["strategies"]) == 4


def test_a_difference_is_in_what_both_have() -> None:
    assert difference({"a": 1, "b": {"c": 2}}, {"b": {"c": 2, "d": 5}}) is None
    assert difference({"b": {"c": [1, 2]}}, {"b": {"c": (1, 2)}}) is None
    assert difference({"b": {"c": 2}}, {"b": {"c": 3}}) == "b.c is 2 instead of 3"
    assert difference({"iterations": 4}, {"iterations": 7}) is None


def test_a_record_is_of_its_job_only_with_the_same_training(done: Path) -> None:
    record = finished(done / TINY.name)
    assert record is not None
    assert why_not(record, TINY) is None
    assert why_not(record | {"config": {}}, TINY) is None  # an old record, with fewer settings
    longer = dataclasses.replace(TINY, steps=10**6)
    assert "steps of training" in (why_not(record, longer) or "")
    more = dataclasses.replace(TINY, settings=product.SETTINGS | {"iterations": 4})
    assert why_not(record, more) == "it has 3 iterations, not 4"


def test_records_are_lines_that_two_commands_can_add_to(tmp_path: Path) -> None:
    one, two = Records(tmp_path / "new" / "r.jsonl"), Records(tmp_path / "new" / "r.jsonl")
    assert one.read() == {}
    run = lambda seed, distinct: handmade.record(
        "point", "pg", seed, handmade.policy("above"), distinct=distinct
    )
    one.add([run(1, 1)])
    two.add([run(0, 2)])
    one.add([run(1, 3)])
    assert list(one.read().values()) == [run(0, 2), run(1, 3)]


ADDING = """
import json, sys
from pathlib import Path
from rspo.bench.records import Records
_, path, record, place = sys.argv
for number in range(20):
    Records(Path(path)).add([json.loads(record) | {"job": f"{place}-{number}"}])
"""


def test_no_record_is_lost_when_several_commands_add_at_once(tmp_path: Path) -> None:
    path = tmp_path / "point.jsonl"
    record = json.dumps(handmade.record("point", "pg", 0, handmade.policy("above")))
    adding = [
        subprocess.Popen([sys.executable, "-c", ADDING, path, record, place]) for place in "abcd"
    ]
    assert [process.wait() for process in adding] == [0] * 4
    assert len(Records(path).read()) == 80
    assert {found.name for found in tmp_path.iterdir()} == {"point.jsonl", ".point.jsonl.lock"}


WHOLE = json.dumps(handmade.record("point", "pg", 0, handmade.policy("above")))


@pytest.mark.parametrize(
    "line",
    [
        b"[1]",
        b"<<<<<<< HEAD",
        b'{"job": "point-pg-seed0"}',
        b"\xff\xfe\x00",
        WHOLE[:-20].encode(),
        WHOLE.replace('"seed": 0', '"seed": "x"').encode(),
        WHOLE.replace('"stats": {}', '"stats": []').encode(),
        WHOLE.replace('"status"', '"state"').encode(),
        json.dumps(handmade.record("point", "pg", 0)).encode(),
        (WHOLE[:-1] + ', "config": 5}').encode(),
        (WHOLE[:-1] + ', "diversity": {"authors": {}}}').encode(),
        WHOLE.replace('"env": "point"', '"env": "escalation"').encode(),  # has no pairs
    ],
)
def test_a_damaged_line_of_the_records_is_named_and_kept(line: bytes, tmp_path: Path) -> None:
    damaged = Records(tmp_path / "point.jsonl")
    damaged.path.write_bytes(WHOLE.encode() + b"\n\n" + line + b"\n")
    before = damaged.path.read_bytes()
    with pytest.raises(InputError, match="line 3 is not the record of a run"):
        damaged.add([handmade.record("point", "pg", 1, handmade.policy("above"))])
    assert damaged.path.read_bytes() == before


# ---- processes


def run(tasks: list[dict[str, Any]], workers: int) -> list[Ended]:
    return [event for event in Processes(workers).run(tasks) if event is not None]


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "TICK", 0.05)
    for name, value in product.environment().items():
        monkeypatch.setenv(name, value)


def test_each_job_has_its_own_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "start", lambda task, output: None)
    jobs = [dataclasses.replace(TINY, variant="alpha 0.6", seed=seed) for seed in (0, 1)]
    logs = {executors._Process(task(job, tmp_path)).log.name for job in jobs}
    assert logs == {f"{job.name}.log" for job in jobs}


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
def test_processes_do_what_the_same_process_does_one_core_each(tmp_path: Path) -> None:
    jobs = [dataclasses.replace(TINY, seed=seed) for seed in (0, 1)]
    alone = tmp_path / "alone"
    code = (
        "import json, sys; from rspo.bench.jobs import carry_out; carry_out(json.load(sys.stdin))"
    )
    subprocess.run(  # first, so that what it compiles is there for the others
        [sys.executable, "-c", code],
        input=json.dumps(task(jobs[0], alone)).encode(),
        env=os.environ | executors.ONE_CORE,
        check=True,
        capture_output=True,
    )
    bad = task(dataclasses.replace(TINY, seed=2), tmp_path)
    bad["config"] = bad["config"] | {"env": "nowhere"}
    ended = run([*(task(job, tmp_path) for job in jobs), bad], workers=2)
    errors = {event.task["name"]: event.error for event in ended}
    assert errors.pop(bad["name"]).startswith("Unknown environment 'nowhere'.")
    assert set(errors.values()) == {None}
    manifest = json.loads((tmp_path / jobs[0].name / "run.json").read_text())
    assert (manifest["devices"], manifest["players"]) == (1, 1)
    one, other = (finished(home / jobs[0].name) for home in (tmp_path, alone))
    assert one is not None
    assert other is not None
    assert one | {"seconds": 0} == other | {"seconds": 0}


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
def test_a_killed_process_is_begun_again_and_an_orphan_ends(tmp_path: Path) -> None:
    work = task(TINY, tmp_path)
    folder = Path(work["folder"])
    events = Processes(1).run([work])
    pid = None
    while not (folder / "strategies" / "000").exists():
        next(events)
    frame = events.gi_frame  # type: ignore[attr-defined]
    pid = next(iter(frame.f_locals["running"].values())).handle.pid
    if hasattr(os, "sched_getaffinity"):
        # Not bound to a core: a second bench on this machine would bind its job to the same one.
        assert os.sched_getaffinity(pid) == os.sched_getaffinity(0)
    os.kill(pid, signal.SIGKILL)
    ended = [event for event in events if event is not None]
    assert [event.error for event in ended] == [None]
    whole = finished(folder)
    assert whole is not None
    assert len(whole["strategies"]) == 3

    other = task(dataclasses.replace(TINY, seed=5), tmp_path)
    events = Processes(1).run([other])
    while not (Path(other["folder"]) / "run.json").exists():
        next(events)
    process = next(iter(events.gi_frame.f_locals["running"].values()))  # type: ignore[attr-defined]
    process.close()  # as if the parent had died
    process.handle.wait(timeout=60)
    assert finished(Path(other["folder"])) is None
    events.close()  # type: ignore[attr-defined]
    assert [event.error for event in run([other], 1)] == [None]


def test_a_jobs_error_is_its_own_last_word_not_jaxs_note_below_it(tmp_path: Path) -> None:
    said = [
        "ValueError: no such shape",
        "-" * 20,
        "For simplicity, JAX has removed its frames.",
        "",
    ]
    task = {"folder": str(tmp_path / "job")}
    assert error_of(task, 1, said) == "ValueError: no such shape"
    assert error_of(task, 1, said[1:]) == "Its process ended with 1."
