"""The overhead of one job of `rspo bench` on its machine, besides the training itself.

    python benchmarks/job_costs.py --out results/job-costs.json

Starts a short job per environment as `rspo bench` does, and measures the seconds until it trains,
its peak memory, the bytes written, and the size of its run folder. `docs/clusters.md` plans a
large cluster with these numbers.
"""

import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import machine
from output import command, say

from rspo.bench.executors import start
from rspo.bench.jobs import Job, task
from rspo.bench.tables import domain_of

ENVIRONMENTS = ("four-goals-easy", "monster-hunt", "half-cheetah", "humanoid")
POLICIES, BATCHES = 2, 4  # of each job, and of each policy
POLL = 0.02


def measure(quick: bool) -> dict[str, Any]:
    jobs = {}
    for env in ENVIRONMENTS[:1] if quick else ENVIRONMENTS:
        say(f"a job in {env}")
        jobs[env] = one_job(env)
    return {
        "machine": machine.describe(machine.OURS),
        "policies": POLICIES,
        "batches": BATCHES,
        "jobs": jobs,
    }


def one_job(env: str) -> dict[str, float]:
    settings = {"iterations": POLICIES, "ppo": {"updates": BATCHES}}
    job = Job(env, "rspo", 0, "costs", settings, domain=domain_of(env))
    with tempfile.TemporaryDirectory() as home:
        work = task(job, Path(home))
        folder = Path(work["folder"])
        began = time.monotonic()
        process = start(work, subprocess.DEVNULL)
        begun, written = None, 0
        while True:
            written = max(written, _written(process.pid))
            if begun is None and (folder / "checkpoint.safetensors").exists():
                begun = time.monotonic() - began  # the first policy is trained
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            time.sleep(POLL)
        if os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"The job in {env} ended with {os.waitstatus_to_exitcode(status)}.")
        process.returncode = 0
        return {
            "seconds to the first checkpoint": begun or 0.0,
            "seconds in all": time.monotonic() - began,
            "peak memory, bytes": usage.ru_maxrss * 1024,
            "written, bytes": written,
            "run folder, bytes": sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()),
            "files": sum(f.is_file() for f in folder.rglob("*")),
        }


def _written(pid: int) -> int:
    """Bytes that the process has passed to the system to write, so far."""
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return 0
    return int(dict(line.split(": ") for line in lines)["wchar"])


def markdown(data: dict[str, Any]) -> str:
    lines = [
        "# What a job costs beside its training",
        "",
        machine.sentence(data["machine"]),
        "",
        f"One job of {data['policies']} policies with {data['batches']} batches each, in a process of its own on one "
        "core. Until the first checkpoint is written it loads JAX, compiles and trains the first "
        "policy. Memory is the peak of the process.",
        "",
        "| environment | s to the first checkpoint | s in all | peak memory, MB | written, MB | run folder, MB | files |",
        "|---|---|---|---|---|---|---|",
    ]
    for env, cost in data["jobs"].items():
        first, whole, memory, written, kept, files = cost.values()
        lines.append(
            f"| {env} | {first:.1f} | {whole:.1f} | {memory / 1e6:.0f} | {written / 1e6:.1f} | "
            f"{kept / 1e6:.2f} | {files:.0f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    command(__doc__ or "", "results/job-costs.json", measure, markdown)
