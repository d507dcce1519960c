"""How long a run will still take, from how long its updates and its evaluations took so far.
Compilation is no part of it: whatever a program's first call takes is left out."""


class Estimate:
    """Hears of every sign of life, and guesses from the second one on."""

    def __init__(self, rounds: int, updates: int) -> None:
        self.rounds, self.updates = rounds, updates
        self.last: tuple[int, int, float] | None = None
        self.trained, self.seconds = 0, 0.0
        self.between: list[float] = []
        """Seconds from the last update of a round to the first of the next, for evaluation."""

    def left(self, round: int, done: int, now: float) -> float | None:
        """Seconds until the run's end, `done` updates into a round; None before there is a pace.
        An iteration's further attempts are not foreseen."""
        before, self.last = self.last, (round, done, now)
        if before is not None and before[0] == round and before[1] < done:
            self.trained += done - before[1]
            self.seconds += now - before[2]
        if not self.trained:
            return None
        pace = self.seconds / self.trained
        if before is not None and before[0] < round:
            self.between.append(max(now - before[2] - pace * done, 0.0))
        # The first evaluation compiles.
        known = self.between[1:]
        evaluation = sum(known) / len(known) if known else 0.0
        rounds = self.rounds - round
        return pace * (rounds * self.updates - done) + evaluation * rounds
