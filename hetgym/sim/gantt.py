"""Gantt charts: devices and links over time, readable from ten operators to ten thousand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hetgym.errors import require
from hetgym.graph.ops import GENERIC, KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hetgym.sim.trace import Trace

COLOURS = {
    "conv": "#4c78a8", "matmul": "#f58518", "recurrent": "#b279a2", "normalise": "#eeca3b", "pool": "#9d755d",
    "reduce": "#ff9da6", "elementwise": "#54a24b", "move": "#72b7b2", "view": "#d4d0c8", "generic": "#6f87a6",
}  # fmt: skip
"""Colour of each operator family: apart in print and for most colour-blind readers."""

_TRANSFER = "#b8b8b8"
_LABELS = 60  # more bars than this carry no names


def family(kind: str) -> str:
    """The family of an operator kind, by which its bars are coloured."""
    return KINDS.get(kind, GENERIC).family


def time_unit(seconds: float) -> tuple[float, str]:
    """The unit in which a time reads best, as a divisor and its name.

    >>> time_unit(3.2e-3)
    (0.001, 'ms')
    """
    for scale, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return scale, name
    return (1e-9, "ns") if seconds > 0 else (1.0, "s")


def draw(trace: Trace, path: Path | None = None, size: tuple[float, float] | None = None, dpi: int = 100) -> Figure:
    """Draw a trace with matplotlib's Agg canvas: no display is needed.

    Args:
        trace: what to draw.
        path: image file to write, its suffix gives the format; None writes nothing.
        size: width and height [inch]; by default as tall as the number of rows asks for.
        dpi: pixels an inch.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plot", "drawing a Gantt chart")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    problem = trace.problem
    transfers = trace.transfers
    links = sorted({(t.source, t.target) for t in transfers})
    rows = problem.num_devices + len(links)
    figure = Figure(figsize=size or (11, 1.3 + 0.42 * rows), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    scale, unit = time_unit(trace.makespan)
    _bars(axes, trace, scale)
    for transfer in transfers:
        row = problem.num_devices + links.index((transfer.source, transfer.target))
        span = (transfer.start / scale, (transfer.finish - transfer.start) / scale)
        axes.broken_barh([span], (row - 0.25, 0.5), facecolors=_TRANSFER, edgecolors="none")
    labels = [*problem.device_names, *(f"{problem.device_names[a]} → {problem.device_names[b]}" for a, b in links)]
    axes.set_yticks(range(rows), labels, parse_math=False)  # names may hold dollar signs
    axes.set_ylim(rows - 0.4, -0.6)
    axes.set_xlim(0, trace.makespan / scale * 1.01 or 1)
    axes.set_xlabel(f"time [{unit}]")
    axes.set_title(
        f"{problem.name} · {trace.scheduler or 'schedule'} · {trace.makespan / scale:.4g} {unit} ({trace.runtime})",
        loc="left", fontsize=10, parse_math=False,
    )  # fmt: skip
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    _legend(figure, axes, trace)
    if path is not None:
        figure.savefig(path)
    return figure


def _bars(axes: Any, trace: Trace, scale: float) -> None:
    """One batch of bars a device, coloured by kind; names where few enough operators leave room."""
    problem = trace.problem
    edge = "white" if problem.num_operators <= 10 * _LABELS else "none"
    for device in range(problem.num_devices):
        members = np.flatnonzero(trace.assignment == device)
        spans = [(trace.start[i] / scale, (trace.finish[i] - trace.start[i]) / scale) for i in members]
        colours = [COLOURS[family(problem.operator_kinds[i])] for i in members]
        axes.broken_barh(spans, (device - 0.36, 0.72), facecolors=colours, edgecolors=edge, linewidth=0.4)
        if problem.num_operators > _LABELS:
            continue
        for i, (begin, width) in zip(members.tolist(), spans, strict=True):
            name = problem.operator_names[i]
            if width > 0.011 * len(name) * trace.makespan / scale:
                axes.text(
                    begin + width / 2, device, name, ha="center", va="center", fontsize=7, color="white",
                    parse_math=False,
                )  # fmt: skip


def _legend(figure: Any, axes: Any, trace: Trace) -> None:
    """Families by their share of the run time, the largest first; none where there is only one."""
    share = dict.fromkeys(COLOURS, 0.0)
    for i in np.flatnonzero(trace.finish > trace.start).tolist():
        share[family(trace.problem.operator_kinds[i])] += float(trace.finish[i] - trace.start[i])
    shown = [name for name in sorted(share, key=lambda name: -share[name]) if share[name] > 0]
    if len(shown) > 1:
        bars = [axes.barh(0, 0, color=COLOURS[name], label=name) for name in shown]
        figure.legend(bars, shown, loc="outside lower left", ncols=len(shown), frameon=False, fontsize=8)
