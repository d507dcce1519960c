"""Errors with a one-sentence message; the command line prints that sentence without a
traceback."""

import difflib
from collections.abc import Iterable

from rspo.text import LONGEST, printable


class RspoError(Exception):
    """A failure that the user can understand; exit code 1. Its message is one short line of plain
    text, whatever it quotes."""

    exit_code = 1
    lines = False
    """True if there are lines below the sentence, such as the traceback of a user's own code."""

    def __init__(self, sentence: str) -> None:
        super().__init__(printable(sentence, None if self.lines else LONGEST, lines=self.lines))


class InputError(RspoError):
    """Something the user gave is not allowed; exit code 2."""

    exit_code = 2


class EnvironmentFailure(RspoError):
    """An environment's own code raised: a sentence, followed by that code's traceback."""

    lines = True


class EnvironmentRefused(InputError):
    """The same, before anything was trained."""

    lines = True


class RspoWarning(UserWarning):
    """Something that the user should know; the run continues. The command line prints it in one
    line."""


class NoRendererError(RspoError):
    """This machine cannot draw with OpenGL."""


class DivergedError(RspoError):
    """Training produced a non-finite number."""


def suggestion(given: str, allowed: Iterable[str]) -> str:
    """ "Did you mean 'x'?" if there is a close match, else the list of allowed values."""
    allowed, given = sorted(allowed), given[:100]  # comparison takes quadratic time
    near = difflib.get_close_matches(given, allowed, n=1, cutoff=0.5)
    return f"Did you mean '{near[0]}'?" if near else f"Allowed: {', '.join(allowed)}."
