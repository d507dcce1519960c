"""The units, by the game's Liberty data. Lengths are in cells, times in "normal" seconds of 16 game
loops."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Lance:
    """A colossus burns everything within `thickness` of a line across its target."""

    half_length: float
    thickness: float


@dataclass(frozen=True)
class Unit:
    name: str
    hp: float
    armour: float
    """Subtracted from each hit on hit points, not from hits on shields."""
    speed: float
    damage: float
    period: float
    range: float
    """From edge to edge."""
    windup: float
    """From the start of an attack to its first hit ("damage point")."""
    backswing: float
    radius: float
    separation: float
    """The radius within which other units are pushed away."""
    longest_cooldown: float
    """In game loops: what SMAC divides a cooldown by."""
    shield: float = 0.0
    hits: int = 1
    gap: float = 0.0
    """Seconds between two hits of one attack."""
    hp_regeneration: float = 0.0
    """Per second."""
    shield_regeneration: float = 0.0
    """Per second, once the unit has not been hit for `SHIELD_DELAY`."""
    tall: bool = False
    """Walks over cliffs, and over all units that are not tall."""
    lance: Lance | None = None

    @property
    def last_hit(self) -> float:
        """Seconds after the start of an attack."""
        return self.windup + (self.hits - 1) * self.gap

    @property
    def commitment(self) -> float:
        """How long an attack roots a unit that gets no new order."""
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
SLOP = 1.0  # how far a target may be out of reach when a later hit of the same attack lands

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
