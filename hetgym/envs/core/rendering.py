"""Frames that environments share: text for terminals, Gantt charts as pixels for videos."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray
from hetgym.sim.gantt import draw
from hetgym.sim.trace import Trace

FRAME_INCHES = (9.6, 5.4)
FRAME_DPI = 100

_COLUMNS = 64


def device_lines(trace: Trace, end: float) -> list[str]:
    """A line for each device: its load over time, and how many operators it has.

    Args:
        trace: the run; operators on device -1 are left out.
        end: time at the right edge [s].
    """
    problem = trace.problem
    width = max(len(name) for name in problem.device_names)
    lines = []
    for device, name in enumerate(problem.device_names):
        members = np.flatnonzero(trace.assignment == device)
        load = occupancy(trace.start[members], trace.finish[members], end)
        lines.append(f"{name:<{width}} |{load}| {len(members):>4} operators")
    return lines


def occupancy(start: FloatArray, finish: FloatArray, end: float) -> str:
    """Share of each column of time in which a device is busy, as block characters.

    Args:
        start: [k] start of each of its operators [s].
        finish: [k] finish of each of them [s].
        end: time at the right edge [s].
    """
    busy = np.zeros(_COLUMNS)
    if end > 0:
        edges = np.linspace(0.0, end, _COLUMNS + 1)
        for a, b in zip(start, finish, strict=True):
            busy += np.clip(np.minimum(b, edges[1:]) - np.maximum(a, edges[:-1]), 0.0, None)
        busy /= end / _COLUMNS
    return "".join(" ▁▂▃▄▅▆▇█"[min(8, int(np.ceil(share * 8 - 1e-9)))] for share in busy)


def gantt_pixels(trace: Trace) -> npt.NDArray[np.uint8]:
    """A Gantt chart of fixed size.

    Returns:
        [540, 960, 3] colours.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    figure = draw(trace, size=FRAME_INCHES, dpi=FRAME_DPI)
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()  # type: ignore[attr-defined]
