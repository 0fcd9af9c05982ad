"""Draw the Gantt charts of docs/gallery.md, and list their makespans.

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for the table of makespans")
    given = parser.parse_args()
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
