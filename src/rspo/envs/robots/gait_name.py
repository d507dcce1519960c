"""A short name for a gait, built from its numbers by the thresholds that docs/gaits.md explains."""

from typing import NamedTuple

from rspo.envs.robots.gait import Foot, Gait

MOVING = 0.2  # metres per second; slower is on the spot
USED = 0.05  # a foot that is down for a smaller share of time is not used
FLIGHT = 0.05  # airborne for a larger share of time: hops and runs; otherwise shuffles and walks
RESTING = 0.3  # a part that touches for this share of time carries weight
UPSIDE_DOWN = 120.0  # degrees of tilt
LEVEL = 60.0  # degrees of tilt at which an upright walker is no longer upright
STANDING_ON_ONE_END = (
    30.0  # degrees of pitch that turn running on the fore foot alone into a handstand
)
LEANING = 20.0  # degrees of pitch
TUMBLING = 0.25  # turns per second
KNEELING = 60.0  # degrees by which every shin leans
CROUCHED = 0.75  # the torso's height as a share of the standing one
# Between two feet's landings, as a share of a stride, at most 0.5.
IN_STEP, ALTERNATING = 0.15, 0.35
SMALL_STEP, LONG_STRIDE = 0.3, 1.5  # strides' length as a share of the torso's standing height


class Words(NamedTuple):
    """The parts of a name, "" where one is left out."""

    direction: str
    stride: str
    manner: str  # posture and movement, which define a distinct gait

    def __str__(self) -> str:
        return " ".join(word for word in self if word)


def name(gait: Gait, fell: bool = False) -> str:
    """As a person would say it: "handstand running", "kneeling", "two-foot hopping"."""
    return f"{words(gait)}, then a fall" if fell else str(words(gait))


def words(gait: Gait) -> Words:
    posture, movement = _posture(gait), _movement(gait)
    if posture == "kneeling" and movement in ("standing", "lying", "shuffling", "sliding"):
        movement = ""
    if posture == "lying" and movement in ("lying", "standing"):
        movement = ""
    manner = " ".join(word for word in (posture, movement) if word)
    return Words("backward" if gait.speed < -MOVING else "", _stride(gait, movement), manner)


def _posture(gait: Gait) -> str:
    used = _used(gait)
    if abs(gait.turns) >= max(1.0, TUMBLING * gait.seconds):
        return "somersaulting"
    if gait.tilt > UPSIDE_DOWN:
        return "upside-down"
    if gait.tilt > LEVEL and not gait.fore:
        return "sideways" if abs(gait.pitch) < LEVEL else "prone" if gait.pitch > 0 else "supine"
    if gait.trunk_touching >= RESTING:
        return "lying" if abs(gait.speed) < MOVING else f"{_lowest(gait)}-dragging"
    if gait.fore and len(used) == 1:
        return _on_one_end(gait, fore=used[0].name in gait.fore)
    if gait.leg_touching >= RESTING or (not gait.fore and (gait.shin or 0.0) > KNEELING):
        return "kneeling"
    if abs(gait.pitch) > LEANING:
        return "forward-leaning" if gait.pitch > 0 else "backward-leaning"
    return "crouched" if gait.height < CROUCHED * gait.standing else ""


def _on_one_end(gait: Gait, fore: bool) -> str:
    if fore:
        return "handstand" if gait.pitch > STANDING_ON_ONE_END else "fore-foot"
    return "rearing" if gait.pitch < -STANDING_ON_ONE_END else "hind-foot"


def _movement(gait: Gait) -> str:
    used = _used(gait)
    flying = gait.flight >= FLIGHT
    if abs(gait.speed) < MOVING:
        return _on_the_spot(gait, bool(used), flying)
    if not used:
        return "bouncing" if flying else "sliding"
    if gait.fore or len(used) > 2:
        return "running" if flying else "walking"
    if len(used) == 1:
        one_of_many = "one-foot " if len(gait.feet) > 1 else ""
        return one_of_many + ("hopping" if flying else "shuffling")
    return _two_feet(used, flying)


def _on_the_spot(gait: Gait, on_feet: bool, flying: bool) -> str:
    if flying and gait.stride_frequency:
        return "hopping on the spot" if on_feet else "bouncing on the spot"
    return "standing" if on_feet else "lying"


def _two_feet(used: list[Foot], flying: bool) -> str:
    if (apart := _apart(used)) is None:
        return "jumping" if flying else "shuffling"
    if apart <= IN_STEP:
        return "two-foot hopping" if flying else "two-foot shuffling"
    if apart >= ALTERNATING:
        return "running" if flying else "walking"
    return "galloping" if flying else "limping"


def _apart(feet: list[Foot]) -> float | None:
    """The offset between the landings of two feet, as a share of a stride: 0 together, 0.5
    alternating."""
    first, second = (foot.phase for foot in feet)
    if first is None or second is None:
        return None
    lag = (second - first) % 1.0
    return min(lag, 1.0 - lag)


def _stride(gait: Gait, movement: str) -> str:
    if not movement.endswith(("running", "walking", "hopping")) or gait.stride_length is None:
        return ""
    relative = abs(gait.stride_length) / gait.standing
    return (
        "small-step" if relative < SMALL_STEP else "long-stride" if relative > LONG_STRIDE else ""
    )


def _used(gait: Gait) -> list[Foot]:
    return [foot for foot in gait.feet if foot.duty >= USED]


def _lowest(gait: Gait) -> str:
    return max(gait.trunk, key=lambda part: gait.touching.get(part, 0.0))
