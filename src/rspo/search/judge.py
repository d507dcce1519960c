"""The verdict on a finished iteration: is the policy good, does it keep its distance, is it new?"""

from collections.abc import Iterator
from typing import NamedTuple

from rspo.search.archive import Archive, Status
from rspo.search.evaluation import Evaluation

WEAK = 0.25  # standard deviations of random play's return: a first policy that gains less is weak


class Verdict(NamedTuple):
    """The three answers, all from fresh episodes, and the reason."""

    good: bool
    """Its return gets at least `judge.quality` of the way from random play to the first good
    policy; the first one only has to beat random play."""
    distant: bool
    """Each kept policy accepts at least `judge.accept` of its sampled episodes."""
    new: bool
    """Its episodes show one strategy, which no earlier policy that did not fail shows. The first
    one is always new. Where an environment has no names, distance alone decides."""
    weak: bool = False
    """A first policy that hardly beats random play. Such a policy is not good, and sets no bar for
    others."""
    reason: str = ""
    """Why the status is what it is, in a few words with the numbers that decided."""

    @property
    def status(self) -> Status:
        if not self.good:
            return "weak" if self.weak else "failed"
        return "novel" if self.distant and self.new else "duplicate"


def judge(
    evaluation: Evaluation, archive: Archive, random_return: float, random_std: float = 0.0
) -> Verdict:
    settings = archive.config.judge
    earlier = [strategy for strategy in archive if strategy.status not in ("failed", "weak")]
    same = [s.index for s in earlier if s.descriptor == evaluation.descriptor]
    bar = random_return
    if earlier:
        bar += settings.quality * (earlier[0].evaluation.return_mean - random_return)
    beats = evaluation.return_mean > random_return
    weak = not earlier and beats and evaluation.return_mean < bar + WEAK * random_std
    verdict = Verdict(
        good=evaluation.return_mean >= bar if earlier else beats and not weak,
        weak=weak,
        distant=all(accepted >= settings.accept for accepted in evaluation.accepted_by),
        new=evaluation.descriptor is None or not earlier or (evaluation.clear and not same),
    )
    if verdict.weak:
        own, random = apart(evaluation.return_mean, random_return)
        hardly = f"hardly better than random play: earns {own}, not {random}, ± {random_std:.3g}"
        return verdict._replace(reason=hardly)
    if not verdict.good:
        return verdict._replace(reason=_too_little(evaluation.return_mean, bar, bool(earlier)))
    if verdict.status == "duplicate":
        why = _not_new(verdict, evaluation, archive, same)
    else:
        why = _new(evaluation, archive, random_return, first=not earlier)
    return verdict._replace(reason="; ".join(why))


def _too_little(earned: float, bar: float, is_bar: bool) -> str:
    own, needed = apart(earned, bar)
    return (
        f"earns {own} where {needed} is needed"
        if is_bar
        else f"earns {own}, no more than random play ({needed})"
    )


def _not_new(
    verdict: Verdict, evaluation: Evaluation, archive: Archive, same: list[int]
) -> Iterator[str]:
    if not verdict.new:
        yield (
            f"does the same as strategy {same[0]}"
            if evaluation.clear
            else "its episodes do not all show the same strategy"
        )
    if not verdict.distant:
        index, accepted = _nearest(evaluation, archive)
        own, needed = apart(accepted, archive.config.judge.accept, "%")
        few = f"only {own}" if accepted else "none"
        yield f"strategy {index} accepts {few} of its episodes, and {needed} are needed"


def _new(
    evaluation: Evaluation, archive: Archive, random_return: float, *, first: bool
) -> Iterator[str]:
    own, other = apart(evaluation.return_mean, random_return)
    if first:
        yield f"the first one to earn more than random play ({own} against {other})"
    elif evaluation.descriptor is not None:
        yield "no earlier one does this"
    if evaluation.accepted_by:
        index, accepted = _nearest(evaluation, archive)
        yield (
            f"strategy {index}, the nearest one, accepts {accepted:.0%} of its episodes"
            if accepted < 1
            else "every earlier one accepts all of its episodes"
        )


def _nearest(evaluation: Evaluation, archive: Archive) -> tuple[int, float]:
    """The kept policy that accepts the smallest share of the episodes, and that share."""
    indices = [strategy.index for strategy in archive.kept]
    accepted, index = min(zip(evaluation.accepted_by, indices, strict=True))
    return index, accepted


def apart(one: float, other: float, kind: str = "g") -> tuple[str, str]:
    """Two numbers with just enough digits, at least three, to show which is greater; per cent if
    `kind` is "%"."""
    for digits in range(0 if kind == "%" else 3, 17):
        written = f"{one:.{digits}{kind}}", f"{other:.{digits}{kind}}"
        if one == other or written[0] != written[1]:
            break
    return written
