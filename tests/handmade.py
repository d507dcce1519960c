"""Records of runs that never were, to see what tables make of them."""

from typing import Any


def policy(
    name: str, sampled: str | None = None, status: str = "novel", **more: Any
) -> dict[str, Any]:
    returns = {"greedy_return_mean": 2.0, "return_mean": 1.0, "stats": {}, "accepted_by": []}
    return {
        "descriptor": name,
        "sampled_descriptor": sampled or name,
        "status": status,
        **returns,
        **more,
    }


def record(
    env: str, method: str, seed: int, *policies: dict[str, Any], **more: Any
) -> dict[str, Any]:
    known = {"variant": "", "paper": False, "quick": False, "asked_steps": None, "steps": 500_000}
    return {
        "job": f"{env}-{method}-seed{seed}",
        "env": env,
        "method": method,
        "seed": seed,
        "strategies": list(policies),
        "distinct": sum(one["status"] == "novel" for one in policies),
        "config": {"ppo": {}},
        **known,
        **more,
    }


def cells(table: str, *start: str) -> list[list[str]]:
    """The rows of Markdown tables whose first cells are these."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("|")
    ]
    return [row for row in rows if tuple(row[: len(start)]) == start]
