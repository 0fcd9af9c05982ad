"""Text frames of improving a plan: the load of each device, the makespan, and the steps that are left."""

from __future__ import annotations

from hetgym._text import time_unit
from hetgym.envs.core.rendering import device_lines
from hetgym.envs.place.instance import ScheduleInstance
from hetgym.sim.trace import Trace


def plan_text(trace: Trace, instance: ScheduleInstance, left: int) -> str:
    """A text frame; ``left`` is the number of steps that are left."""
    scale, unit = time_unit(max(trace.makespan, instance.reference))
    return "\n".join(
        (
            f"{instance.problem.name}: makespan {trace.makespan / scale:.6g} {unit}, reference "
            f"{instance.reference / scale:.4g} {unit}, {left} steps left",
            *device_lines(trace, trace.makespan),
        )
    )
