"""When a policy's name counts in a table: its greedy and its sampled episodes must both show that
strategy."""

from typing import Any

from rspo.bench.record import Record

NAMELESS = "mixed"
Policy = dict[str, Any]  # one of a record's strategies


def agreed_name(policy: Policy) -> str | None:
    """The strategy that the policy shows with both sampled and greedy actions; None if they
    differ."""
    greedy, sampled = policy["descriptor"], policy["sampled_descriptor"]
    return greedy if greedy == sampled and greedy != NAMELESS else None


def that_count(record: Record, failed: bool = False) -> list[tuple[int, Policy]]:
    """The policies of a run that count, each with its iteration, from 1: with an agreed name, and
    not failed, unless the names themselves ask for enough. A failure is one by the first good
    policy's return: a strategy that pays little would count only before one that pays much."""
    return [
        (iteration, policy)
        for iteration, policy in enumerate(record["strategies"], 1)
        if (failed or policy["status"] != "failed") and agreed_name(policy)
    ]


def first_iterations(record: Record, failed: bool = False) -> dict[str, int]:
    """In which iteration each strategy was first found."""
    first: dict[str, int] = {}
    for iteration, policy in that_count(record, failed):
        first.setdefault(policy["descriptor"], iteration)
    return first


def shown_names(policy: Policy) -> str:
    """Its name for a list of all policies: `greedy/sampled` where the two differ; * if novel, - if
    failed."""
    names = dict.fromkeys([policy["descriptor"] or "", policy["sampled_descriptor"] or ""])
    return "/".join(names) + {"novel": "*", "failed": "-"}.get(policy["status"], "")


LEGEND = "The name that greedy episodes show, / the sampled ones if they differ; * novel, - failed."


def best_return(record: Record, kind: str = "greedy_") -> float:
    """The highest mean return over a run's policies, of greedy or (`kind` "") sampled episodes."""
    return max(policy[f"{kind}return_mean"] for policy in record["strategies"])
