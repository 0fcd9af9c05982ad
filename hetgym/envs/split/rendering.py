"""Text frames of HetSplit-v0: the splits so far, the current schedule, and the next decision."""

from __future__ import annotations

from collections.abc import Sequence

from hetgym._text import time_unit
from hetgym.envs.core.rendering import device_lines
from hetgym.envs.split.instance import SplitInstance
from hetgym.graph import Operator
from hetgym.sim.trace import Trace


def split_text(
    trace: Trace,
    instance: SplitInstance,
    decided: Sequence[tuple[str, str]],
    current: Operator | None,
    legal: Sequence[str],
) -> str:
    """A text frame; ``decided``: names of operators and their choices; ``current``: None at the end."""
    problem, makespan = trace.problem, trace.makespan
    scale, unit = time_unit(max(makespan, instance.reference))
    lines = [
        f"{instance.problem.name}: {len(decided)}/{len(instance.keys)} decided, "
        f"{problem.num_operators} operators placed, "
        f"makespan {makespan / scale:.4g} {unit}, unsplit {instance.reference / scale:.4g} {unit}"
    ]
    lines += [f"  {name}: {choice}" for name, choice in decided if choice != "leave"]
    lines += device_lines(trace, makespan)
    if current is None:
        lines.append(f"done: makespan {makespan / scale:.6g} {unit}")
    else:
        lines.append(f"next: {current.name} ({current.kind}): {', '.join(legal)}")
    return "\n".join(lines)
