"""Names that may come from a run folder or a user's code, before they are shown."""


def printable(text: str) -> str:
    """Without what would move the cursor or change colours: names in a run folder may come from anywhere."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
