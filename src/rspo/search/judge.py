"""The verdict on a finished iteration: is the policy good, does it keep its distance, is it new?"""

from typing import NamedTuple

from rspo.search.archive import Archive, Status
from rspo.search.evaluation import Evaluation


class Verdict(NamedTuple):
    """The three answers, all from fresh episodes."""

    good: bool
    """Its return goes at least `judge.quality` of the way from random play to the first good
    policy; the first one must only beat random play."""
    distant: bool
    """Each kept policy accepts at least `judge.accept` of its sampled episodes."""
    new: bool
    """Its episodes show one strategy, and no earlier policy that did not fail shows it. The first
    one is new whatever it shows. Where an environment has no names, distance must do."""

    @property
    def status(self) -> Status:
        if not self.good:
            return "failed"
        return "novel" if self.distant and self.new else "duplicate"


def judge(evaluation: Evaluation, archive: Archive, random_return: float) -> Verdict:
    settings = archive.config.judge
    earlier = [strategy.evaluation for strategy in archive if strategy.status != "failed"]
    names = {found.descriptor for found in earlier}
    if earlier:
        bar = random_return + settings.quality * (earlier[0].return_mean - random_return)
        good = evaluation.return_mean >= bar
    else:
        good = evaluation.return_mean > random_return
    return Verdict(
        good=good,
        distant=all(accepted >= settings.accept for accepted in evaluation.accepted_by),
        new=evaluation.descriptor is None
        or not earlier
        or (evaluation.clear and evaluation.descriptor not in names),
    )
