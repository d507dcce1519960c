"""The skirmishes once more, in plain Python: unit after unit, hit after hit. Only the table of ways
around obstacles is taken from the package; it has tests of its own."""

import math
from types import SimpleNamespace

import numpy as np

from rspo.envs.skirmish.maps import MAPS
from rspo.envs.skirmish.terrain import terrain

DT = 0.125
FIELDS = ("x", "y", "hp", "shield", "cooldown", "swing", "calm", "target", "shot")


class Plain:
    def __init__(self, name, state, targets="shooters", slop=1.0):
        """From the (NumPy) state of the other implementation."""
        self.map, self.rule, self.slop = MAPS[name], targets, slop
        self.ground = terrain(self.map.ground)
        self.allies = self._team(self.map.allies, state.allies)
        self.enemies = self._team(self.map.enemies, state.enemies)
        self.point = float(state.point_x), float(state.point_y)

    def _team(self, side, team):
        return [
            SimpleNamespace(
                number=i, kind=side.unit, **{f: getattr(team, f)[i].item() for f in FIELDS}
            )
            for i in range(side.count)
        ]

    # ---- a step

    def step(self, action, noise):
        """Give orders, let half a second pass; the reward."""
        before = [unit.hp + unit.shield for unit in self.enemies]
        self.moves = []
        for unit, choice in zip(self.allies, action, strict=True):
            choice = choice if unit.hp > 0 else 0
            unit.target = choice - 6 if choice >= 6 else -1
            self.moves.append({2: (0, 1), 3: (0, -1), 4: (1, 0), 5: (-1, 0)}.get(choice, (0, 0)))
        for unit, draw in zip(self.allies + self.enemies, noise, strict=True):
            unit.shot, unit.jitter = -1, -0.0625 + 0.1875 * float(draw)
        for _ in range(4):
            self._part()
        after = [unit.hp + unit.shield for unit in self.enemies]
        died = sum(b > 0 and a == 0 for b, a in zip(before, after, strict=True))
        total = self.map.enemies.count * (10 + self.map.enemies.unit.health) + 200
        won = not any(after) and any(unit.hp > 0 for unit in self.allies)
        return (abs(sum(before) - sum(after) + 10 * died) + 200 * won) * 20 / total

    def _part(self):
        for enemy in self.enemies:
            enemy.target = self._target(enemy)
        self._blows()
        steps = [
            self._ally_step(unit, move) for unit, move in zip(self.allies, self.moves, strict=True)
        ]
        steps += [self._enemy_step(unit) for unit in self.enemies]
        self._walk(steps)
        for unit in self.allies + self.enemies:
            unit.cooldown = max(unit.cooldown - DT, -DT)
            unit.swing = min(unit.swing + DT, 100.0)

    def _target(self, enemy):
        if enemy.target >= 0:
            prey = self.allies[enemy.target]
            if enemy.swing < enemy.kind.last_hit:
                return enemy.target
            if prey.hp > 0 and apart(enemy, prey) <= enemy.kind.reach(prey.kind):
                return enemy.target
            if prey.hp > 0 and self.rule == "sticky":
                return enemy.target
        living = sorted((u for u in self.allies if u.hp > 0), key=lambda u: apart(u, enemy))
        near = [u for u in living if apart(u, enemy) <= 5 + u.kind.radius + enemy.kind.radius]
        shooters = [u for u in near if self.rule == "shooters" and u.swing < u.kind.period]
        attackers = [u for u in near if u.target >= 0]
        threats = [u for u in living if u.target == enemy.number or u in attackers or u in shooters]
        if self.rule not in ("attackers", "shooters"):
            threats = []
        for group in (threats, near, living if self.map.order == "units" else []):
            if group:
                return group[0].number
        return -1

    # ---- striking

    def _blows(self):
        hits = []  # victim and damage of each
        for team, others in ((self.allies, self.enemies), (self.enemies, self.allies)):
            for unit in team:
                if unit.hp <= 0 or unit.target < 0 or others[unit.target].hp <= 0:
                    continue
                prey, kind = others[unit.target], unit.kind
                distance, reach = apart(unit, prey), kind.reach(prey.kind)
                if distance <= reach and unit.cooldown <= 0 and unit.swing >= kind.last_hit:
                    unit.swing, unit.shot = 0.0, unit.target
                    unit.cooldown += kind.period + unit.jitter
                if distance <= reach + self.slop:
                    for k in range(kind.hits):
                        if unit.swing <= kind.windup + k * kind.gap < unit.swing + DT:
                            hits += [(v, kind.damage) for v in self._struck(unit, prey, others)]
        for unit in self.allies + self.enemies:
            unit.hurt = False
        for victim, damage in hits:
            self._hit(victim, damage)
        for unit in self.allies + self.enemies:
            self._recover(unit)

    def _struck(self, unit, prey, others):
        lance = unit.kind.lance
        if not lance:
            return [prey]
        angle = math.atan2(prey.y - unit.y, prey.x - unit.x)
        ends = [
            (
                prey.x - side * lance.half_length * math.sin(angle),
                prey.y + side * lance.half_length * math.cos(angle),
            )
            for side in (-1, 1)
        ]
        near = lance.thickness + prey.kind.radius
        return [v for v in others if v.hp > 0 and from_segment((v.x, v.y), *ends) <= near]

    def _hit(self, victim, damage):
        victim.hurt = True
        absorbed = min(victim.shield, damage)
        victim.shield -= absorbed
        if absorbed < damage:
            victim.hp = max(victim.hp - max(damage - absorbed - victim.kind.armour, 0.0), 0.0)

    def _recover(self, unit):
        kind = unit.kind
        unit.calm = 0.0 if unit.hurt else unit.calm + DT
        if unit.hp <= 0:
            unit.shield = 0.0
            return
        unit.hp = min(unit.hp + kind.hp_regeneration * DT, kind.hp)
        if unit.calm >= 10:
            unit.shield = min(unit.shield + kind.shield_regeneration * DT, kind.shield)

    # ---- walking

    def _ally_step(self, unit, move):
        length = unit.kind.speed * DT
        if unit.hp <= 0 or unit.swing < unit.kind.last_hit:
            return 0.0, 0.0
        if unit.target >= 0 and self.enemies[unit.target].hp > 0:
            prey = self.enemies[unit.target]
            return towards(unit, (prey.x, prey.y), length, 0.99 * unit.kind.reach(prey.kind))
        return move[0] * length, move[1] * length

    def _enemy_step(self, unit):
        if unit.hp <= 0 or unit.swing < unit.kind.last_hit + unit.kind.backswing:
            return 0.0, 0.0
        prey = self.allies[unit.target] if unit.target >= 0 else None
        goal = (prey.x, prey.y) if prey else self.point
        if prey and apart(unit, prey) <= unit.kind.reach(prey.kind):
            return 0.0, 0.0
        number = lambda x, y: self.ground.number[int(y) * 32 + int(x)]
        corner = int(self.ground.way[number(*goal), number(unit.x, unit.y)])
        if corner >= 0:
            return towards(unit, (corner % 32 + 0.5, corner // 32 + 0.5), unit.kind.speed * DT, 0.0)
        short = unit.kind.radius + prey.kind.radius if prey else 0.0
        return towards(unit, goal, unit.kind.speed * DT, short)

    def _walk(self, steps):
        units = self.allies + self.enemies
        places = [(u.x + dx, u.y + dy) for u, (dx, dy) in zip(units, steps, strict=True)]
        pushes = [self._push(units, places, i) for i in range(len(units))]
        for unit, step, push in zip(units, steps, pushes, strict=True):
            x, y = unit.x + step[0] + push[0], unit.y + step[1] + push[1]
            if self._free(unit, x, y):
                unit.x, unit.y = x, y
            elif self._free(unit, x, unit.y):
                unit.x = x
            elif self._free(unit, unit.x, y):
                unit.y = y

    def _push(self, units, places, i):
        total_x = total_y = 0.0
        own = units[i]
        if own.hp <= 0:
            return 0.0, 0.0
        for other, (x, y) in zip(units, places, strict=True):
            if other is own or other.hp <= 0 or other.kind.tall != own.kind.tall:
                continue
            dx, dy = places[i][0] - x, places[i][1] - y
            distance = math.hypot(dx, dy)
            overlap = own.kind.separation + other.kind.separation - distance
            if overlap > 0 and distance > 0:
                total_x += overlap / 2 * dx / distance
                total_y += overlap / 2 * dy / distance
        length = math.hypot(total_x, total_y)
        scale = min(1.0, 0.25 / length) if length else 0.0
        return total_x * scale, total_y * scale

    def _free(self, unit, x, y):
        return self.inside(x, y) and bool(
            (self.ground.scalable if unit.kind.tall else self.ground.walkable)[int(y), int(x)]
        )

    @staticmethod
    def inside(x, y):
        return 0 <= x < 32 and 0 <= y < 32

    # ---- what is seen

    def mask(self, scaler=True):
        """[allies, actions] of 0 and 1."""
        return [self._allowed(unit, scaler) for unit in self.allies]

    def _allowed(self, unit, scaler=True):
        if unit.hp <= 0:
            return [1] + [0] * (5 + len(self.enemies))
        cells = self.ground.scalable if scaler and unit.kind.tall else self.ground.walkable
        moves = [
            int(self.inside(int(x), int(y)) and bool(cells[int(y), int(x)]))
            for x, y in (
                (unit.x, unit.y + 1),
                (unit.x, unit.y - 1),
                (unit.x + 1, unit.y),
                (unit.x - 1, unit.y),
            )
        ]
        return [0, 1, *moves, *(int(e.hp > 0 and apart(unit, e) <= 6) for e in self.enemies)]

    def observation(self, i):
        unit, allowed = self.allies[i], self._allowed(self.allies[i])
        size = 4 + sum(5 + (e.kind.shield > 0) for e in self.enemies)
        size += sum(5 + (a.kind.shield > 0) for a in self.allies[1:]) + 1 + (unit.kind.shield > 0)
        if unit.hp <= 0:
            return [0.0] * size
        seen = list(allowed[2:6])
        for j, enemy in enumerate(self.enemies):
            seen += self._other(unit, enemy, allowed[6 + j])
        for ally in self.allies:
            if ally is not unit:
                seen += self._other(unit, ally, 1)
        return seen + self._body(unit)

    def _other(self, unit, other, flag):
        if other.hp <= 0 or apart(unit, other) >= 9:
            return [0.0] * (5 + (other.kind.shield > 0))
        offset = [apart(unit, other) / 9, (other.x - unit.x) / 9, (other.y - unit.y) / 9]
        return [flag, *offset, *self._body(other)]

    @staticmethod
    def _body(unit):
        shield = [unit.shield / unit.kind.shield] if unit.kind.shield else []
        return [unit.hp / unit.kind.hp, *shield]

    def state(self, action):
        seen = []
        for ally in self.allies:
            body = self._body(ally)
            cooldown = max(ally.cooldown, 0.0) * 16 / ally.kind.longest_cooldown
            row = [body[0], cooldown, (ally.x - 16) / 32, (ally.y - 16) / 32, *body[1:]]
            seen += row if ally.hp > 0 else [0.0] * len(row)
        for enemy in self.enemies:
            body = self._body(enemy)
            row = [body[0], (enemy.x - 16) / 32, (enemy.y - 16) / 32, *body[1:]]
            seen += row if enemy.hp > 0 else [0.0] * len(row)
        for choice in action:
            seen += np.eye(6 + len(self.enemies))[choice].tolist()
        return seen


def apart(one, other):
    return math.hypot(one.x - other.x, one.y - other.y)


def towards(unit, goal, longest, short_of):
    dx, dy = goal[0] - unit.x, goal[1] - unit.y
    distance = math.hypot(dx, dy)
    length = min(max(distance - short_of, 0.0), longest)
    return (dx / distance * length, dy / distance * length) if distance else (0.0, 0.0)


def from_segment(point, one, two):
    """The distance of a point from the line between two others."""
    along = (two[0] - one[0], two[1] - one[1])
    share = (point[0] - one[0]) * along[0] + (point[1] - one[1]) * along[1]
    share = min(max(share / (along[0] ** 2 + along[1] ** 2), 0.0), 1.0)
    return math.hypot(point[0] - one[0] - share * along[0], point[1] - one[1] - share * along[1])
