"""Frames that environments share: text for terminals, Gantt charts as pixels for videos."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._text import plain
from hetgym._types import FloatArray
from hetgym.errors import require
from hetgym.sim.gantt import draw
from hetgym.sim.trace import Trace

FRAME_INCHES = (9.6, 5.4)
FRAME_DPI = 100
_COLUMNS = 64


def device_lines(trace: Trace, end: float) -> list[str]:
    """A line for each device: its load up to ``end`` [s], and how many operators of the trace it has."""
    problem = trace.problem
    width = max(len(name) for name in problem.device_names)
    lines = []
    for device, name in enumerate(problem.device_names):
        members = np.flatnonzero(trace.assignment == device)
        load = occupancy(trace.start[members], trace.finish[members], end)
        lines.append(f"{name:<{width}} |{load}| {len(members):>4} operators")
    return lines


def occupancy(start: FloatArray, finish: FloatArray, end: float) -> str:
    """Share of each column of time, up to ``end`` [s], in which one of the intervals lies, as block characters."""
    busy = np.zeros(_COLUMNS)
    if end > 0:
        edges = np.linspace(0.0, end, _COLUMNS + 1)
        for since, until in zip(start, finish, strict=True):
            busy += np.clip(np.minimum(until, edges[1:]) - np.maximum(since, edges[:-1]), 0.0, None)
        busy /= end / _COLUMNS
    return "".join(" ▁▂▃▄▅▆▇█"[min(8, int(np.ceil(share * 8 - 1e-9)))] for share in busy)


def bar_pixels(names: Sequence[str], label: str, title: str, draw: Callable[[Any], None]) -> npt.NDArray[np.uint8]:
    """[540, 960, 3] colours of a chart with horizontal bars of some names, which ``draw`` adds to its axes.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plot", "drawing bars")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=FRAME_INCHES, dpi=FRAME_DPI)
    canvas = FigureCanvasAgg(figure)
    axes = figure.subplots()
    draw(axes)
    axes.set_yticks(range(len(names)), [plain(name) for name in names], parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    axes.set_title(plain(title), parse_math=False)
    figure.tight_layout()
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


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
