"""Prices by the data sheet against measurements of a GPU: whole networks in float32, operators in bfloat16.

    python benchmarks/costs/measured_gpu.py          # the shipped table of an H100; seconds
    python benchmarks/costs/measured_gpu.py --table measurements/gpu.csv.gz

The prices are those of ``gpu-eager-fp32`` and ``gpu-half`` by the board's data sheet (``hetgym/configs/boards.yaml``).
The table is one of ``hetgym profile``; no model was fitted to it. *Kernels* is the sum over a network's operators,
timed with the host ahead of the device; *eager* is the network as PyTorch starts it, operator by operator.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from _common import show

from hetgym.costs import AutoCosts
from hetgym.costs.fitting import Score
from hetgym.measurements import Dataset
from hetgym.measurements.table import Measurement
from hetgym.topology.boards import find_board

NETWORKS: dict[str, Callable[[dict[str, Any]], str]] = {
    "network": lambda row: str(row["network"]),
    "kernels": lambda row: f"{1e3 * row['kernels']:.2f} ms",
    "predicted": lambda row: f"{1e3 * row['predicted']:.2f} ms",
    "error": lambda row: f"{row['predicted'] / row['kernels'] - 1.0:+.0%}",
    "eager": lambda row: f"{1e3 * row['eager']:.2f} ms",
    "operators": lambda row: str(row["operators"]),
}
OPERATORS: dict[str, Callable[[dict[str, Any]], str]] = {
    "operators": lambda row: str(row["what"]),
    "n": lambda row: str(row["score"].n),
    **{name: lambda row, name=name: f"{getattr(row['score'], name):.1%}" for name in ("mean", "median", "p90", "bias")},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", default="h100")
    options = parser.parse_args()
    dataset = Dataset.load(options.table)
    board = find_board(dataset.device.model, "", (), options.table).named("gpu")
    rows = [row for row in dataset.table.timed() if row.operator.kind != "Graph"]
    prices = AutoCosts().predict([row.operator for row in rows], board)
    of: dict[str, list[tuple[Measurement, float]]] = defaultdict(list)
    alone: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row, price in zip(rows, prices.tolist(), strict=True):
        if row.context == "graph":
            of[row.source].append((row, price))
        elif row.operator.dtype == "bfloat16" and not row.source.endswith("-bf16"):
            phase = "decode" if "decode" in row.source else "prefill"
            alone[f"{row.operator.kind}, {phase}"].append((price, row.seconds))
    walls = dataset.table.graphs()
    networks = [
        {
            "network": name,
            "kernels": sum(row.seconds * row.count for row, _ in parts),
            "predicted": sum(price * row.count for row, price in parts),
            "eager": walls[name],
            "operators": sum(row.count for row, _ in parts),
        }
        for name, parts in sorted(of.items())
        if not name.startswith("random-")
    ]
    show(f"networks in float32 on {board.model}", networks, NETWORKS)
    for batch in ("-b1", "-b32", "-no-tf32"):
        chosen = [row for row in networks if row["network"].endswith(batch)]
        if chosen:
            score = Score.of([row["predicted"] for row in chosen], [row["kernels"] for row in chosen])
            print(f"{batch[1:]}: n {score.n}, mean {score.mean:.1%}, median {score.median:.1%}, bias {score.bias:+.1%}")
    scored = [
        {"what": what, "score": Score.of(*(np.array(side) for side in zip(*pairs, strict=True)))}
        for what, pairs in sorted(alone.items())
        if len(pairs) > 2
    ]
    show("operators of language models in bfloat16", scored, OPERATORS)


if __name__ == "__main__":
    main()
