"""The remaining time of a run, from the time of its updates and evaluations so far. Compilation is
excluded: a program's first call does not count."""


class TimeLeft:
    """Gets every progress event, and gives estimates from the second one on."""

    def __init__(self, rounds: int, updates: int) -> None:
        self.rounds, self.updates = rounds, updates
        self.last: tuple[int, int, float] | None = None
        self.trained, self.seconds = 0, 0.0
        self.between: list[float] = []
        """Seconds from the last update of a round to the first of the next, for evaluation."""

    def left(self, round: int, done: int, now: float) -> float | None:
        """Seconds until the run's end, `done` updates into a round; None while the pace is
        unknown. Further attempts of an iteration are not included."""
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
