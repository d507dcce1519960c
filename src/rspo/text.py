"""Makes text from a run folder, a configuration file, a flag or a user's code safe to show."""

import unicodedata

LONGEST = 600  # characters of a sentence
NAME = 120  # of a name in it
CUT = " ... "


def printable(text: str, most: int | None = None, *, lines: bool = False) -> str:
    """One line, without characters that move the cursor, change colours or the reading direction,
    or are invisible: these are escaped, as \\x1b or \\u202e. The middle of a text longer than
    `most` is left out; `lines` allows several.
    """
    text = shorten(text, most)  # before too, because escapes are longer
    return shorten(
        "".join(c if _harmless(c) or (lines and c == "\n") else _spelled(c) for c in text), most
    )


def shorten(text: str, most: int | None) -> str:
    if most is None or len(text) <= most:
        return text
    end = (most - len(CUT)) // 2
    return text[: most - len(CUT) - end] + CUT + text[-end:]


def _harmless(character: str) -> bool:
    # Zs: a space of any width.
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()


def counted(number: int, one: str, many: str | None = None) -> str:
    """Such as "1 episode" and "2 episodes"; `many` for irregular plurals."""
    return f"{number} {one if number == 1 else many or one + 's'}"
