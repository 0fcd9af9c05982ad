"""Frames of a placement episode: text for terminals, pixels for videos."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray
from hetgym.envs.place.dynamics import Context
from hetgym.planning.timeline import Timeline
from hetgym.problem import Problem
from hetgym.sim.gantt import draw, time_unit
from hetgym.sim.trace import Trace

FRAME_INCHES = (9.6, 5.4)
FRAME_DPI = 100
_COLUMNS = 64


def partial_trace(problem: Problem, placed: Timeline) -> Trace:
    """What is placed so far, as a trace under the classic model; the rest has device -1."""
    decided = placed.assignment >= 0
    finish = np.where(decided, placed.finish, 0.0)
    a, b = placed.assignment[problem.edge_source], placed.assignment[problem.edge_target]
    sent = finish[problem.edge_source]
    transfer = problem.latency[a, b] + problem.edge_bytes / problem.bandwidth[a, b]
    return Trace(
        problem=problem,
        assignment=placed.assignment.copy(),
        start=np.where(decided, placed.start, 0.0),
        finish=finish,
        sent=sent,
        arrived=sent + transfer,
        runtime="classic",
        scheduler=f"{int(decided.sum())}/{problem.num_operators} placed",
    )


def ansi(context: Context, placed: Timeline, finish: FloatArray, makespan: float) -> str:
    """A text frame: one line a device with its load over time, then the current decision.

    Args:
        context: of the problem.
        placed: the partial schedule.
        finish: [d] when the current operator would finish on each device; inf where it cannot run [s].
        makespan: of the finished episode [s].
    """
    problem = context.problem
    decided = placed.assignment >= 0
    end = float(placed.finish[decided].max()) if decided.any() else 0.0
    scale, unit = time_unit(max(end, context.reference))
    width = max(len(name) for name in problem.device_names)
    turn = int(decided.sum())
    lines = [
        f"{problem.name}: {turn}/{problem.num_operators} placed, {end / scale:.4g} {unit} so far, "
        f"reference {context.reference / scale:.4g} {unit}"
    ]
    for device, name in enumerate(problem.device_names):
        members = np.flatnonzero(placed.assignment == device)
        line = _occupancy(placed.start[members], placed.finish[members], end)
        lines.append(f"{name:<{width}} |{line}| {len(members):>4} operators")
    if turn == problem.num_operators:
        lines.append(f"done: makespan {makespan / scale:.6g} {unit}")
    else:
        current = int(context.plan.order[turn])
        options = ", ".join(
            f"{problem.device_names[d]} {finish[d] / scale:.4g}" for d in np.flatnonzero(np.isfinite(finish))
        )
        lines.append(
            f"next: {problem.operator_names[current]} ({problem.operator_kinds[current]}), finish [{unit}]: {options}"
        )
    return "\n".join(lines)


def running(trace: Trace, now: float, reference: float, over: bool) -> str:
    """A text frame of a run that goes on: one line a device with its load over time so far.

    Args:
        trace: what has started; the rest has device -1.
        now: the time [s].
        reference: makespan that the agent is compared with [s].
        over: whether all has run.
    """
    problem = trace.problem
    begun = trace.assignment >= 0
    end = max(now, float(trace.finish[begun].max()) if begun.any() else 0.0)
    scale, unit = time_unit(max(end, reference))
    width = max(len(name) for name in problem.device_names)
    lines = [
        f"{problem.name}: {now / scale:.4g} {unit}, {int(begun.sum())}/{problem.num_operators} started, "
        f"reference {reference / scale:.4g} {unit}"
    ]
    for device, name in enumerate(problem.device_names):
        members = np.flatnonzero(trace.assignment == device)
        line = _occupancy(trace.start[members], trace.finish[members], end)
        lines.append(f"{name:<{width}} |{line}| {len(members):>4} operators")
    if over:
        lines.append(f"done: makespan {end / scale:.6g} {unit}")
    return "\n".join(lines)


def _occupancy(start: npt.NDArray[np.float64], finish: npt.NDArray[np.float64], end: float) -> str:
    """Share of each of the columns in which a device is busy, as block characters."""
    busy = np.zeros(_COLUMNS)
    if end > 0:
        edges = np.linspace(0.0, end, _COLUMNS + 1)
        for a, b in zip(start, finish, strict=True):
            busy += np.clip(np.minimum(b, edges[1:]) - np.maximum(a, edges[:-1]), 0.0, None)
        busy /= end / _COLUMNS
    return "".join(" ▁▂▃▄▅▆▇█"[min(8, int(np.ceil(share * 8 - 1e-9)))] for share in busy)


def rgb_array(trace: Trace) -> npt.NDArray[np.uint8]:
    """A Gantt chart of fixed size as pixels.

    Returns:
        [540, 960, 3] colours.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    figure = draw(trace, size=FRAME_INCHES, dpi=FRAME_DPI)
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()  # type: ignore[attr-defined]
