"""The page of a bench: its figure, its tables, and links to the reports of its runs."""

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from rspo.report.render import render
from rspo.report.words import CITATION


@dataclass(frozen=True)
class Block:
    """A piece of a page."""

    kind: str  # "heading", "text", "table" or "list"
    text: str = ""
    lines: list[list[str]] = field(default_factory=list)


def bench_page(
    title: str, text: str, pictures: Sequence[str], runs: Sequence[tuple[str, str | None]]
) -> str:
    """The page as text; `runs` are names with the address of each one's report, if it exists."""
    return render(
        "bench.html.j2",
        title=title,
        blocks=list(blocks(text))[1:],  # the first heading is the title
        pictures=[_embedded(picture) for picture in pictures],
        runs=runs,
        citation=CITATION,
    )


def _embedded(picture: str) -> Markup:
    data = base64.b64encode(picture.encode()).decode()
    return Markup(f"data:image/svg+xml;base64,{data}")


def blocks(text: str) -> Iterator[Block]:
    """The pieces of Markdown as the benches write it: headings, paragraphs, lists and tables."""
    for part in text.split("\n\n"):
        lines = [_plain(line) for line in part.strip().split("\n")]
        if lines[0].startswith("#"):
            yield Block("heading", lines[0].lstrip("# "))
            lines = lines[1:]
        if not lines or not lines[0]:
            continue
        if lines[0].startswith("|"):
            rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
            yield Block("table", lines=[rows[0], *rows[2:]])
        elif lines[0].startswith("- "):
            yield Block("list", lines=[[line.removeprefix("- ")] for line in lines])
        else:
            yield Block("text", " ".join(lines))


def _plain(line: str) -> str:
    """Without emphasis; an asterisk after a word, as in L*, or alone is none."""
    return re.sub(r"(?<!\w)(\*\*?)(?=\S)([^*]*\S)\1", r"\2", line.replace("`", ""))
