"""Jobs on a real Ray cluster of two nodes on this machine: a worker killed, a node taken away."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import product
from rspo.bench import jobs as bench_jobs
from rspo.bench import ray_executor
from rspo.bench.executors import ONE_CORE
from rspo.bench.jobs import Job, task
from rspo.bench.ray_executor import Keeper, Ray
from rspo.cli import bench as cli
from rspo.errors import InputError
from rspo.runs import store
from rspo.runs.parcel import packed, unpack

# Long enough to be interrupted in the middle: Ray is polled once per second.
LONG = product.SETTINGS | {"iterations": 16}
TINY = Job("four-goals-easy", "rspo", 0, "tiny", LONG, domain="four-goals")
RAY = Path(sys.executable).with_name("ray")


# ---- run folders in pieces


def test_a_folder_arrives_as_it_was_sent(finished: Path, tmp_path: Path) -> None:
    files = packed(finished)
    assert "lock" not in files
    assert {"run.json", "summary.json", "strategies/000/policy.safetensors"} <= files.keys()
    keeper = Keeper({"job": str(tmp_path / "job")})
    assert keeper.files("job") == {}
    keeper.keep("job", files, [])
    keeper.keep("job", {"checkpoint.safetensors": b"later"}, [])
    keeper.keep("job", {}, ["checkpoint.safetensors"])
    assert keeper.files("job") == files


def test_what_is_half_written_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "strategies" / ".001.tmp").mkdir(parents=True)
    (tmp_path / "strategies" / ".001.tmp" / "policy.safetensors").write_bytes(b"half")
    (tmp_path / ".run.json.00.tmp").write_bytes(b"half")
    assert packed(tmp_path) == {}
    assert store.tree(tmp_path) == []


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a/b/c", ".hidden", "strategies/x/f"])
def test_a_file_cannot_be_put_elsewhere(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not the name of a file in a run folder"):
        unpack(tmp_path / "run", {name: b""})


def test_without_ray_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'rspo\[ray\]'"):
        cli.executor("ray", None, None, "shared")


@pytest.mark.parametrize("start", ["", "ray://"])
def test_where_nothing_answers_is_said_at_once(start: str) -> None:
    pytest.importorskip("ray")
    with socket.socket() as closed:  # bound, but it does not listen
        closed.bind(("127.0.0.1", 0))
        address = f"{start}127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(InputError, match=f"no Ray cluster at {address}: nothing answers"):
            Ray(address)


def test_a_killed_job_is_restarted_on_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, begun = task(TINY, tmp_path), list[int]()

    def process(task: Any, output: int) -> subprocess.Popen[bytes]:
        begun.append(len(begun))
        script = "kill -9 $$" if len(begun) <= deaths else f"echo done; touch {folder}/bench.json"
        return subprocess.Popen(["sh", "-c", script], stdout=output)

    monkeypatch.setattr(ray_executor, "start", process)
    (folder := Path(work["folder"])).mkdir()
    deaths = 2
    assert ray_executor._job(work, None, 1.0) is None
    assert len(begun) == 3
    deaths = 9
    said = "Its process was killed by signal 9, as when memory runs out."
    assert ray_executor._job(work, None, 1.0) == said
    assert len(begun) == 6


def test_a_run_that_stayed_on_its_node_is_not_done(tmp_path: Path) -> None:
    work = task(TINY, tmp_path)
    assert "`--gather store`" in (ray_executor._absent(work) or "")
    Path(work["folder"]).mkdir()
    assert "`--gather store`" in (ray_executor._absent(work) or "")
    (Path(work["folder"]) / "bench.json").write_text("{}")
    assert ray_executor._absent(work) is None


# ---- a cluster


def start(*arguments: str) -> subprocess.Popen[bytes]:
    """A node in its own process group, so that all of it can be killed at once."""
    return subprocess.Popen(
        [RAY, "start", "--block", "--num-cpus=1", "--disable-usage-stats", *arguments],
        env=product.environment(PYTHONPATH=os.pathsep.join(sys.path), RAY_DEDUP_LOGS="0"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def end(node: subprocess.Popen[bytes]) -> None:
    for pid in [node.pid, *descendants(node.pid)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    node.wait()


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = [int(word) for word in children.read_text().split()] if children.exists() else []
    return found + [below for child in found for below in descendants(child)]


def workers(node: subprocess.Popen[bytes]) -> list[int]:
    """The processes of a node that carry out a job."""
    name = lambda pid: Path(f"/proc/{pid}/cmdline").read_bytes()
    return [pid for pid in descendants(node.pid) if b"ray::_job" in name(pid)]


def until(condition: Callable[[], Any], seconds: float = 180) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Two nodes of one CPU each."""
    if not RAY.exists() or not Path("/proc/self/task").exists():
        product.lacking("needs Ray and Linux")
    import ray

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    here = ("--node-ip-address=127.0.0.1", "--object-store-memory=100000000")
    nodes = [start("--head", f"--port={port}", "--include-dashboard=false", *here)]
    try:
        until(lambda: _listens(port))
        nodes.append(start(f"--address={address}", *here))
        yield address, nodes
    finally:
        ray.shutdown()
        for node in reversed(nodes):
            end(node)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_nothing_is_lost_with_a_worker_or_a_node(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    """Three jobs: the one on the head's node loses its process, the one on the other its node; all
    end as in a process of their own. Then one whose folder comes through the object store."""
    address, (head, other) = cluster
    executor = Ray(address)
    until(lambda: executor.ray.cluster_resources().get("CPU") == 2)
    jobs = [dataclasses.replace(TINY, seed=seed) for seed in (0, 1, 2)]
    tasks = [task(job, tmp_path / "shared") for job in jobs]
    events = executor.run(tasks)
    ended = []
    begun = lambda: sum((Path(t["folder"]) / "strategies" / "000").exists() for t in tasks) >= 2
    ended += _events(events, begun)
    os.kill(until(lambda: workers(head))[0], signal.SIGKILL)
    end(other)
    ended += [event for event in events if event is not None]
    assert sorted(event.task["name"] for event in ended) == sorted(t["name"] for t in tasks)
    assert [event.error for event in ended] == [None] * 3

    away = Ray(address, gather="store", every=0.2)
    sent = task(dataclasses.replace(TINY, seed=3), tmp_path / "sent")
    events = away.run([sent])
    kept = Path(sent["folder"]) / "strategies" / "000"
    assert _events(events, kept.exists) == []
    os.kill(until(lambda: workers(head))[0], signal.SIGKILL)
    assert [event.error for event in events if event is not None] == [None]

    for work in (tasks[0], sent):
        assert _alone(work, tmp_path / "alone") == _timeless(Path(work["folder"]))


@pytest.mark.slow
def test_discover_runs_seeds_on_a_cluster(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    address, _ = cluster
    where = ("--executor", "ray", "--address", address, "--out", tmp_path)
    done = product.rspo(*product.DISCOVER, "--seeds", "0", "1", *where, RAY_DEDUP_LOGS="0")
    assert done.code == 0, done
    assert "2 runs compared" in (tmp_path / "comparison.html").read_text()
    for seed in (0, 1):
        assert (tmp_path / f"four-goals-easy-rspo-seed{seed}" / "report.html").is_file()


def _events(events: Iterator[Any], condition: Callable[[], bool]) -> list[Any]:
    """The events until a condition holds."""
    found = []
    while not condition():
        if (event := next(events)) is not None:
            found.append(event)
    return found


def _alone(work: dict[str, Any], home: Path) -> Any:
    """The result of the same job in a process of its own, without Ray."""
    folder = home / work["name"]
    code = (
        "import json, sys; from rspo.bench.jobs import carry_out; carry_out(json.load(sys.stdin))"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(work | {"folder": str(folder)}).encode(),
        env=product.environment(**ONE_CORE, PYTHONPATH=os.pathsep.join(sys.path)),
        check=True,
        capture_output=True,
    )
    return _timeless(folder)


def _timeless(folder: Path) -> Any:
    """The record and the policies of a run, without what differs from time to time."""
    record = bench_jobs.finished(folder)
    assert record is not None
    policies = sorted((folder / "strategies").glob("*/policy.safetensors"))
    return record | {"seconds": None}, [path.read_bytes() for path in policies]
