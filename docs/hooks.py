"""MkDocs hooks: pages of methods and results are added to the navigation, and the table of methods
is generated."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, InclusionLevel

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "results"
MARK = "<!-- methods -->"
WHEN = re.compile(r"^## When to choose it\n+(.*?)(?=\n\n|\n#|\Z)", re.DOTALL | re.MULTILINE)


def on_config(config: Any) -> Any:
    """Every page is in the navigation."""
    methods = [f"methods/{page.name}" for page in sorted((DOCS / "methods").glob("*.md"))]
    for section in config.nav:
        if "Methods" in section:
            section["Methods"][1:1] = methods
    named = set(_pages(config.nav))
    more = [str(page.relative_to(DOCS)) for page in sorted(DOCS.rglob("*.md"))]
    if rest := [page for page in more if page not in named]:
        config.nav.insert(-1, {"More": rest})
    return config


def _pages(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in _pages(part)]


def on_files(files: Any, config: Any) -> Any:
    """Add results/, which is beside docs/, to the site."""
    for path in sorted(RESULTS.iterdir()):
        if path.suffix in (".md", ".svg", ".csv"):
            place = {"src_uri": f"results/{path.name}", "abs_src_path": str(path)}
            files.append(File.generated(config, inclusion=InclusionLevel.NOT_IN_NAV, **place))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links that lead out of docs/, which are right in the repository, for the site."""
    up = "../" * page.file.src_uri.count("/")
    markdown = markdown.replace(f"](../{up}results/", f"]({up}results/")
    return markdown.replace(MARK, methods_table()) if MARK in markdown else markdown


def methods_table() -> str:
    """Every method: its kind, what it requires of an environment, and when to choose it."""
    from rspo.registry import METHODS

    rows = ["| method | kind | needs | what it is, and when to choose it |", "|---|---|---|---|"]
    for name, summary in METHODS.summaries().items():
        method, page = METHODS.make(name), f"methods/{name}.md"
        own = (DOCS / page).exists()
        when = _when(DOCS / page) if own else ""
        link = f"[`{name}`]({page if own else 'method.md'})"
        cells = [link, method.kind, ", ".join(method.needs), f"{summary}. {when}".strip()]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def _when(page: Path) -> str:
    found = WHEN.search(page.read_text())
    return " ".join(found[1].split()) if found else ""
