"""Gains of a CPU beside a GPU: adaptive partition compared with one fused device, EOP, DUET and plans by hand.

    python studies/cpu_gpu/cpu_gpu_study.py --json studies/cpu_gpu/cpu_gpu_study.json --markdown tables.md
    python studies/cpu_gpu/cpu_gpu_study.py --quick    # inception and LSTM at r = 4, seconds

Everything is simulated: problems are those of the suite ``cpu-gpu-study``, fused networks on the platform
``even-pair`` whose GPU is scaled by r in arithmetic and by min(r, 3) in memory bandwidth; the roofline prices
operators. ``hetgym bench --suite cpu-gpu-study`` runs the schedulers only. This script adds methods that are not
schedulers of a problem: EOP, which rewrites the graph, and placements written by hand. CPGC plans for links that are
never busy; ``links`` is its plan on links that carry one transfer at a time, one for each reader, and ``cached`` the
same with one transfer for each tensor.

A gain is given by both definitions in use, T_base / T - 1 and 1 - T / T_base.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hetgym import Problem, Runtime, simulate
from hetgym.baselines import eop, get, tvm_fusion
from hetgym.planning import decode_placement
from hetgym.workloads import ProblemSpec, load_suite

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show  # noqa: E402

Row = dict[str, Any]

SCHEDULERS = ("duet", "key-operators", "cpgc-partition", "cpgc")

CACHED = Runtime(communication="fifo", transfers="cached")
"""Runtime in which links carry one transfer at a time, and each tensor goes to a device at most once."""

BRANCHES = (
    ("1x1",),
    ("pool", "projection"),
    ("5x5", "5x5.reduce"),
    ("1x1", "pool", "projection"),
    ("5x5", "5x5.reduce", "pool", "projection"),
)
"""Placements by hand: these branches of every module run on the CPU."""

COMPARED = {
    "CPGC over one device": ("tvm-fusion", "cpgc"),
    "the same plan, links contend": ("tvm-fusion", "links"),
    "links contend, tensors sent once": ("tvm-fusion", "cached"),
    "by hand over one device": ("tvm-fusion", "by hand"),
    "EOP over one device": ("tvm-fusion", "eop"),
    "CPGC over EOP": ("eop", "cpgc"),
    "CPGC over DUET": ("duet", "cpgc"),
    "CPGC over key operators": ("key-operators", "cpgc"),
    "CPGC over its partition": ("cpgc-partition", "cpgc"),
}
"""Comparisons: the base method and ours."""

PARTITIONS = ("CPGC over key operators", "CPGC over its partition")
"""Methods that are left out of the table of networks."""


def by_hand(problem: Problem) -> float | None:
    """Best makespan of the placements by hand [s]; None for networks without an obvious placement.

    In inception modules the same branches of every module run on the CPU, in stacked LSTMs the first layers.
    """
    names = problem.operator_names
    found = [[0 if re.fullmatch(rf"module\d+\.({'|'.join(b)})(\.relu)?", n) else 1 for n in names] for b in BRANCHES]
    cells = [re.fullmatch(r"cell\((\d+),\d+\)", name) for name in names]
    if all(cells):
        layer = [int(cell[1]) for cell in cells if cell]
        found = [[0 if k < first else 1 for k in layer] for first in range(1, max(layer) + 1)]
    plans = [decode_placement(problem, np.array(a, np.int32), "bottom-level") for a in found if 0 in a]
    return min((plan.makespan for plan in plans), default=None)


def measure(spec: ProblemSpec, faster: float) -> Row:
    """Makespans of all methods [s] on one problem, whose devices compute ``faster`` times as fast."""
    assert spec.parts is not None
    graph, platform = spec.parts()
    ratio = platform["gpu"].peak_flops["float32"] / platform["cpu"].peak_flops["float32"]
    platform = platform.scaled({"cpu.peak_flops": faster, "gpu.peak_flops": faster})
    problem = Problem.build(graph, platform)
    cpu, gpu = problem.cost.sum(axis=0).tolist()
    schedules = {name: get(name)(problem) for name in SCHEDULERS}
    batch = re.search(r"-b(?:atch=)?(\d+)", spec.graph)
    return {
        "network": re.sub(r"-b(atch=)?\d+|-s0|-fuse|_grid-.*", "", spec.graph).replace("-blocks=", " x"),
        "ratio": round(ratio, 6),
        "batch": int(batch[1]) if batch else 1,
        "operators": problem.num_operators,
        "cpu": cpu,
        "gpu": gpu,
        "tvm-fusion": tvm_fusion(graph, platform).makespan,
        "eop": eop(graph, platform).makespan,
        "by hand": by_hand(problem),
        **{name: schedule.makespan for name, schedule in schedules.items()},
        "links": simulate(problem, schedules["cpgc"], "links").makespan,
        "cached": simulate(problem, schedules["cpgc"], CACHED).makespan,
    }


def gains(rows: Iterable[Row], base: str, ours: str) -> list[tuple[float, float]]:
    """Per cent by both definitions, of the rows that have both."""
    times = [(row[base], row[ours]) for row in rows if row[base] is not None and row[ours] is not None]
    return [(100 * (b / t - 1), 100 * (1 - t / b)) for b, t in times]


def both(pairs: Sequence[tuple[float, float]]) -> str:
    """Means by both definitions."""
    return " / ".join(f"{value:.1f}" for value in np.mean(pairs, axis=0)) if pairs else "-"


COLUMNS: dict[str, Callable[[Row], str]] = {
    "network": lambda row: row["network"],
    "r": lambda row: f"{row['ratio']:g}",
    "batch": lambda row: str(row["batch"]),
    "one device": lambda row: f"{1e3 * row['tvm-fusion']:.3f} ms",
    **{title: lambda row, pair=pair: both(gains([row], *pair)) for title, pair in COMPARED.items()},  # type: ignore[misc]
}


def markdown(rows: list[Row]) -> str:
    """Tables for a page: a column for each ratio; a cell holds the batch sizes, or means by both definitions."""
    ratios = sorted({row["ratio"] for row in rows})
    head = [f"r = {ratio:g}" for ratio in ratios]
    lines = [["network", "", *head], ["---", "---", *["---:"] * len(ratios)]]
    for network in dict.fromkeys(row["network"] for row in rows):
        own = [row for row in rows if row["network"] == network]
        for title, pair in COMPARED.items():
            if title in PARTITIONS:
                continue
            cells = [[f"{g:.1f}" for g, _ in gains([row for row in own if row["ratio"] == r], *pair)] for r in ratios]
            if any(cells):
                lines.append([network, title, *(" / ".join(cell) for cell in cells)])
    means = [["mean of inception networks", *head], ["---", *["---:"] * len(ratios)]]
    inception = [row for row in rows if row["network"].startswith("inception")]
    for title, pair in {**COMPARED, "CPGC over the GPU": ("gpu", "cpgc"), "CPGC over the CPU": ("cpu", "cpgc")}.items():
        means.append([title, *(both(gains([row for row in inception if row["ratio"] == r], *pair)) for r in ratios)])
    return "\n".join("".join(f"| {' | '.join(line)} |\n" for line in table) for table in (means, lines))


def trends(rows: list[Row]) -> str:
    """Numbers of cases in which CPGC gains more over one device with a smaller batch, and with a deeper network."""
    gain = {(row["network"], row["ratio"], row["batch"]): gains([row], "tvm-fusion", "cpgc")[0][0] for row in rows}
    batches = sorted({row["batch"] for row in rows})
    pairs = {
        "smaller batch": [
            (gain[n, r, a], gain[n, r, b])
            for a, b in zip(batches, batches[1:], strict=False)
            for n, r in dict.fromkeys(key[:2] for key in gain)
            if n.startswith("inception")
        ],
        "six modules, not three": [
            (value, gain["inception x3", r, b]) for (n, r, b), value in gain.items() if n == "inception x6"
        ],
    }
    lines = []
    for what, compared in pairs.items():
        more = sum(a > b + 0.05 for a, b in compared)
        less = sum(a < b - 0.05 for a, b in compared)
        lines.append(f"{what}: CPGC gains more in {more} of {len(compared)} pairs, less in {less}")
    return "\n".join(lines)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--suite", default="cpu-gpu-study")
    parser.add_argument("--quick", action="store_true", help="inception x3, x6 and the LSTM in small batches at r = 4")
    parser.add_argument("--faster", type=float, default=1.0, help="multiplies the arithmetic of both devices")
    parser.add_argument("--markdown", type=Path, help="file for the tables")
    options = parser.parse_args()
    specs = load_suite(options.suite).specs
    if options.quick:
        small = re.compile(r"(inception-|lstm).*batch=[14]-.*=4")
        specs = tuple(spec for spec in specs if small.fullmatch(spec.name))
    rows = [measure(spec, options.faster) for spec in specs]
    show("Simulated gains in per cent, T_base / T - 1 and 1 - T / T_base", rows, COLUMNS)
    print(trends(rows))
    save(options.json, "cpu_gpu_study", rows)
    if options.markdown is not None:
        options.markdown.write_text(markdown(rows))


if __name__ == "__main__":
    main()
