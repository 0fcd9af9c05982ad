"""Gantt charts: devices and links over time, readable from ten operators to ten thousand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hetgym._input.files import reason
from hetgym._text import plain, time_unit
from hetgym._types import FloatArray
from hetgym.errors import ConfigError, check_name, require, shown
from hetgym.graph.ops import GENERIC, KINDS
from hetgym.sim.record import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COLOURS = {
    "conv": "#4c78a8", "matmul": "#f58518", "recurrent": "#b279a2", "normalise": "#eeca3b", "pool": "#9d755d",
    "reduce": "#ff9da6", "elementwise": "#54a24b", "move": "#72b7b2", "view": "#d4d0c8", "generic": "#6f87a6",
}  # fmt: skip
"""Colour of each operator family: distinguishable in print and for most colour-blind readers."""

_JOBS = (
    "#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#eeca3b", "#9d755d", "#ff9da6", "#6f87a6",
    "#2f4b7c", "#a05195", "#88d27a", "#d45087", "#83bcb6", "#d6a5c9", "#b6992d", "#ffbf79", "#1f7a6b", "#8c6d31",
)  # fmt: skip
"""Colours of jobs, in turn."""

FINEST = 10_000  # Highest resolution of a chart [pixels per inch]
WIDTH = 11.0  # Default width of a chart [inch]

_TRANSFER = "#b8b8b8"
_LABELS = 60  # a chart with more bars than this shows no names
_CROWD = 400  # with more bars than this in a row, rows show the busy share of this many time bins instead of bars
_FLAT = 24  # with more links than this, rows of links have half the height


def family(kind: str) -> str:
    """The family of an operator kind, by which its bars are coloured."""
    return KINDS.get(kind, GENERIC).family


def draw(
    trace: Record,
    path: Path | None = None,
    size: tuple[float, float | None] | None = None,
    dpi: int = 100,
    colours: Mapping[str, str] | None = None,
) -> Figure:
    """Draw a trace with matplotlib's Agg canvas: no display is needed.

    Args:
        path: image file to write, whose suffix gives the format; None writes nothing.
        size: width and height [inch]; without a height it follows from the number of rows.
        dpi: pixels per inch.
        colours: name, kind or family of operators -> a colour as matplotlib writes it, such as ``"#4c78a8"``. A name
            precedes a kind, and a kind a family; operators not mentioned have the colour of their family.

    Raises:
        MissingExtra: matplotlib is not installed.
        ConfigError: an impossible size, or not a colour.
        UnknownName: the problem has no operator of such a name, kind or family.
    """
    require("matplotlib", "plot", "drawing a Gantt chart")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    problem = trace.problem
    groups = _groups(trace, {} if colours is None else colours)
    width, tallness = _checked(size)
    if not isinstance(dpi, int | float) or not 0 < dpi <= FINEST:
        raise ConfigError(f"the resolution of a chart is up to {FINEST} pixels per inch, not {shown(dpi)}")
    narrow = width <= 0.7 * WIDTH  # beside text, where rows and letters are smaller
    row, letters = (0.27, 8) if narrow else (0.42, 10)
    transfers: dict[tuple[int, int], list[tuple[float, float]]] = {}
    scale, unit = time_unit(trace.makespan)
    for transfer in trace.transfers:
        if transfer.finish == transfer.start:  # as everywhere on a job shop
            continue
        transfers.setdefault((transfer.source, transfer.target), []).append(
            (transfer.start / scale, (transfer.finish - transfer.start) / scale)
        )
    links = sorted(transfers)
    link_height = 1.0 if len(links) <= _FLAT else 0.5
    tall = problem.num_devices + link_height * len(links)
    centres = [*range(problem.num_devices)]
    centres += [problem.num_devices - 0.5 + link_height * (k + 0.5) for k in range(len(links))]
    figure = Figure(figsize=(width, tallness or 1.3 + row * tall), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_xlim(0, trace.makespan / scale * 1.01 or 1)
    _bars(axes, trace, scale, [colour for _, colour in groups], width / WIDTH)
    crowded = any(len(spans) > _CROWD for spans in transfers.values())
    for centre, link in zip(centres[problem.num_devices :], links, strict=True):
        spans = transfers[link]
        _row(axes, centre, 0.5 * link_height, spans, [_TRANSFER] * len(spans), "none", crowded)
    names = [plain(name) for name in problem.device_names]
    labels = [*names, *(f"{names[a]} → {names[b]}" for a, b in links)]
    axes.set_yticks(centres, labels, parse_math=False, fontsize=letters if link_height == 1 else 7)  # names may hold $
    axes.set_ylim(tall - 0.4, -0.6)
    axes.set_xlabel(f"time [{unit}]", fontsize=letters)
    axes.tick_params(axis="x", labelsize=letters)
    duration = f"{trace.makespan / scale:.4g} {unit}"
    axes.set_title(
        plain(f"{problem.name} · {trace.scheduler or 'schedule'} · {duration} ({trace.runtime})"),
        loc="left",
        fontsize=letters,
        parse_math=False,
    )
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    _legend(figure, axes, trace, groups)
    if path is not None:
        try:
            figure.savefig(path)
        except (OSError, ValueError) as cause:  # no such folder, or no such format
            raise ConfigError(f"{path}: the chart cannot be written ({reason(cause)})") from cause
    return figure


def _checked(size: tuple[float, float | None] | None) -> tuple[float, float | None]:
    """Width and height [inch]; a height of None is to follow from the rows."""
    try:
        width, height = (WIDTH, None) if size is None else size
        good = 0 < width < math.inf and (height is None or 0 < height < math.inf)
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ConfigError(f"the size of a chart is a width and a height in inches, not {shown(size)}")
    return width, height


def _groups(trace: Record, colours: Mapping[str, str]) -> list[tuple[str, str]]:
    """The label and the colour of each operator: its family, or its job where all are of one family."""
    from matplotlib.colors import is_color_like

    if not isinstance(colours, Mapping):
        raise ConfigError(f"colours are given by name, as in {{'Conv': '#4c78a8'}}, not as {shown(colours)}")
    problem = trace.problem
    jobs = problem.component
    if not colours and jobs.max() > 0 and len({family(kind) for kind in problem.operator_kinds}) == 1:
        return [(f"job {job}", _JOBS[job % len(_JOBS)]) for job in jobs.tolist()]
    known = {*problem.operator_names, *problem.operator_kinds, *COLOURS}
    for name, colour in colours.items():
        check_name("name, kind or family of an operator", name, known)
        if not is_color_like(colour):
            raise ConfigError(
                f"the colour of {shown(name)} is written as '#4c78a8' or 'tab:blue', not as {shown(colour)}"
            )
    found = []
    for name, kind in zip(problem.operator_names, problem.operator_kinds, strict=True):
        label = next((text for text in (name, kind) if text in colours), family(kind))
        found.append((label, colours.get(label) or COLOURS[label]))
    return found


def _bars(axes: Any, trace: Record, scale: float, colours: list[str], room: float) -> None:
    """Draw the bars of each device, with names where these fit and if there are few enough operators.

    ``scale`` is the unit of time [s], ``room`` the width of the chart over the default width.
    """
    problem = trace.problem
    edge = "white" if problem.num_operators <= 10 * _LABELS else "none"
    placed = trace.assignment[trace.assignment >= 0]  # a running episode has operators without a device
    crowded = bool(np.bincount(placed, minlength=1).max() > _CROWD)
    for device in range(problem.num_devices):
        members = np.flatnonzero(trace.assignment == device)
        spans = [(trace.start[i] / scale, (trace.finish[i] - trace.start[i]) / scale) for i in members]
        _row(axes, device, 0.72, spans, [colours[i] for i in members], edge, crowded)
        if problem.num_operators > _LABELS:
            continue
        for i, (begin, width) in zip(members.tolist(), spans, strict=True):
            name = plain(problem.operator_names[i])
            if width * room > 0.011 * len(name) * trace.makespan / scale:
                axes.text(
                    begin + width / 2,
                    device,
                    name,
                    ha="center",
                    va="center",
                    fontsize=7,
                    color="white",
                    parse_math=False,
                )


def _row(
    axes: Any,
    centre: float,
    height: float,
    spans: list[tuple[float, float]],
    colours: list[str],
    edge: str,
    crowded: bool,
) -> None:
    """Draw the bars of one row; if some row of its kind is crowded, its busy share over time instead."""
    if not crowded:
        axes.broken_barh(spans, (centre - height / 2, height), facecolors=colours, edgecolors=edge, linewidth=0.4)
        return
    edges = np.linspace(0.0, axes.get_xlim()[1], _CROWD + 1)
    base = np.full(_CROWD, centre + height / 2)  # the axis points down: the busy share rises from the row's lower edge
    for colour in sorted(set(colours), key=lambda name: (-colours.count(name), name)):
        chosen = np.array([span for span, of in zip(spans, colours, strict=True) if of == colour])
        top = base - height * busy_share(chosen[:, 0], chosen[:, 0] + chosen[:, 1], edges)
        axes.stairs(np.maximum(top, centre - height / 2), edges, baseline=base, fill=True, color=colour, linewidth=0)
        base = np.maximum(top, centre - height / 2)


def busy_share(begin: FloatArray, end: FloatArray, edges: FloatArray) -> FloatArray:
    """Share of each interval between edges that spans cover; overlapping spans add up.

    >>> busy_share(np.array([0.0, 1.5]), np.array([1.0, 2.0]), np.array([0.0, 1.0, 2.0, 3.0]))
    array([1. , 0.5, 0. ])
    """

    def passed(moments: FloatArray) -> FloatArray:  # at every edge: the sum of the times since the moments before it
        moments = np.sort(moments)
        count = np.searchsorted(moments, edges)
        since: FloatArray = count * edges - np.concatenate([[0.0], np.cumsum(moments)])[count]
        return since

    share: FloatArray = np.diff(passed(begin) - passed(end)) / np.diff(edges)
    return np.maximum(share, 0.0)


def _legend(figure: Any, axes: Any, trace: Record, groups: list[tuple[str, str]]) -> None:
    """Draw a legend of colours, the largest share of the run time first; none if there is only one."""
    share: dict[tuple[str, str], float] = {}
    for i in np.flatnonzero(trace.finish > trace.start).tolist():
        share[groups[i]] = share.get(groups[i], 0.0) + float(trace.finish[i] - trace.start[i])
    order = list(dict.fromkeys([*COLOURS, *(label for label, _ in share)]))
    listed = sorted(share, key=lambda group: (-share[group], order.index(group[0])))
    if len(listed) > 1:
        bars = [axes.barh(0, 0, color=colour, label=label) for label, colour in listed]
        columns = max(1, min(len(listed), int(figure.get_figwidth() / 1.05)))
        names = [plain(label) for label, _ in listed]
        figure.legend(bars, names, loc="outside lower left", ncols=columns, frameon=False, fontsize=8)
