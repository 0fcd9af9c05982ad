"""When does a CPU beside a GPU pay? Simulated gains of CPGC over one fused device, EOP and DUET.

    python benchmarks/cpu_gpu.py --json cpu_gpu.json --markdown table.md

Everything is simulated: the platform is a CPU whose convolutions reach the rate that EOP's authors published
for ResNet-18 (see :data:`CPU_FLOPS`) and a GPU that is r times faster in arithmetic and min(r, 3) times in
memory bandwidth; operators are priced by the roofline model. Nothing was run on such devices.

"links contend" runs CPGC's plan, made for free links, on links that carry one transfer at a time.
A gain is given by both definitions in use: T_base / T - 1 and 1 - T / T_base.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _common import save, show

from hetgym import DataflowGraph, Platform, Problem, load_graph, simulate
from hetgym.baselines import eop, get, single_device, tvm_fusion
from hetgym.device import Device, Link
from hetgym.graph.generators import inception, lstm_grid
from hetgym.sim.batch import decode_placement

RATIOS = (1.5, 2.5, 4.0, 6.0, 10.0, 20.0)
BATCHES = (1, 4, 16)

CONV_SHARE = 0.6  # of the peak, on both devices, so that r is the ratio of what convolutions reach
CPU_FLOPS = 3.63e9 / 16.70e-3 / CONV_SHARE  # [FLOP/s]; ResNet-18's convolutions in 16.7 ms: Xu et al., EOP, VEE 2022
CPU_BANDWIDTH = 76.8e9  # [byte/s]; four channels of DDR4-2400
LAUNCH = {"cpu": 4e-6, "gpu": 10e-6}  # [s]
LINK = 15e-6, 10e9  # [s], [byte/s]

NETWORKS: dict[str, Callable[[int], DataflowGraph]] = {
    "inception x3": lambda batch: inception(blocks=3, batch=batch),
    "inception x6": lambda batch: inception(blocks=6, batch=batch),
    "inception_v1": lambda batch: load_graph("inception_v1", batch=batch),
    "nasnet": lambda batch: load_graph("nasnet", batch=batch),
}

BRANCHES = (("1x1",), ("pool", "projection"), ("5x5", "5x5.reduce"), ("1x1", "pool", "projection"),
            ("5x5", "5x5.reduce", "pool", "projection"))  # fmt: skip
"""Placements that one would write by hand: these branches of every module go to the CPU."""


def pair(ratio: float, cpu_flops: float = CPU_FLOPS) -> Platform:
    """The CPU and a GPU that is ``ratio`` times faster; the share of the peak is the same for all families."""
    share = {"conv": CONV_SHARE, "matmul": CONV_SHARE, "recurrent": 0.25, "pool": 0.1, "elementwise": 0.1,
             "reduce": 0.1, "normalise": 0.1, "move": 0.1, "generic": 0.5}  # fmt: skip
    devices = [
        Device(kind, kind, {"float32": cpu_flops * speed}, CPU_BANDWIDTH * wide, launch_overhead=LAUNCH[kind],
               efficiency=share, memory_efficiency=0.7)
        for kind, speed, wide in (("cpu", 1.0, 1.0), ("gpu", ratio, min(ratio, 3.0)))
    ]  # fmt: skip
    links = [Link(a, b, *LINK) for a, b in (("cpu", "gpu"), ("gpu", "cpu"))]
    return Platform(f"cpu-gpu-r{ratio:g}", devices, links)


def by_hand(problem: Problem, layers: int = 0) -> float | None:
    """Best of the placements written by hand [s]; None where nobody would know what to write."""
    best = []
    names = problem.operator_names
    for branches in BRANCHES:
        there = [name.startswith("module") and name.split(".", 1)[1] in branches for name in names]
        if any(there):
            best.append(np.where(there, 0, 1))
    for first in range(1, layers):
        best.append(np.array([0 if int(name[5:].split(",")[0]) < first else 1 for name in names]))
    plans = [decode_placement(problem, assignment.astype(np.int32), "bottom-level") for assignment in best]
    return min((plan.makespan for plan in plans), default=None)


def measure(network: str, ratio: float, batch: int, cpu_flops: float) -> dict[str, Any]:
    """Makespans of all methods on one platform [s]."""
    graph, platform = NETWORKS[network](batch), pair(ratio, cpu_flops)
    fused = tvm_fusion(graph, platform)
    cpgc = get("cpgc")(fused.problem)
    return {
        "network": network, "ratio": ratio, "batch": batch, "operators": len(fused.graph),
        "single": fused.makespan, "eop": eop(graph, platform).makespan,
        **{name: get(name)(fused.problem).makespan for name in ("duet", "cpgc-partition")}, "cpgc": cpgc.makespan,
        "cpgc on busy links": simulate(fused.problem, cpgc, "links").makespan, "manual": by_hand(fused.problem),
    }  # fmt: skip


def recurrent(ratio: float, batch: int, cpu_flops: float, layers: int = 4) -> dict[str, Any]:
    """The same for a grid of LSTM cells, whose first layers go to the CPU by hand."""
    problem = Problem.build(lstm_grid(layers=layers, steps=24, hidden=512, batch=batch), pair(ratio, cpu_flops))
    single, cpgc = single_device(problem).makespan, get("cpgc")(problem)
    return {
        "network": "lstm grid", "ratio": ratio, "batch": batch, "operators": problem.num_operators, "single": single,
        "eop": None, **{name: get(name)(problem).makespan for name in ("duet", "cpgc-partition")},
        "cpgc": cpgc.makespan, "cpgc on busy links": simulate(problem, cpgc, "links").makespan,
        "manual": by_hand(problem, layers),
    }  # fmt: skip


def gain(row: dict[str, Any], base: str, ours: str = "cpgc") -> str:
    """Per cent by both definitions, ``T_base / T - 1`` and ``1 - T / T_base``."""
    if row[base] is None or row[ours] is None:
        return "-"
    return f"{100 * (row[base] / row[ours] - 1):.1f} / {100 * (1 - row[ours] / row[base]):.1f}"


COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "network": lambda row: row["network"],
    "r": lambda row: f"{row['ratio']:g}",
    "batch": lambda row: str(row["batch"]),
    "one device": lambda row: f"{1e3 * row['single']:.3f} ms",
    "CPGC over it": lambda row: gain(row, "single"),
    "links contend": lambda row: gain(row, "single", "cpgc on busy links"),
    "by hand over it": lambda row: gain(row, "single", "manual"),
    "CPGC over EOP": lambda row: gain(row, "eop"),
    "over DUET": lambda row: gain(row, "duet"),
    "over its partition": lambda row: gain(row, "cpgc-partition"),
}


COMPARED = {
    "CPGC over one device": ("single", "cpgc"),
    "the same plan, links contend": ("single", "cpgc on busy links"),
    "by hand over one device": ("single", "manual"),
    "CPGC over EOP": ("eop", "cpgc"),
    "CPGC over DUET": ("duet", "cpgc"),
}


def markdown(rows: list[dict[str, Any]]) -> str:
    """The first definition for a page: a line for each network and comparison, a column for each ratio.

    Cells hold the batch sizes; the last lines are means over the inception networks by both definitions.
    """
    ratios = list(dict.fromkeys(row["ratio"] for row in rows))
    lines = [["network", "", *(f"r = {ratio:g}" for ratio in ratios)], ["---", "---", *["---:"] * len(ratios)]]
    for network in dict.fromkeys(row["network"] for row in rows):
        for title, (base, ours) in COMPARED.items():
            chosen = [[row for row in rows if (row["network"], row["ratio"]) == (network, r)] for r in ratios]
            if all(row[key] is not None for group in chosen for row in group for key in (base, ours)):
                cells = (" / ".join(f"{100 * (row[base] / row[ours] - 1):.1f}" for row in group) for group in chosen)
                lines.append([network, title, *cells])
    for title, (base, ours) in COMPARED.items():
        chosen = [[row for row in rows if row["ratio"] == r and row["network"].startswith("inception")] for r in ratios]
        if all(row[key] is not None for group in chosen for row in group for key in (base, ours)):
            means = ((np.mean([row[base] / row[ours] - 1 for row in group]),
                      np.mean([1 - row[ours] / row[base] for row in group])) for group in chosen)  # fmt: skip
            cells = (f"{100 * more:.1f}, {100 * less:.1f}" for more, less in means)
            lines.append(["mean of inception", f"{title}, both definitions", *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=[*NETWORKS, "lstm grid"], choices=[*NETWORKS, "lstm grid"])
    parser.add_argument("--ratios", type=float, nargs="+", default=RATIOS, help="GPU speed over CPU speed")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--cpu-flops", type=float, default=CPU_FLOPS, help="peak of the CPU [FLOP/s]")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    parser.add_argument("--markdown", type=Path, help="file for the table")
    options = parser.parse_args()
    rows = [
        recurrent(ratio, batch, options.cpu_flops)
        if network == "lstm grid"
        else measure(network, ratio, batch, options.cpu_flops)
        for network in options.networks
        for ratio in options.ratios
        for batch in options.batches
    ]
    show("Simulated gains in per cent, T_base / T - 1 and 1 - T / T_base", rows, COLUMNS)
    save(options.json, "cpu_gpu", rows)
    if options.markdown is not None:
        options.markdown.write_text(markdown(rows))


if __name__ == "__main__":
    main()
