"""Draw docs/images/runtimes.png, one schedule under several runtimes.

    python scripts/make_runtimes.py

It needs ``hetgym[plot]``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import hetgym

IMAGE = Path(__file__).parents[1] / "docs" / "images" / "runtimes.png"
RUNTIMES = {
    "classic: transfers never wait": "classic",
    "links: one transfer at a time on a link": "links",
    "links,transfers=cached: a tensor goes to a device once": "links,transfers=cached",
    "links,dispatch=0.4: every launch takes host time": "links,dispatch=0.4",
    "links,transfers=cached,streams=2: two operators at a time": "links,transfers=cached,streams=2",
}
"""Caption -> runtime."""

COLOURS = {"a": "#4c78a8", "b": "#f58518", "c": "#54a24b", "d": "#b279a2", "e": "#eeca3b"}


def example() -> tuple[hetgym.Problem, hetgym.Schedule]:
    """An operator on a CPU whose result three operators on a GPU read, and a last one on the CPU."""
    cost = np.array([[1.0, 1.0], [3.0, 1.5], [3.0, 1.5], [3.0, 1.5], [1.0, 1.0]])
    edges = [(0, 1, 2.0), (0, 2, 2.0), (0, 3, 2.0), (1, 4, 0.5), (2, 4, 0.5), (3, 4, 0.5)]
    problem = hetgym.Problem.from_arrays(
        cost, edges, tensors=[0, 0, 0, 1, 2, 3], operator_names=list(COLOURS), occupancy=0.5
    )
    return problem, hetgym.Schedule([0, 1, 1, 1, 0], order=[[0, 4], [1, 2, 3]])


ROWS = {"CPU": 0.0, "CPU to GPU": 1.0, "GPU to CPU": 2.0, "GPU": 3.0}
"""Row -> its height in a panel."""


def bar(axes: Any, row: float, begin: float, end: float, colour: str, height: float = 0.6, name: str = "") -> None:
    axes.barh(row, end - begin, left=begin, height=height, color=colour, edgecolor="white", alpha=1.0 if name else 0.7)
    axes.text((begin + end) / 2, row, name, ha="center", va="center", fontsize=8, color="white")


def panel(axes: Any, caption: str, trace: hetgym.Trace) -> None:
    """Draw a trace: a row for each device and each direction of the link; operators side by side share a row."""
    ends: dict[int, list[float]] = {0: [], 1: []}  # device -> when its lanes are free
    side_by_side = "streams" in trace.runtime
    for operator in np.argsort(trace.start):
        device, begin, end = int(trace.assignment[operator]), trace.start[operator], trace.finish[operator]
        lanes = ends[device]
        lane = next((k for k, until in enumerate(lanes) if until <= begin), len(lanes))
        lanes[lane : lane + 1] = [end]
        row = ROWS["GPU" if device else "CPU"] + (0.4 * lane - 0.2 if side_by_side else 0.0)
        name = trace.problem.operator_names[operator]
        bar(axes, row, begin, end, COLOURS[name], 0.4 if side_by_side else 0.6, name)
    for transfer in trace.transfers:
        row = ROWS["GPU to CPU" if transfer.source else "CPU to GPU"]
        bar(axes, row, transfer.start, transfer.finish, "#9a9a9a", 0.5)
    axes.set_yticks(list(ROWS.values()), list(ROWS), fontsize=8)
    axes.set_ylim(3.6, -0.6)
    axes.set_title(f"{caption}; makespan {trace.makespan:.4g} s", loc="left", fontsize=9)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    problem, schedule = example()
    figure = Figure(figsize=(8.0, 8.6), dpi=110, layout="constrained")
    panels = figure.subplots(len(RUNTIMES), 1, sharex=True)
    for axes, (caption, runtime) in zip(panels, RUNTIMES.items(), strict=True):
        panel(axes, caption, hetgym.simulate(problem, schedule, runtime))
    panels[-1].set_xlabel("time [s]", fontsize=8)
    figure.savefig(IMAGE)


if __name__ == "__main__":
    main()
