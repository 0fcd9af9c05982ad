"""The picture of quality against time: searches as curves, other schedulers as marks, the front as steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetgym._groups import gathered
from hetgym._input.files import reason
from hetgym._text import duration, plain
from hetgym.bench.fronts import Point
from hetgym.errors import ConfigError, require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OFFSET = 0.002
"""Added to gaps before their logarithm is taken, so that small gaps stay distinct and a gap of 0 has a place."""

TICKS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""Gaps that may be marked on the axis."""

MARKS = {
    "trivial": "x", "online": "^", "list": "o", "memory": "D", "energy": "v", "partition": "s", "search": "o",
    "exact": "P", "policy": "*",
}  # fmt: skip
"""Mark of each kind of scheduler; other kinds are circles."""

PALETTE = ("#4c78a8", "#e8873a", "#58a55c", "#d9534f", "#a877b0", "#6fb7b7", "#94745e", "#d8b53a", "#e88fa2", "#5f6fc4")
"""Colours of curves, which are those of the report."""

_INK, _SOFT, _FAINT, _LINE, _ACCENT = "#1d1f24", "#5d636e", "#9a9da5", "#e5e3de", "#2f5fb3"
_APART = 0.028  # least distance between two names in the margin, as a share of the axis' height


def height(gap: float) -> float:
    """Position of a gap on the vertical axis.

    >>> height(0.0) < height(0.001) < height(0.1)
    True
    """
    return math.log10(gap + OFFSET)


def curves(found: Sequence[Point], runtime: str) -> dict[str, list[Point]]:
    """The points of each scheduler that was measured within budgets, by rising budgets, best curve first."""
    timed = [p for p in found if p.runtime == runtime and p.budget_s is not None and p.kind != "exact"]
    lines = gathered((point.scheduler, point) for point in timed)
    for line in lines.values():
        line.sort(key=lambda point: point.budget_s or 0.0)
    return dict(sorted(lines.items(), key=lambda item: item[1][-1].gap))


def draw(found: Sequence[Point], front: Sequence[Point], runtime: str, title: str, path: Path | None = None) -> Figure:
    """Draw quality against time of one runtime.

    ``front`` are the points that no other beats in both time and gap. ``path`` and errors are those of :func:`save`.
    """
    require("matplotlib", "plot", "drawing quality against time")
    figure = canvas(11, 6.6, 120)
    axes = figure.add_axes((0.075, 0.095, 0.775, 0.82))
    lines = curves(found, runtime)
    singles = [p for p in found if p.runtime == runtime and p.scheduler not in lines]
    _axis(axes, [p for p in found if p.runtime == runtime])
    _front(axes, front)
    named = {point.scheduler for point in front}
    for colour, line in zip(_repeated(len(lines)), lines.values(), strict=True):
        _curve(axes, line, colour)
    _margin(axes, lines, named)
    _marks(axes, sorted(singles, key=lambda p: (p.scheduler not in named, p.gap)), named)
    axes.set_title(plain(title), loc="left", fontsize=11, color=_INK, parse_math=False)
    axes.set_xlabel("time to schedule, median over problems", color=_SOFT)
    axes.set_ylabel("mean gap to the best known makespan", color=_SOFT)
    if path is not None:
        save(figure, path)
    return figure


def canvas(width: float, tall: float, dpi: int = 200) -> Figure:
    """An empty picture [inch] on matplotlib's Agg canvas: no display is needed."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, tall), dpi=dpi)
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path, **settings: Any) -> None:
    """Write a picture; the file's suffix gives the format, ``settings`` are those of matplotlib's ``savefig``.

    Raises:
        ConfigError: no such folder, or no such format.
    """
    try:
        figure.savefig(path, **settings)
    except (OSError, ValueError) as cause:
        raise ConfigError(f"{path}: the picture cannot be written ({reason(cause)})") from cause


def _repeated(count: int) -> list[str]:
    return [PALETTE[k % len(PALETTE)] for k in range(count)]


def _axis(axes: Any, found: Sequence[Point]) -> None:
    least, most = min(p.seconds for p in found), max(p.seconds for p in found)
    axes.set_xscale("log")
    axes.set_xlim(least / 1.6, most * 1.6)
    decades = [10.0**k for k in range(-9, 7) if least / 1.6 <= 10.0**k <= most * 1.6]
    axes.set_xticks(decades, [duration(value) for value in decades])
    axes.tick_params(axis="x", which="minor", color=_LINE)
    top = max(p.gap if p.high is None else p.high for p in found)
    axes.set_ylim(height(0.0) - 0.08, height(top) + 0.1)
    shown = [tick for tick in TICKS if tick <= top * 1.15]
    axes.set_yticks([height(tick) for tick in shown], [f"{100 * tick:g} %" for tick in shown])
    axes.tick_params(colors=_SOFT, length=0, which="both", labelsize=9)
    axes.grid(color=_LINE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(_LINE)


def _front(axes: Any, front: Sequence[Point]) -> None:
    """Draw the front as steps: a gap that is reached after a time stays reached."""
    if not front:
        return
    x = [point.seconds for point in front] + [axes.get_xlim()[1]]
    y = [height(point.gap) for point in front] + [height(front[-1].gap)]
    axes.fill_between(x, y, axes.get_ylim()[1], step="post", color=_INK, alpha=0.035, linewidth=0)
    axes.step(x, y, where="post", color=_INK, linewidth=5, alpha=0.13, solid_joinstyle="round")


def _curve(axes: Any, line: Sequence[Point], colour: str) -> None:
    x, y = [p.seconds for p in line], [height(p.gap) for p in line]
    low = [height(p.gap if p.low is None else p.low) for p in line]
    high = [height(p.gap if p.high is None else p.high) for p in line]
    axes.fill_between(x, low, high, color=colour, alpha=0.09, linewidth=0)
    axes.plot(x, y, color=colour, linewidth=1.8, marker=MARKS.get(line[0].kind, "o"), markersize=4.5)
    axes.plot([x[-1], axes.get_xlim()[1]], [y[-1]] * 2, color=colour, linewidth=1, linestyle=(0, (1, 2.5)))


def _margin(axes: Any, lines: dict[str, list[Point]], named: set[str]) -> None:
    """Names of curves at the right edge, moved apart where their ends are close."""
    bottom, top = axes.get_ylim()
    ends = [(height(line[-1].gap) - bottom) / (top - bottom) for line in lines.values()]
    for name, colour, at, place in zip(lines, _repeated(len(lines)), ends, spread(ends, _APART), strict=True):
        axes.plot([1.0, 1.015], [at, place], transform=axes.transAxes, color=colour, linewidth=0.8, clip_on=False)
        style = {"color": colour, "fontsize": 9.5, "va": "center", "weight": "bold" if name in named else "normal"}
        axes.text(1.02, place, name, transform=axes.transAxes, parse_math=False, **style)


def spread(rising: list[float], apart: float) -> list[float]:
    """Move places apart to at least a given distance, keeping their order.

    >>> spread([0.0, 0.0, 1.0], 0.5)
    [0.0, 0.5, 1.0]
    """
    placed: list[float] = []
    for value in rising:
        placed.append(max(value, placed[-1] + apart) if placed else value)
    return placed


def _marks(axes: Any, singles: Sequence[Point], named: set[str]) -> None:
    """Draw schedulers without budgets; names are put where there is room, those on the front first."""
    for point in singles:
        on = point.scheduler in named
        if point.low is not None and point.high is not None:
            axes.plot([point.seconds] * 2, [height(point.low), height(point.high)], color=_FAINT, linewidth=0.6)
        mark = {"marker": MARKS.get(point.kind, "o"), "markersize": 7 if on else 5.5, "linestyle": "none"}
        colour = _ACCENT if point.kind == "policy" else _INK if on else _FAINT
        axes.plot([point.seconds], [height(point.gap)], color=colour, **mark)
    figure = axes.figure
    renderer = figure.canvas.get_renderer()
    taken = [_around(axes.transData.transform((point.seconds, height(point.gap)))) for point in singles]
    for point in singles:
        on, at = point.scheduler in named, (point.seconds, height(point.gap))
        style = {"fontsize": 9 if on else 8, "color": _INK if on else _SOFT, "weight": "bold" if on else "normal"}
        style |= {"textcoords": "offset points", "parse_math": False}
        for *away, ha, va in _PLACES:
            text = axes.annotate(point.scheduler, at, away, ha=ha, va=va, **style)
            box = text.get_window_extent(renderer).extents
            if axes.bbox.x0 <= box[0] and box[2] <= axes.bbox.x1 and not any(_meet(box, other) for other in taken):
                taken.append(tuple(box))
                break
            text.remove()


_PLACES = ((8, 0, "left", "center"), (-8, 0, "right", "center"), (0, 8, "center", "bottom"), (0, -8, "center", "top"))
"""Where the name of a mark may be: offset to the right and up [point], and its alignment there."""
_Box = tuple[float, float, float, float]


def _around(place: Sequence[float], half: float = 6.0) -> _Box:
    x, y = place
    return x - half, y - half, x + half, y + half


def _meet(a: Sequence[float], b: Sequence[float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
