"""What can go wrong and be said in one sentence; the command line prints that sentence and no
traceback."""

import difflib
from collections.abc import Iterable

from rspo.text import LONGEST, printable


class RspoError(Exception):
    """A failure that the user can understand; exit code 1. Whatever it quotes, it is one short line
    of plain text."""

    exit_code = 1
    lines = False
    """True of one that has lines below its sentence, such as the traceback of a user's own code."""

    def __init__(self, sentence: str) -> None:
        super().__init__(printable(sentence, None if self.lines else LONGEST, lines=self.lines))


class InputError(RspoError):
    """Something the user gave is not allowed; exit code 2."""

    exit_code = 2


class EnvironmentFailure(RspoError):
    """The code of an environment's author raised: a sentence, and below it that code's own
    traceback."""

    lines = True


class EnvironmentRefused(InputError):
    """The same, before anything was trained."""

    lines = True


class RspoWarning(UserWarning):
    """Something that the user should know of; what was asked for goes on. The command line prints
    it in one line."""


class NoRendererError(RspoError):
    """This machine cannot draw with OpenGL."""


class DivergedError(RspoError):
    """Training produced a number that is not finite."""


def suggestion(given: str, allowed: Iterable[str]) -> str:
    """ "Did you mean 'x'?" where something is near, else the list of what is allowed."""
    allowed, given = sorted(allowed), given[:100]  # comparing takes time that grows with the square
    near = difflib.get_close_matches(given, allowed, n=1, cutoff=0.5)
    return f"Did you mean '{near[0]}'?" if near else f"Allowed: {', '.join(allowed)}."
