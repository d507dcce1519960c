"""The strategies of a run below each other, each as its run folder draws it: what the paper's
figures of robots and of StarCraft show."""

import base64
import re
from collections.abc import Sequence
from pathlib import Path

from rspo.bench.jobs import finished
from rspo.bench.record import Record
from rspo.bench.results import TUNED, settings_of
from rspo.bench.tables import Bench, domain_of
from rspo.core import svg
from rspo.errors import RspoError
from rspo.runs import store

TITLE = 40.0  # the height of the heading
SIZE = re.compile(rb'<svg [^>]*viewBox="0 0 (\d{1,5}) (\d{1,5})"')  # as our own pictures state it


def strips(bench: Bench, records: Sequence[Record], runs: Path) -> dict[str, str]:
    """For each environment the first method's first run with tuned settings whose folder is there,
    as SVG."""
    found = {}
    for env in bench.envs if bench.drawn else ():
        own = [r for r in records if bench.rows[0].made(r) and r["env"] == env]
        for run in sorted(own, key=lambda record: record["seed"]):
            drawn = _drawn(bench, run, runs) if settings_of(run) == TUNED else []
            if drawn:
                title = f"{bench.rows[0].name} in {env}, seed {run['seed']}"
                found[env] = stacked(title, drawn)
                break
    return found


def _drawn(bench: Bench, run: Record, runs: Path) -> list[bytes]:
    """The pictures of all its strategies, or none; a folder may hold another run by that name."""
    folder = runs / domain_of(run["env"]) / run["job"]
    try:
        if finished(folder) != run:
            return []
    except RspoError:  # damaged: nobody knows what it holds
        return []
    paths = [folder / f"{i:03d}-{bench.drawn}.svg" for i in range(len(run["strategies"]))]
    return [_picture(path) for path in paths] if all(map(store.exists, paths)) else []


def _picture(path: Path) -> bytes:
    picture = store.read(path)
    if SIZE.match(picture) is None:
        raise store.StoreError(f"{path} is damaged: delete it, and the tables are made without it.")
    return picture


def stacked(title: str, pictures: Sequence[bytes]) -> str:
    """Pictures below each other. They are embedded as images, which can neither run nor load
    anything, wherever they come from."""
    parts, top, wide = [svg.text(title, 16, 28, font_size=18, font_weight="bold")], TITLE, 0.0
    for picture in pictures:
        found = SIZE.match(picture)
        assert found is not None
        width, height = map(float, found.groups())
        data = f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"
        parts.append(svg.element("image", href=data, x=0, y=top, width=width, height=height))
        top, wide = top + height, max(wide, width)
    ground = svg.element("rect", width=wide, height=top, fill="#ffffff")
    return svg.document(wide, top, ground, *parts, font_family="sans-serif")
