"""What an environment drew of single strategies (`Env.pictures`), as pictures that the page holds
in itself."""

import base64
from typing import NamedTuple

from rspo.report.reading import RunFolder
from rspo.runs import manifest, store


class Drawing(NamedTuple):
    number: int
    name: str
    source: str
    """The picture as an address. Browsers run no script in a picture, whatever it holds."""


def drawings(run: RunFolder) -> list[Drawing]:
    """Of `000-gait.svg` and the like in the run folder, by strategy."""
    names = store.names(run.path, links=True)
    return [
        Drawing(
            strategy.index,
            strategy.name,
            f"data:image/svg+xml;base64,{base64.b64encode(data).decode()}",
        )
        for strategy in run.strategies
        for name in names
        if name.startswith(f"{manifest.folder_name(strategy.index)}-") and name.endswith(".svg")
        for data in [manifest.readable(store.read, run.path / name)]
    ]
