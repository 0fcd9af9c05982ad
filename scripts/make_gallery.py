"""Draw the Gantt charts of docs/gallery.md and of the page on runtimes, and list their makespans.

    python scripts/make_gallery.py --json gallery.json

Needs ``hetgym[plot]``. ``docs/results.py record gallery -- python scripts/make_gallery.py`` keeps the makespans.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import hetgym
from hetgym.workloads import textbook

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SIZE = (8.0, None)

RUNTIMES = ("classic", "links", "fair", "links,transfers=cached", "links,order=ready")
"""Runtimes of the small example of docs/explanation/runtimes.md."""

SECOND, ROW, LEFT, PANEL = 62, 24, 168, 92  # of its picture [pixels]
COLOURS = {"a": "#4c78a8", "b": "#f58518", "c": "#54a24b"}
GREY, INK = "#b8b8b8", "#1b2a41"  # of transfers and of text


def problem(graph: str, platform: str, batch: int = 1) -> hetgym.Problem:
    return hetgym.Problem.build(hetgym.load_graph(graph, batch=batch), hetgym.load_platform(platform))


def draw(
    name: str, of: hetgym.Problem, scheduler: str, runtime: str, colours: dict[str, str] | None = None
) -> list[str]:
    """Draw a chart; returns its row of the table: name, scheduler, runtime and makespan."""
    method = hetgym.baselines.get(scheduler)
    trace = hetgym.simulate(of, method(of, runtime=runtime), runtime)
    trace.gantt(IMAGES / f"gallery-{name}.png", size=SIZE, dpi=110, colours=colours)
    large = trace.makespan >= 1.0
    makespan = f"{trace.makespan:.4g} s" if large else f"{trace.makespan * 1e3:.3g} ms"
    print(f"{name}: {scheduler} {makespan}")
    return [name, scheduler, runtime, makespan]


def draw_runtimes() -> None:
    """The small example under each of :data:`RUNTIMES`, as one picture."""
    of = hetgym.Problem.from_arrays(
        [[1, 2], [1, 2], [1, 2]], [(0, 1, 1.0), (0, 2, 1.0)], tensors=[0, 0], operator_names=list("abc")
    )
    schedule = hetgym.Schedule([0, 1, 1], order=[[0], [2, 1]])
    height = PANEL * len(RUNTIMES) + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + 7 * SECOND + 30} {height}" role="img" '
        'font-family="Segoe UI, Helvetica, Arial, sans-serif" font-size="13">',
        "<title>One schedule under five runtimes</title>",
        f'<rect width="{LEFT + 7 * SECOND + 30}" height="{height}" fill="#ffffff"/>',
    ]
    for place, runtime in enumerate(RUNTIMES):
        trace = hetgym.simulate(of, schedule, runtime)
        top = 10 + place * PANEL
        lines.append(f'<text x="8" y="{top + 41}" font-weight="600" fill="{INK}">{runtime}</text>')
        for i, name in enumerate("abc"):
            row = top + 2 * ROW * int(trace.assignment[i])
            lines.append(_bar(row, trace.start[i], trace.finish[i], ROW - 4, COLOURS[name], name))
        readers: dict[tuple[float, float], list[str]] = {}
        for transfer in trace.transfers:
            readers.setdefault((transfer.start, transfer.finish), []).append("bc"[transfer.edge])
        for (start, finish), names in readers.items():
            bars = [", ".join(names)] if "cached" in runtime else names  # what is sent once is one bar
            tall = (ROW - 4) / len(bars)
            lines += [_bar(top + ROW + k * tall, start, finish, tall, GREY, f"for {n}") for k, n in enumerate(bars)]
        lines.append(
            f'<text x="{LEFT + trace.makespan * SECOND + 5}" y="{top + 2 * ROW + 15}" fill="{INK}">'
            f"{trace.makespan:g}</text>"
        )
    lines.append(f'<text x="{LEFT}" y="{height - 8}" fill="#44546a">time [s]; grey: transfers</text>')
    (IMAGES / "runtimes.svg").write_text("\n".join([*lines, "</svg>", ""]), "utf-8")


def _bar(y: float, start: float, finish: float, tall: float, colour: str, name: str) -> str:
    """A bar with a name in it."""
    x, wide = LEFT + start * SECOND, (finish - start) * SECOND
    size = 13 if tall > 12 else 9
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{tall:g}" fill="{colour}" stroke="#ffffff"/>'
        f'<text x="{x + wide / 2:g}" y="{y + tall / 2 + 0.36 * size:g}" text-anchor="middle" font-size="{size}" '
        f'fill="{INK if colour == GREY else "#ffffff"}">{name}</text>'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for the table of makespans")
    given = parser.parse_args()
    draw_runtimes()
    example = textbook("topcuoglu")
    branches = problem("inception_v1", "cpu-gpu-balanced")
    rows = [
        draw("topcuoglu-heft", example, "heft", "classic"),
        draw("topcuoglu-links", example, "heft", "links"),
        draw("inception-single", branches, "single-device", "links"),
        draw("inception-heft", branches, "heft", "links"),
        draw("inception-lns", branches, "lns", "links"),
        draw("nasnet", problem("nasnet", "cpu-2gpu-nvlink"), "pilot", "links"),
        draw("lstm", problem("lstm", "cpu-gpu-npu"), "lns", "links", {"matmul": "#26547c", "elementwise": "#ef9f3b"}),
    ]
    if given.json:
        columns = ["chart", "scheduler", "runtime", "makespan"]
        table = {"name": "charts", "title": "Makespans of the charts", "columns": columns, "rows": rows}
        given.json.write_text(json.dumps({"tables": [table]}) + "\n", "utf-8")


if __name__ == "__main__":
    main()
