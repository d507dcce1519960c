"""The verdict on a finished iteration: is the policy good, does it keep its distance, is it new?"""

from rspo.archive import Archive, Status
from rspo.evaluate import Evaluation


def judge(evaluation: Evaluation, archive: Archive, random_return: float) -> Status:
    """`failed` unless it is good; else `duplicate` unless it is distant and new; else `novel`.

    Good: its return goes at least `judge.quality` of the way from random play to the first good policy (which itself
    must only beat random play), and its episodes show one strategy. Distant: each kept policy accepts at least
    `judge.accept` of its sampled episodes. New: no earlier strategy that did not fail has its name.
    """
    settings = archive.config.judge
    good = [strategy.evaluation for strategy in archive if strategy.status != "failed"]
    bar = random_return + settings.quality * (good[0].return_mean - random_return) if good else random_return
    named = evaluation.descriptor is not None
    if evaluation.return_mean <= bar or (named and not evaluation.clear):
        return "failed"
    distant = all(share >= settings.accept for share in evaluation.accepted_by)
    new = not named or all(earlier.descriptor != evaluation.descriptor for earlier in good)
    return "novel" if distant and new else "duplicate"
