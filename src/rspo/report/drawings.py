"""The environment's drawings of single strategies (`Env.pictures`) and its renderer's pictures of
them (`Env.photographs`), embedded in the page."""

import base64
from typing import NamedTuple

from rspo.report.reading import RunFolder
from rspo.runs import manifest, store

BUDGET = 1_200_000  # characters of all of them together
KINDS = {".svg": "svg+xml", ".png": "png"}


class Drawing(NamedTuple):
    number: int
    name: str
    sources: list[str]
    """The pictures as data URLs. Browsers run no script inside an image."""


def drawings(run: RunFolder) -> list[Drawing]:
    """`000-gait.svg`, `000-gait.png` and the like in the run folder, by strategy; all drawings
    first, then as many photographs as fit."""
    left = BUDGET
    sources: dict[int, list[str]] = {}
    for index, name in pictures_of(run):
        data = manifest.readable(store.read, run.path / name)
        source = f"data:image/{KINDS[name[-4:]]};base64,{base64.b64encode(data).decode()}"
        if len(source) <= left:
            left -= len(source)
            sources.setdefault(index, []).append(source)
    return [
        Drawing(strategy.index, strategy.name, sources[strategy.index])
        for strategy in run.strategies
        if strategy.index in sources
    ]


def pictures_of(run: RunFolder) -> list[tuple[int, str]]:
    """The number of a strategy and the name of a file, for each picture of single strategies."""
    names = store.names(run.path, links=True)
    return [
        (strategy.index, name)
        for kind in KINDS
        for strategy in run.strategies
        for name in sorted(names)
        if name.startswith(f"{manifest.folder_name(strategy.index)}-") and name.endswith(kind)
    ]
