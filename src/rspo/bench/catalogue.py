"""Every bench by name, in the paper's order."""

from rspo.bench import four_goals
from rspo.bench.tables import Bench

BENCHES: dict[str, Bench] = {bench.name: bench for bench in (*four_goals.BENCHES,)}
