"""Text frames of environments that schedule problems: the load of each device, and what is decided."""

from __future__ import annotations

import numpy as np

from hetgym._text import time_unit
from hetgym._types import FloatArray
from hetgym.envs.core.rendering import device_lines
from hetgym.envs.place.instance import ScheduleInstance
from hetgym.planning.timeline import Timeline
from hetgym.problem import Problem
from hetgym.sim import Runtime
from hetgym.sim.runtime import runtime_name
from hetgym.sim.trace import Trace
from hetgym.transfer import transfer_times


def partial_trace(problem: Problem, placed: Timeline, runtime: Runtime) -> Trace:
    """The operators that are placed, as a trace; the others have device -1; ``placed``: a partial schedule."""
    decided = placed.assignment >= 0
    finish = np.where(decided, placed.finish, 0.0)
    source, target = placed.assignment[problem.edge_source], placed.assignment[problem.edge_target]
    sent = finish[problem.edge_source]
    arrived = sent + transfer_times(problem, source, target, problem.edge_bytes)
    if not runtime.plans_as_classic:
        booked = decided[problem.edge_source] & decided[problem.edge_target] & (source != target)
        arrived = np.where(booked, placed.moves.arrived, sent)
        sent = np.where(booked & (placed.moves.sent >= 0), placed.moves.sent, arrived)
    return Trace(
        problem=problem,
        assignment=placed.assignment.copy(),
        start=np.where(decided, placed.start, 0.0),
        finish=finish,
        sent=sent,
        arrived=arrived,
        runtime=runtime_name(runtime),
        scheduler=f"{int(decided.sum())}/{problem.num_operators} placed",
    )


def place_text(instance: ScheduleInstance, trace: Trace, finish: FloatArray, current: int, makespan: float) -> str:
    """A text frame.

    Args:
        finish: [d] finish of the current operator on each device [s]; inf where it cannot run.
        current: the current operator; -1 at the end.
        makespan: makespan of the finished episode [s].
    """
    problem, decided = instance.problem, trace.assignment >= 0
    end = float(trace.finish[decided].max()) if decided.any() else 0.0
    scale, unit = time_unit(max(end, instance.reference))
    lines = [
        f"{problem.name}: {int(decided.sum())}/{problem.num_operators} placed, {end / scale:.4g} {unit} so far, "
        f"reference {instance.reference / scale:.4g} {unit}",
        *device_lines(trace, end),
    ]
    if current < 0:
        lines.append(f"done: makespan {makespan / scale:.6g} {unit}")
    else:
        options = ", ".join(
            f"{problem.device_names[d]} {finish[d] / scale:.4g}" for d in np.flatnonzero(np.isfinite(finish))
        )
        lines.append(
            f"next: {problem.operator_names[current]} ({problem.operator_kinds[current]}), finish [{unit}]: {options}"
        )
    return "\n".join(lines)


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
