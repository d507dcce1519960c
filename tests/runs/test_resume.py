"""Real processes that are killed, interrupted, crowded out of their disk: nothing found is lost,
and `rspo resume` ends at the same bytes as if nothing had happened."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import product
import rspo
from product import DISCOVER, Outcome, assert_refused, results, rigged


@pytest.fixture
def run(stopped: Path, tmp_path: Path) -> Path:
    """A copy of a run that was killed in its third iteration."""
    return shutil.copytree(stopped, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "where", "moment", "kept"),
    [
        ("INT", ".checkpoint", 4, 0),  # while the second checkpoint is written
        ("TERM", "strategies/.001", 3, 2),  # while the second strategy is written
    ],
)
def test_a_signal_keeps_everything_and_shows_it(
    finished: Path, tmp_path: Path, name: str, where: str, moment: int, kept: int
) -> None:
    folder = tmp_path / "run"
    outcome = rigged(name, moment, folder / where, *DISCOVER, "--out", folder)
    assert outcome.code == 130, outcome
    assert "Traceback" not in outcome.err
    assert (" distinct strateg" in outcome.out) == (kept > 0)
    assert f"rspo resume {folder}" in outcome.out
    assert sum(line.startswith("│ ") for line in outcome.out.splitlines()) == kept
    assert len(rspo.load(folder)) == kept
    assert_resumes(folder, finished)


@pytest.mark.slow
def test_a_second_signal_loses_nothing(finished: Path, run: Path) -> None:
    """It hits while the checkpoint is written that the first one asked for."""
    outcome = rigged("INT", "1,4", run / ".checkpoint", "resume", run)
    assert outcome.code == 130, outcome
    assert "Traceback" not in outcome.err
    assert list(run.glob(".checkpoint.safetensors.*.tmp"))
    assert_resumes(run, finished)


def assert_resumes(folder: Path, finished: Path) -> None:
    outcome = product.here("resume", folder)
    assert outcome.code == 0, outcome
    assert results(folder) == results(finished)
    assert not list(folder.rglob("*.tmp"))


ON_ONE_CORE = "import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); os.execv(sys.executable, sys.argv[1:])"


@pytest.mark.slow
@pytest.mark.skipif(
    (os.cpu_count() or 1) < 2 or not hasattr(os, "sched_setaffinity"), reason="takes two cores"
)
def test_a_run_goes_on_with_as_many_devices_as_it_began(tmp_path: Path) -> None:
    """Sums over another number of devices would round otherwise."""
    start, folders = tmp_path / "start", [tmp_path / "one", tmp_path / "all"]
    begin = product.rigged_command(
        "KILL", 3, start / ".checkpoint", *DISCOVER, "--iterations", "1", "--out", start
    )
    subprocess.run(
        [sys.executable, "-c", ON_ONE_CORE, *begin], env=product.environment(), capture_output=True
    )
    assert json.loads((start / "run.json").read_bytes())["devices"] == 1
    assert (start / "checkpoint.safetensors").exists()
    for folder, before in zip(folders, ([sys.executable, "-c", ON_ONE_CORE], []), strict=True):
        shutil.copytree(start, folder)
        command = [*before, sys.executable, "-m", "rspo", "resume", str(folder)]
        done = subprocess.run(command, env=product.environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert results(folders[0]) == results(folders[1])


class stopped_process:
    """A process that has stopped itself; it is ended if the test does not."""

    def __init__(self, command: list[str]) -> None:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=product.environment(), **pipes)

    def __enter__(self) -> subprocess.Popen:
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), status
        return self.process

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@pytest.mark.slow
def test_two_processes_on_one_folder(finished: Path, run: Path) -> None:
    """The second is refused, reading is not, and the first ends as if it had been alone."""
    command = product.rigged_command(
        "STOP", 4, run / "strategies", "resume", run
    )  # in the midst of writing
    with stopped_process(command) as first:
        assert_refused(product.rspo("resume", run), f"Another process is working on {run}")
        assert_refused(product.here(*DISCOVER, "--out", run), "is not empty")
        assert len(rspo.load(run)) == 2
        first.send_signal(signal.SIGCONT)
        out, err = first.communicate(timeout=100)
    assert first.returncode == 0, err
    assert "Kept in" in out
    assert results(run) == results(finished)


def assert_out_of_room(outcome: Outcome, folder: Path) -> None:
    assert outcome.code == 1, outcome
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    *_, sentence, _ = outcome.err.splitlines()  # the last line counts changes
    assert sentence.startswith(f"rspo: No room left on the disk to write {folder}")


@pytest.mark.slow
def test_a_file_too_large(finished: Path, run: Path) -> None:
    """The limit on the size of files stands for the full disk where none can be mounted."""
    kept = product.contents(run)
    assert_out_of_room(rigged("limit", 2, run / "strategies" / ".002", "resume", run), run)
    left = product.contents(run)
    assert {name: left.get(name) for name in kept if name.startswith("strategies/00")} == {
        name: data for name, data in kept.items() if name.startswith("strategies/00")
    }
    assert len(rspo.load(run)) == 2
    assert_resumes(run, finished)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    yield from mounted(tmp_path / "disk", "size=4m")


def mounted(folder: Path, options: str) -> Iterator[Path]:
    folder.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("mounting a file system of its own takes root")
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.slow
def test_a_full_disk(finished: Path, small_disk: Path) -> None:
    folder, ballast = small_disk / "run", small_disk / "ballast"
    outcome = rigged(f"fill={ballast}", 9, folder / ".checkpoint", *DISCOVER, "--out", folder)
    assert_out_of_room(outcome, folder)
    assert len(rspo.load(folder)) == 2
    ballast.unlink()
    assert_resumes(folder, finished)


def test_a_disk_that_is_full_from_the_start(small_disk: Path) -> None:
    folder, ballast = small_disk / "run", small_disk / "ballast"
    outcome = rigged(f"fill={ballast}", 0, folder, *DISCOVER, "--out", folder)
    assert_out_of_room(outcome, folder)


def test_a_folder_that_may_not_be_written(stopped: Path, tmp_path: Path) -> None:
    """Root may write everywhere but on a read-only disk."""
    folder = tmp_path / "disk"
    if os.geteuid() == 0:
        for _ in mounted(folder, "size=4m"):
            shutil.copytree(stopped, folder / "run")
            subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
            check_unwritable(folder)
    else:
        shutil.copytree(stopped, folder / "run")
        places = [folder, *(p for p in folder.rglob("*") if p.is_dir()), folder / "run" / "lock"]
        for path in places:
            path.chmod(0o555)
        try:
            check_unwritable(folder)
        finally:
            for path in places:
                path.chmod(0o755)


def check_unwritable(folder: Path) -> None:
    before = product.contents(folder)
    words = "rspo: No permission to write"
    for arguments in (("resume", folder / "run"), (*DISCOVER, "--out", folder / "new")):
        outcome = product.here(*arguments)
        assert outcome.code == 1, outcome
        assert outcome.err.startswith(words)
        assert outcome.err.count("\n") == 1
    assert len(rspo.load(folder / "run")) == 2  # reading needs no permission to write
    picture = product.here("play", folder / "run", "--svg", folder / "picture.svg")
    assert picture.code == 1
    assert picture.err.startswith(words)
    assert product.contents(folder) == before


@pytest.mark.slow
def test_training_that_diverges_is_said_and_keeps_what_was_found(tmp_path: Path) -> None:
    """The intrinsic reward is beyond all numbers, but there is none before a second iteration."""
    folder = tmp_path / "run"
    settings = ("--method.lambda-b", "3e38", "--measure.alpha", "100", "--ppo.updates", "20")
    outcome = product.rspo(*DISCOVER, *settings, "--out", folder)
    assert outcome.code == 1, outcome
    assert outcome.out == ""
    *_, sentence = outcome.err.splitlines()
    assert sentence.startswith("rspo: Training diverged in iteration 2 at update ")
    assert "Traceback" not in outcome.err
    assert len(rspo.load(folder)) == 1
    assert not list(folder.rglob("*.tmp"))
