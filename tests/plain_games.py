"""Monster-Hunt and Escalation in plain Python, written from the rules: lists, tuples and ifs.

A cell is (x, y). Chance comes in as uniform numbers, and a choice gives each option an equal slice
of [0, 1), in the order of the options: cells row by row from (0, 0), directions right, left, up,
down.
"""

import numpy as np

MOVES = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))  # stay, right, left, up, down
GRID = [(x, y) for y in range(5) for x in range(5)]


def choose(options, uniform):
    return options[
        int(np.float32(uniform) * np.float32(len(options)))
    ]  # in the precision that the numbers come in


def neighbour(cell, action):
    """The cell that an action leads to, or None outside the grid."""
    there = (cell[0] + MOVES[action][0], cell[1] + MOVES[action][1])
    return there if there in GRID else None


def spawn(noise):
    cells = []
    for uniform in noise:
        cells.append(choose([cell for cell in GRID if cell not in cells], uniform))
    return cells


def relative(cell, origin):
    return [cell[0] - origin[0], cell[1] - origin[1]]


class PlainMonsterHunt:
    def __init__(self, agents, monster, apples, apple=2, monster_first=True):
        self.agents, self.monster, self.apples = list(agents), monster, list(apples)
        self.apple_reward, self.monster_first = apple, monster_first

    def observe(self):
        seen = []
        for me, other in ((0, 1), (1, 0)):
            here = self.agents[me]
            entities = [self.agents[other], self.monster, *self.apples]
            seen.append(
                [*here, *(number for entity in entities for number in relative(entity, here))]
            )
        return seen

    def step(self, actions, noise):
        """The rewards. The first number holds three coins, its first three binary digits from the
        last to the first."""
        digits = int(8 * noise[0])
        tie, turn, apple_coin = digits % 2, digits // 2 % 2, digits // 4
        if self.monster_first:
            self.move_monster(tie, turn)
        self.agents = [
            neighbour(cell, action) or cell
            for cell, action in zip(self.agents, actions, strict=True)
        ]
        if not self.monster_first:
            self.move_monster(tie, turn)

        rewards = [0, 0]
        victims = [i for i in (0, 1) if self.agents[i] == self.monster]
        for i in victims:
            rewards[i] += 5 if len(victims) == 2 else -2
        eaten = []
        for j in (0, 1):
            visitors = [i for i in (0, 1) if self.agents[i] == self.apples[j]]
            if visitors:
                eaten.append(j)
                rewards[visitors[0] if len(visitors) == 1 else apple_coin] += self.apple_reward

        if victims:
            self.monster = self.free_cell(noise[1])
        for j in eaten:
            self.apples[j] = self.free_cell(noise[2 + j])
        return rewards

    def move_monster(self, tie, turn):
        x, y = self.monster
        distances = [(a - x) ** 2 + (b - y) ** 2 for a, b in self.agents]
        closest = [
            agent
            for agent, distance in zip(self.agents, distances, strict=True)
            if distance == min(distances)
        ]
        target = closest[tie] if len(closest) == 2 else closest[0]
        steps = []
        if target[0] != x:
            steps.append((x + 1 if target[0] > x else x - 1, y))
        if target[1] != y:
            steps.append((x, y + 1 if target[1] > y else y - 1))
        if steps:
            self.monster = steps[turn] if len(steps) == 2 else steps[0]

    def free_cell(self, uniform):
        taken = [*self.agents, self.monster, *self.apples]
        return choose([cell for cell in GRID if cell not in taken], uniform)


class PlainEscalation:
    def __init__(self, agents, light, length=0):
        self.agents, self.light, self.length = list(agents), light, length
        self.over = False

    def observe(self):
        seen = []
        for me, other in ((0, 1), (1, 0)):
            here = self.agents[me]
            seen.append(
                [
                    self.length,
                    *here,
                    *relative(self.agents[other], here),
                    *relative(self.light, here),
                ]
            )
        return seen

    def step(self, actions, noise):
        """The rewards."""
        self.agents = [
            neighbour(cell, action) or cell
            for cell, action in zip(self.agents, actions, strict=True)
        ]
        on_light = [agent == self.light for agent in self.agents]
        if all(on_light):
            self.length += 1
            around = [neighbour(self.light, action) for action in (1, 2, 3, 4)]
            self.light = choose([cell for cell in around if cell is not None], noise[0])
            return [1, 1]
        if self.length == 0:
            return [0, 0]
        self.over = True
        return [-0.9 * self.length if on else 0 for on in on_light]
