"""Text frames of a running episode: the load of each device so far."""

from __future__ import annotations

from hetgym._text import time_unit
from hetgym.envs.core.rendering import device_lines
from hetgym.sim.trace import Trace


def dispatch_text(trace: Trace, now: float, reference: float, over: bool) -> str:
    """A text frame of a run at a time; operators that have not started are on device -1 of the trace.

    ``now`` and ``reference``, the value that the return compares with, are in seconds.
    """
    begun = trace.assignment >= 0
    end = max(now, float(trace.finish[begun].max()) if begun.any() else 0.0)
    scale, unit = time_unit(max(end, reference))
    lines = [
        f"{trace.problem.name}: {now / scale:.4g} {unit}, {int(begun.sum())}/{trace.problem.num_operators} started, "
        f"reference {reference / scale:.4g} {unit}",
        *device_lines(trace, end),
    ]
    if over:
        lines.append(f"done: makespan {end / scale:.6g} {unit}")
    return "\n".join(lines)
