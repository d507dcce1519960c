"""Text that may come from a run folder, a configuration file, a flag or a user's code, before
anyone sees it."""

import unicodedata

LONGEST = 600  # characters of a sentence
NAME = 120  # of a name in it
CUT = " ... "


def printable(text: str, most: int | None = None, *, lines: bool = False) -> str:
    """One line, without what would move the cursor, change colours, turn the reading direction or
    hide: such characters are spelled out, as \\x1b or \\u202e. Of a longer text than `most` the
    middle is left out; `lines` may be several.
    """
    text = shorten(text, most)  # before too, for what is spelled out is longer
    return shorten(
        "".join(c if _harmless(c) or (lines and c == "\n") else _spelled(c) for c in text), most
    )


def shorten(text: str, most: int | None) -> str:
    if most is None or len(text) <= most:
        return text
    end = (most - len(CUT)) // 2
    return text[: most - len(CUT) - end] + CUT + text[-end:]


def _harmless(character: str) -> bool:
    return (
        character.isprintable() or unicodedata.category(character) == "Zs"
    )  # a space, whatever its width


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()


def counted(number: int, one: str, many: str | None = None) -> str:
    """Such as "1 episode" and "2 episodes"; `many` where the plural has more than an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"
