"""Draw the Gantt charts of docs/gallery.md: ``python scripts/make_gallery.py``; needs ``hetgym[plot]``."""

from __future__ import annotations

import argparse
from pathlib import Path

import hetgym
from hetgym.workloads import textbook

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SIZE = (8.0, None)


def problem(graph: str, platform: str, batch: int = 1) -> hetgym.Problem:
    return hetgym.Problem.build(hetgym.load_graph(graph, batch=batch), hetgym.load_platform(platform))


def draw(name: str, of: hetgym.Problem, scheduler: str, runtime: str, colours: dict[str, str] | None = None) -> None:
    method = hetgym.baselines.get(scheduler)
    trace = hetgym.simulate(of, method(of, runtime=runtime), runtime)
    trace.gantt(IMAGES / f"gallery-{name}.png", size=SIZE, dpi=110, colours=colours)
    print(f"{name}: {scheduler} {trace.makespan * 1e3:.4g} ms")


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    example = textbook("topcuoglu")
    draw("topcuoglu-heft", example, "heft", "classic")
    draw("topcuoglu-links", example, "heft", "links")
    branches = problem("inception_v1", "cpu-gpu-balanced")
    draw("inception-single", branches, "single-device", "links")
    draw("inception-heft", branches, "heft", "links")
    draw("inception-lns", branches, "lns", "links")
    draw("nasnet", problem("nasnet", "cpu-2gpu-nvlink"), "pilot", "links")
    draw("lstm", problem("lstm", "cpu-gpu-npu"), "lns", "links", {"matmul": "#26547c", "elementwise": "#ef9f3b"})


if __name__ == "__main__":
    main()
