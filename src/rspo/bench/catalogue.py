"""Every bench by name, in the paper's order."""

from rspo.bench import escalation, four_goals, monster_hunt, mujoco, other
from rspo.bench.tables import Bench

BENCHES: dict[str, Bench] = {
    bench.name: bench
    for bench in (
        *four_goals.BENCHES,
        *monster_hunt.BENCHES,
        *escalation.BENCHES,
        *mujoco.ROBOT_BENCHES,
        *other.EVOLUTIONARY_BENCHES,
        *mujoco.SENSITIVITY_BENCHES,
        *other.POINT_BENCHES,
        *other.SMAC_BENCHES,
    )
}
