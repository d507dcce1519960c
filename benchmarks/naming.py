"""When a policy's name counts in a table: its greedy and its sampled episodes must both show that
strategy."""

from typing import Any

Summary = dict[str, Any]  # of a run, as in its summary.json
NAMELESS = "mixed"


def agreed_name(strategy: dict[str, Any]) -> str | None:
    """The one strategy that the policy shows whether its actions are sampled or not; None if there
    is no such one."""
    greedy, sampled = strategy["descriptor"], strategy["sampled_descriptor"]
    return greedy if greedy == sampled and greedy != NAMELESS else None


def counted(summary: Summary) -> list[tuple[int, dict[str, Any]]]:
    """The policies of a run that count, each with its iteration, from 1: with an agreed name, and
    not failed."""
    policies = enumerate(summary["strategies"], 1)
    return [
        (iteration, s) for iteration, s in policies if s["status"] != "failed" and agreed_name(s)
    ]


def first_iterations(summary: Summary) -> dict[str, int]:
    """In which iteration each strategy was first found."""
    first: dict[str, int] = {}
    for iteration, strategy in counted(summary):
        first.setdefault(strategy["descriptor"], iteration)
    return first


def shown_names(strategy: dict[str, Any]) -> str:
    """Its name for a list of all policies: `greedy/sampled` where the two differ; * if novel, - if
    failed."""
    names = dict.fromkeys([strategy["descriptor"], strategy["sampled_descriptor"]])
    return "/".join(names) + {"novel": "*", "failed": "-"}.get(strategy["status"], "")
