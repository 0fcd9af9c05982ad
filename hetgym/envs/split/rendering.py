"""Text frames of HetSplit-v0: what is split, the present schedule, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hetgym.envs.place.rendering import _occupancy
from hetgym.envs.split.dynamics import Context
from hetgym.graph import Operator
from hetgym.sim.gantt import time_unit
from hetgym.sim.trace import Trace


def split_text(
    trace: Trace, context: Context, decided: Sequence[tuple[str, str]], current: Operator | None, legal: Sequence[str]
) -> str:
    """A text frame.

    Args:
        trace: of the present schedule.
        context: of the graph.
        decided: operators and what was chosen for them.
        current: the operator to be decided on; None at the end.
        legal: choices that it has.
    """
    problem, makespan = trace.problem, trace.makespan
    scale, unit = time_unit(max(makespan, context.reference))
    lines = [
        f"{context.problem.name}: {len(decided)}/{len(context.keys)} decided, "
        f"{problem.num_operators} operators placed, "
        f"makespan {makespan / scale:.4g} {unit}, unsplit {context.reference / scale:.4g} {unit}"
    ]
    lines += [f"  {name}: {choice}" for name, choice in decided if choice != "leave"]
    width = max(len(name) for name in problem.device_names)
    for device, name in enumerate(problem.device_names):
        members = np.flatnonzero(trace.assignment == device)
        line = _occupancy(trace.start[members], trace.finish[members], makespan)
        lines.append(f"{name:<{width}} |{line}| {len(members):>4} operators")
    if current is None:
        lines.append(f"done: makespan {makespan / scale:.6g} {unit}")
    else:
        lines.append(f"next: {current.name} ({current.kind}): {', '.join(legal)}")
    return "\n".join(lines)
