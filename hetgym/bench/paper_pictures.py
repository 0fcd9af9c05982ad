"""Pictures of a paper: performance profiles, box plots of gaps and critical differences, as vector graphics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetgym.bench.pareto_picture import PALETTE, TICKS, canvas, height, save
from hetgym.bench.profiles import Profile, widest
from hetgym.bench.ranks import EXTRA, Ranking
from hetgym.errors import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 6.3  # Width of a picture: that of a page of text [inch]
CURVES = 8  # Most schedulers that a picture of profiles shows: more curves cannot be told apart
NAMES = 24  # Most schedulers that a box plot or a diagram of critical differences shows

_INK, _SOFT, _LINE, _ACCENT = "#1d1f24", "#5d636e", "#dedcd6", "#2f5fb3"
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.4, 1.2, 1.4)))
_SETTINGS = {"pdf.fonttype": 42, "svg.fonttype": "none", "font.size": 8.5, "text.parse_math": False}


@contextmanager
def drawing(what: str) -> Iterator[None]:
    """Settings of all pictures: letters stay letters in PDF and SVG, and ``$`` in a name is a dollar sign."""
    matplotlib = require("matplotlib", EXTRA, what)
    with matplotlib.rc_context(_SETTINGS):
        yield


def draw_profiles(found: Sequence[Profile], path: str | Path | None = None) -> Figure:
    """Draw performance profiles of Dolan and Moré: the higher and the further left a curve, the better.

    Args:
        found: the profiles of one runtime, best scheduler first; the first :data:`CURVES` are drawn.
        path: image file to write, its suffix gives the format; None writes nothing.

    Raises:
        MissingExtra: matplotlib is not installed.
        ConfigError: the picture cannot be written, or not in this format.
    """
    shown = found[:CURVES]
    with drawing("drawing performance profiles"):
        figure = canvas(WIDTH, 3.1)
        axes = figure.add_axes((0.085, 0.14, 0.635, 0.83))
        end = widest(shown)
        for k, profile in enumerate(shown):
            x, y = [1.0, *profile.factors, end * 2], [0.0, *profile.shares, *(profile.shares[-1:] or (0.0,))]
            style: dict[str, Any] = {"color": PALETTE[k % len(PALETTE)], "linestyle": _DASHES[k % len(_DASHES)]}
            axes.step(x, y, where="post", linewidth=1.5, label=profile.scheduler, **style)
        axes.set_xlim(1.0, end)
        axes.set_ylim(0.0, 1.02)
        axes.set_xlabel("makespan over the best makespan", color=_SOFT)
        axes.set_ylabel("share of problems", color=_SOFT)
        _plain(axes)
        figure.legend(
            loc="upper left", bbox_to_anchor=(0.735, 0.985), frameon=False, handlelength=2.6, labelspacing=0.6
        )
        return _saved(figure, path)


def draw_boxes(gaps: dict[str, list[float]], path: str | Path | None = None) -> Figure:
    """Draw the distribution of gaps: median, quartiles, whiskers to 1.5 interquartile ranges, and what is beyond.

    ``gaps``: scheduler -> gap to the best makespan on each problem, from top to bottom; the first :data:`NAMES` are
    drawn. ``path`` and errors as for :func:`draw_profiles`.
    """
    shown = {name: values for name, values in list(gaps.items())[:NAMES] if values}
    with drawing("drawing box plots"):
        from matplotlib.cbook import boxplot_stats

        figure = canvas(WIDTH, 0.75 + 0.235 * max(len(shown), 2))
        axes = figure.add_subplot()
        for row, values in enumerate(shown.values()):
            (box,) = boxplot_stats([values])
            low, high = height(box["q1"]), height(box["q3"])
            ends = height(box["whislo"]), height(box["whishi"])
            axes.plot([ends[0], low], [row, row], color=_SOFT, linewidth=0.9)
            axes.plot([high, ends[1]], [row, row], color=_SOFT, linewidth=0.9)
            axes.broken_barh(
                [(low, high - low)], (row - 0.31, 0.62), facecolor="#c9d8ef", edgecolor=_SOFT, linewidth=0.8
            )
            axes.plot([height(box["med"])] * 2, [row - 0.31, row + 0.31], color=_ACCENT, linewidth=2)
            beyond = [height(value) for value in box["fliers"]]
            hollow: dict[str, Any] = {
                "color": _SOFT,
                "markersize": 2.6,
                "markerfacecolor": "none",
                "markeredgewidth": 0.6,
            }
            axes.plot(beyond, [row] * len(beyond), "o", **hollow)
        top = max((max(values) for values in shown.values()), default=0.0)
        axes.set_yticks(range(len(shown)), list(shown))
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.set_xlim(height(0.0) - 0.06, height(max(top, 0.01)) + 0.08)
        marks = [tick for tick in TICKS if tick <= max(top, 0.01) * 1.15]
        axes.set_xticks([height(tick) for tick in marks], [f"{100 * tick:g}" for tick in marks])
        axes.set_xlabel("gap to the best makespan [%], logarithmic above 0.2", color=_SOFT)
        _plain(axes, "x")
        return _saved(figure, path)


def draw_ranks(ranking: Ranking, path: str | Path | None = None) -> Figure:
    """Draw the diagram of critical differences of Demšar 2006, section 3.2.4: bars join methods that do not differ.

    The best :data:`NAMES` are drawn, with the difference that all give; ``path`` and errors as for
    :func:`draw_profiles`.
    """
    names, ranks = ranking.schedulers[:NAMES], ranking.mean_ranks[:NAMES]
    bars = [(a, min(b, len(names) - 1)) for a, b in ranking.groups if a < len(names) - 1]
    bars = [bar for k, bar in enumerate(bars) if k == 0 or bar[1] > bars[k - 1][1]]
    low, high = math.floor(ranks[0]), max(math.ceil(ranks[-1]), math.floor(ranks[0]) + 1)
    high = max(high, math.ceil(low + ranking.critical_difference))
    half = (len(names) + 1) // 2
    below = 0.6 + 0.32 * len(bars)  # where the names begin, in rows under the axis
    tall = below + half + 0.3
    with drawing("drawing critical differences"):
        figure = canvas(WIDTH, 0.5 + 0.21 * tall)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        wide = high - low
        side = 0.42 * wide  # room for names on both sides
        axes.set_xlim(low - side, high + side)
        axes.set_ylim(tall, -2.4)
        axes.set_axis_off()
        axes.plot([low, high], [0, 0], color=_INK, linewidth=1, solid_capstyle="butt")
        step = next(k for k in (1, 2, 5, 10, 20, 50, 100) if wide / k <= 12)
        for tick in range(low, high + 1):
            long = (tick - low) % step == 0
            axes.plot([tick, tick], [0, -0.35 if long else -0.2], color=_INK, linewidth=0.9)
            if long:
                axes.text(tick, -0.5, str(tick), ha="center", va="bottom")
        start, y = low, -1.75
        axes.plot([start, start + ranking.critical_difference], [y, y], color=_ACCENT, linewidth=1.6)
        for end in (start, start + ranking.critical_difference):
            axes.plot([end, end], [y - 0.2, y + 0.2], color=_ACCENT, linewidth=1.2)
        said = f"critical difference {ranking.critical_difference:.2f}"
        axes.text(start + ranking.critical_difference + 0.02 * wide, y, said, color=_ACCENT, va="center")
        for k, (name, value) in enumerate(zip(names, ranks, strict=True)):
            left = k < half
            row = below + (k if left else len(names) - 1 - k) + 0.3
            edge = low - 0.04 * wide if left else high + 0.04 * wide
            axes.plot([value, value, edge], [0, row, row], color=_SOFT, linewidth=0.8, solid_joinstyle="miter")
            apart = 0.012 * wide
            text = f"{name}  {value:.2f}" if left else f"{value:.2f}  {name}"
            axes.text(edge - apart if left else edge + apart, row, text, ha="right" if left else "left", va="center")
        for k, (a, b) in enumerate(bars):
            y = 0.42 + 0.32 * k
            reach = 0.006 * wide
            axes.plot([ranks[a] - reach, ranks[b] + reach], [y, y], color=_INK, linewidth=2.6, solid_capstyle="butt")
        return _saved(figure, path)


def _plain(axes: Any, grid: str = "both") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_LINE)
    axes.tick_params(length=0, labelcolor=_INK)
    axes.grid(axis=grid, color=_LINE, linewidth=0.6)
    axes.set_axisbelow(True)


def _saved(figure: Figure, path: str | Path | None) -> Figure:
    if path is not None:
        path = Path(path)
        metadata = (
            {"CreationDate": None} if path.suffix == ".pdf" else {"Date": None} if path.suffix == ".svg" else None
        )
        save(figure, path, bbox_inches="tight", pad_inches=0.04, metadata=metadata)
    return figure
