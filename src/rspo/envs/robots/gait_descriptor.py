"""The gait of a batch of episodes: one name for what most of them show, and the numbers behind it
(docs/gaits.md)."""

import cmath
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rspo.core.types import Descriptor
from rspo.envs.robots.gait import Gait, describe
from rspo.envs.robots.gait_name import Words, words
from rspo.envs.robots.linkage import Linkage

LASTING = 1.0
"""A robot that falls within this many seconds shows no gait; it is falling."""
AGREEING = 0.6
"""At least this share of the episodes must show one gait, or the strategy is "mixed"."""
# Of circular quantities, which have a circular mean.
PERIOD = {"pitch": 360.0, "phase": 1.0}
FALLING = Words("", "", "falling")


class Episode(NamedTuple):
    """A robot from its start to its fall, or to the horizon."""

    robot: Linkage
    fell: bool

    @property
    def seconds(self) -> float:
        return (len(self.robot.ends) - 1) * self.robot.dt

    @property
    def gait(self) -> Gait | None:
        return None if self.fell and self.seconds < LASTING else describe(self.robot)


def describe_gaits(episodes: Sequence[Episode]) -> Descriptor:
    """Episodes agree if posture and movement do; direction and stride are those of most of the
    agreeing ones. A fall is not part of the name, since it is not another gait. Numbers are means
    over the episodes that show a gait."""
    gaits = [episode.gait for episode in episodes]
    shown = [words(gait) if gait else FALLING for gait in gaits]
    manners = Counter(each.manner for each in shown)
    manner, most = manners.most_common(1)[0]
    agreeing = [each for each in shown if each.manner == manner]
    label = Words(
        _majority(each.direction for each in agreeing),
        _majority(each.stride for each in agreeing),
        manner,
    )
    agreed = most >= AGREEING * len(episodes)
    stats = {f"P({name})": count / len(episodes) for name, count in manners.items()}
    stats["falls"] = sum(episode.fell for episode in episodes) / len(episodes)
    stats["seconds"] = sum(episode.seconds for episode in episodes) / len(episodes)
    stats |= _means([numbers(gait) for gait in gaits if gait])
    return Descriptor(str(label) if agreed else "mixed", stats, clear=agreed and label != FALLING)


def numbers(gait: Gait) -> dict[str, float]:
    """A gait's numbers by name; those that it does not have are left out."""
    single = (
        "speed",
        "height",
        "bounce",
        "tilt",
        "inverted",
        "pitch",
        "shin",
        "stride_frequency",
        "stride_length",
    )
    several = {name: getattr(gait, name) for name in (*single, "periodicity", "flight")}
    several["turns a second"] = gait.turns / gait.seconds
    for foot in gait.feet:
        several |= {f"duty({foot.name})": foot.duty, f"phase({foot.name})": foot.phase}
    several |= {f"on({feet})": share for feet, share in gait.support.items()}
    feet = {foot.name for foot in gait.feet}
    several |= {
        f"touch({part})": share for part, share in gait.touching.items() if part not in feet
    }
    return {name: float(value) for name, value in several.items() if value is not None}


def _means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: _mean(name, rows) for name in dict.fromkeys(name for row in rows for name in row)}


def _mean(name: str, rows: Sequence[dict[str, float]]) -> float:
    kind = name.split("(")[0]
    if kind in ("on", "touch"):  # shares of time, left out where they are 0
        return sum(row.get(name, 0.0) for row in rows) / len(rows)
    values = [row[name] for row in rows if name in row]
    if period := PERIOD.get(kind):
        turn = math.tau / period
        angle = cmath.phase(sum(cmath.rect(1.0, value * turn) for value in values)) / turn
        return angle % period if kind == "phase" else angle
    return sum(values) / len(values)


def _majority(values: Iterable[str]) -> str:
    return Counter(values).most_common(1)[0][0]
