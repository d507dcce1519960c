"""What the documentation shows works as it stands there."""

import re
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_environment_that_the_guide_writes_finds_both_ends() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "environment.md").read_text(), re.DOTALL)
    shown: dict[str, object] = {}
    exec(code, shown)
    assert {strategy.descriptor for strategy in shown["archive"]} == {"left", "right"}


def test_every_link_leads_somewhere() -> None:
    for page in [DOCS.parent / "README.md", *DOCS.glob("*.md")]:
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
