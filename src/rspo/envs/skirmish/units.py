"""The units, by the game's Liberty data. Lengths are in cells, times in "normal" seconds of 16 game
loops."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Lance:
    """A colossus burns what is near a line across its target: so far to both sides, so far from
    it."""

    half_length: float
    thickness: float


@dataclass(frozen=True)
class Unit:
    name: str
    hp: float
    armour: float
    """Taken off each hit on hit points, not off hits on shields."""
    speed: float
    damage: float
    period: float
    range: float
    """From edge to edge."""
    windup: float
    """From the begin of a blow to its first hit ("damage point")."""
    backswing: float
    radius: float
    separation: float
    """The radius that keeps other units off."""
    longest_cooldown: float
    """In game loops: what SMAC divides a cooldown by."""
    shield: float = 0.0
    hits: int = 1
    gap: float = 0.0
    """Between two hits of one blow."""
    hp_regeneration: float = 0.0
    """Each second."""
    shield_regeneration: float = 0.0
    """Each second, once nothing has hurt the unit for `SHIELD_DELAY`."""
    tall: bool = False
    """Walks over cliffs, and over the heads of all that are not tall."""
    lance: Lance | None = None

    @property
    def last_hit(self) -> float:
        """Seconds after the begin of a blow."""
        return self.windup + (self.hits - 1) * self.gap

    @property
    def commitment(self) -> float:
        """How long a blow roots a unit that nobody gives a new order."""
        return self.last_hit + self.backswing

    @property
    def health(self) -> float:
        return self.hp + self.shield

    def reach(self, other: "Unit") -> float:
        """From centre to centre."""
        return self.range + self.radius + other.radius


SCAN_RANGE = 5.0  # from edge to edge, within which a unit looks for targets of its own accord
SHIELD_DELAY = 10.0
COOLDOWN_JITTER = (-0.0625, 0.125)
SLOP = 1.0  # by which a target may have left reach when a later hit of the same blow lands

UNITS = {
    unit.name: unit
    for unit in (
        Unit(
            "marine",
            hp=45.0,
            armour=0.0,
            speed=2.25,
            damage=6.0,
            period=0.8608,
            range=5.0,
            windup=0.05,
            backswing=0.75,
            radius=0.375,
            separation=0.375,
            longest_cooldown=15.0,
        ),
        Unit(
            "zealot",
            hp=100.0,
            shield=50.0,
            armour=1.0,
            speed=2.25,
            damage=8.0,
            hits=2,
            gap=0.28,
            period=1.2,
            range=0.1,
            windup=0.0,
            backswing=0.5,
            radius=0.5,
            separation=0.375,
            longest_cooldown=22.0,
            shield_regeneration=2.0,
        ),
        Unit(
            "colossus",
            hp=200.0,
            shield=150.0,
            armour=1.0,
            speed=2.25,
            damage=20.0,
            hits=2,
            period=2.2,
            range=6.0,
            windup=0.0832,
            backswing=0.5,
            radius=1.0,
            separation=0.75,
            longest_cooldown=24.0,
            shield_regeneration=2.0,
            tall=True,
            lance=Lance(half_length=1.25, thickness=0.15),
        ),
        Unit(
            "zergling",
            hp=35.0,
            armour=0.0,
            speed=2.9531,
            damage=5.0,
            period=0.696,
            range=0.1,
            windup=0.167,
            backswing=0.5,
            radius=0.375,
            separation=0.375,
            longest_cooldown=11.0,
            hp_regeneration=0.2734,
        ),
    )
}
