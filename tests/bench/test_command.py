"""`rspo bench` from the command line, with jobs carried out in this process."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

import product
from handmade import cells, policy, record
from rspo.bench import catalogue, command
from rspo.bench.executors import Ended, Task
from rspo.bench.jobs import carry_out
from rspo.bench.records import Records
from rspo.cli import bench as cli
from rspo.cli import main
from rspo.errors import InputError
from rspo.runs.store import StoreError

NAME = "four-goals-modes"


class InProcess:
    """Runs jobs in this process; those with `bad` in their names fail."""

    workers = 1

    def __init__(self, bad: str = "nothing") -> None:
        self.bad, self.ran = bad, list[str]()

    def run(self, tasks: Sequence[Task]) -> Iterator[Ended | None]:
        for task in tasks:
            yield None
            self.ran.append(task["name"])
            if self.bad in task["name"]:
                yield Ended(task, "It broke.")
            else:
                carry_out(task)
                yield Ended(task)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bench with one environment, two methods and the settings of the other tests."""
    bench = catalogue.BENCHES[NAME]
    rows = tuple(
        dataclasses.replace(row, settings=product.SETTINGS)
        for row in bench.rows
        if row.method in ("rspo", "pg")
    )
    small = dataclasses.replace(bench, rows=rows, columns=bench.columns[:1], seeds=(100,))
    monkeypatch.setitem(catalogue.BENCHES, NAME, small)


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_a_bench_runs_what_is_missing_and_writes_everything(tmp_path: Path) -> None:
    options = command.Options(out=tmp_path / "results", runs=tmp_path / "runs")
    said: list[str] = []
    shown: list[str] = []
    broken = InProcess(bad="-pg-")
    show = lambda progress: shown.append(str(progress))
    failed = command.run_bench(NAME, options, broken, said.append, show)
    assert failed == ["four-goals-easy-pg-seed100: It broke."]
    assert len(broken.ran) == 2
    assert re.fullmatch(r"0 of 2 done, about \d+ min left", shown[0])
    assert re.fullmatch(r"1 of 2 done, about \d+ min left", shown[1])
    assert shown[-1] == "1 of 2 done, 1 failed"

    whole = InProcess()
    assert command.run_bench(NAME, options, whole, said.append) == []
    assert whole.ran == ["four-goals-easy-pg-seed100"]
    names = {path.name for path in options.out.iterdir()}
    made = {f"{NAME}.{suffix}" for suffix in ("md", "csv", "svg", "png", "html")}
    made |= {f"{NAME}-profiles.svg", f"{NAME}-profiles.png"}
    assert names == made | {"four-goals.jsonl", ".four-goals.jsonl.lock"}
    assert (options.out / f"{NAME}.png").read_bytes().startswith(b"\x89PNG")
    page = (options.out / f"{NAME}.html").read_text()
    link = re.search(r'href="([^"]*rspo-seed100/report.html)"', page)
    assert link is not None
    assert (options.out / link[1]).is_file()
    assert set(Records(options.out / "four-goals.jsonl").read()) == {
        "four-goals-easy-rspo-seed100",
        "four-goals-easy-pg-seed100",
    }

    nothing = InProcess()  # and a third time, without the run folders: the records are enough
    again = dataclasses.replace(options, runs=tmp_path / "elsewhere")
    assert command.run_bench(NAME, again, nothing, said.append) == []
    assert nothing.ran == []


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_what_was_trained_otherwise_is_run_again(tmp_path: Path) -> None:
    options = command.Options(methods=("rspo",), out=tmp_path / "results", runs=tmp_path / "runs")
    command.run_bench(NAME, options, InProcess(), lambda _: None)
    (record,) = Records(options.out / "four-goals.jsonl").read().values()
    Records(options.out / "four-goals.jsonl").add([record | {"steps": 7}])
    said: list[str] = []
    elsewhere = dataclasses.replace(options, runs=tmp_path / "new")
    again = InProcess()
    command.run_bench(NAME, elsewhere, again, said.append)
    assert again.ran == [record["job"]]
    assert any("is run again: it has 7 steps" in line for line in said)


def test_a_record_with_other_settings_is_left_out_of_the_tables_with_a_line(
    tmp_path: Path,
) -> None:
    """Other benches' records and those of other steps are left out without one."""
    usual = catalogue.BENCHES[NAME].jobs(methods=["rspo"], envs=["four-goals-easy"])[0]
    own = record("four-goals-easy", "rspo", 100, policy("up"), steps=usual.configuration.steps // 7)
    Records(tmp_path / "four-goals.jsonl").add(
        [
            own,
            own | {"job": "old", "seed": 101, "config": {"ppo": {"gamma": 0.5}}},
            own | {"job": "short", "seed": 102, "steps": 7},
            own | {"job": "asked", "seed": 103, "steps": 7, "asked_steps": 7},
            own | {"job": "other", "method": "nobody"},
        ]
    )
    said: list[str] = []
    options = command.Options(tables=True, out=tmp_path, runs=tmp_path)
    assert command.run_bench(NAME, options, InProcess(), said.append) == []
    gamma = usual.configuration.ppo.gamma
    assert [line for line in said if not line.startswith(("Wrote", "The figure is"))] == [
        f"old is not in the tables: ppo.gamma is 0.5 instead of {gamma}",
        f"short is not in the tables: it has 7 steps of training for each policy, not {own['steps']:,}",
    ]
    assert cells((tmp_path / f"{NAME}.md").read_text(), "RSPO")[0][2] == "1.0"


def test_methods_that_are_not_there_yet_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = catalogue.BENCHES[NAME]
    monkeypatch.setattr(command.METHODS, "summaries", lambda: {"rspo": "", "pg": ""})
    said: list[str] = []
    jobs = command.chosen_jobs(bench, command.Options(), said.append)
    assert {job.method for job in jobs} == {"rspo", "pg"}
    assert said[0].startswith(
        "Left out, because this version of rspo does not have them: no-switch"
    )


def test_an_interrupted_bench_says_how_to_continue(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_bench", stop)
    with pytest.raises(KeyboardInterrupt):
        cli.bench([NAME, "--out", str(tmp_path), "--runs", str(tmp_path)])
    assert "the same command continues" in capsys.readouterr().err


def test_every_bench_is_listed_with_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.bench(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(catalogue.BENCHES)
    assert re.search(r"\(about .* min, \d+ runs\)$", lines[0])
    assert cli.bench(["point", "--list", "--quick", "--methods", "pg"]) == 0
    shows = catalogue.BENCHES["point"].shows
    assert capsys.readouterr().out == f"{'point':26} {shows} (about 1 min, 1 run)\n"
    assert cli.bench(["--list", "--paper"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert list(lines) == list(catalogue.BENCHES)
    assert "(The paper has no settings for point: leave --paper out." in lines.pop("point")
    assert [
        line for line in lines.values() if not re.search(r"\(about .*, \d+ runs?\)$", line)
    ] == []


def test_a_damaged_picture_of_one_run_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def damaged(*_: object) -> NoReturn:
        raise StoreError("000-gait.svg is damaged")

    monkeypatch.setattr(command, "publish", damaged)
    options = command.Options(
        methods=("pg", "rspo"), seeds=(100,), out=tmp_path / "results", runs=tmp_path / "runs"
    )
    executor = InProcess(bad="")  # all of them, for a start
    with pytest.raises(StoreError, match="is damaged"):
        command.run_bench("point", options, executor, lambda _: None)
    assert len(executor.ran) == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "needs a name"),
        (["four-goals-mode"], "Did you mean 'four-goals-modes'"),
        ([NAME, "--methods", "rsp"], "has no method 'rsp'. Did you mean 'rspo'"),
        (["four-goals-mode", "--list"], "Did you mean 'four-goals-modes'"),
        ([NAME, "--list", "--seeds", "-1"], "--seeds has -1"),
        ([NAME, "--tables", "--methods", "rspo"], "--methods is for what is run"),
        ([NAME, "--tables", "--seeds", "100"], "--seeds is for what is run"),
        ([NAME, "--tables", "--paper"], "--paper is for what is run"),
        ([NAME, "--quick", "--steps", "100"], "--quick has steps of its own"),
        ([NAME, "--seeds"], "--seeds needs a value"),
        ([NAME, "--methods", "--quick"], "--methods needs a value"),
        ([NAME, "--envs", "hopper"], "has no environment 'hopper'. Allowed: four-goals-easy"),
        ([NAME, "--steps", "0"], "--steps is 0"),
        ([NAME, "--seeds", "-1"], "--seeds has -1"),
        ([NAME, "--seeds", "1", "1"], "--seeds has a seed twice: 1 1"),
        ([NAME, "--jobs", "0"], "--jobs is 0"),
        ([NAME, "--address", "here:1"], "--address is for"),
        ([NAME, "--executor", "slurm"], "must be one of"),
        ([NAME, "--executor", "ray", "--jobs", "3"], "--jobs is for processes on this machine"),
        ([NAME, "--gather", "store"], "--gather is for `--executor ray`"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)) as caught:
        cli.bench(arguments)
    assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "run_bench", lambda *_: pytest.fail("it was run"))
    file, good = tmp_path / "file", tmp_path / "good"
    file.touch()
    for bad in (file, file / "below", Path("/proc/nowhere")):
        for flags in (["--out", bad, "--runs", good], ["--out", good, "--runs", bad]):
            flag = flags[flags.index(bad) - 1]
            with pytest.raises(InputError, match=f"{flag} is .*, but nothing can be written"):
                cli.bench([NAME, *map(str, flags)])


# ---- several seeds


@pytest.mark.slow
def test_seeds_are_run_each_in_a_folder_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "executor", lambda *_: InProcess())
    flags = ("discover", "four-goals-easy", *product.TINY, "--seeds", "0", "1", "--out")
    assert main.run([*flags, str(tmp_path / "runs")]) == 0
    folders = sorted(path.name for path in (tmp_path / "runs").iterdir() if path.is_dir())
    assert folders == ["four-goals-easy-rspo-seed0", "four-goals-easy-rspo-seed1"]
    assert "Compared in" in capsys.readouterr().out
    assert "2 runs compared" in (tmp_path / "runs" / "comparison.html").read_text()


@pytest.mark.parametrize(
    "flags",
    [
        ("--executor", "ray", "--address", "here:1"),
        ("--address", "here:1"),
        ("--gather", "store"),
        ("--jobs", "3"),
    ],
)
def test_what_is_for_several_seeds_is_refused_without_them(flags: tuple[str, ...]) -> None:
    outcome = product.here("discover", "four-goals-easy", *flags)
    product.assert_refused(outcome, f"{flags[0]} is for several seeds")


def test_what_is_for_another_executor_is_refused_for_several_seeds_too() -> None:
    flags = ("discover", "four-goals-easy", "--seeds", "0", "1")
    product.assert_refused(
        product.here(*flags, "--executor", "ray", "--jobs", "3"), "--jobs is for processes"
    )
    product.assert_refused(product.here(*flags, "--gather", "store"), "--gather is for")


def test_a_log_is_for_one_seed() -> None:
    with pytest.raises(InputError, match="--log is for a run of one seed"):
        main.run(["discover", "four-goals-easy", "--seeds", "0", "1", "--log", "wandb"])


def test_one_seed_beside_several_is_refused() -> None:
    outcome = product.here("discover", "four-goals-easy", "--seeds", "0", "1", "--seed", "2")
    product.assert_refused(outcome, "--seed is for one run and --seeds for several")
