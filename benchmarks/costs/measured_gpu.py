"""Prices against measurements of a GPU: whole networks in float32 and bfloat16, and operators.

    python benchmarks/costs/measured_gpu.py          # the shipped table of an H200 by the models that its board names
    python benchmarks/costs/measured_gpu.py --costs gpu-eager-fp32       # float32 by the data sheet
    python benchmarks/costs/measured_gpu.py --table measurements/gpu.csv.gz
    python benchmarks/costs/measured_gpu.py --table h100 --costs h200    # one board by the measurements of another
    python benchmarks/costs/measured_gpu.py --half-costs none            # 16 bits by the board's other model
    python benchmarks/costs/measured_gpu.py --list Attention             # each operator of a kind, alone

By default the prices are those of the models that ``hetgym/configs/boards.yaml`` names for the board: for an H200 or
H100 SXM those of ``h200`` in float32 and of ``gpu-half`` in 16 bits. The table is one of ``hetgym profile``. *Kernels*
is the sum over a network's operators, timed with the host ahead of the device; *eager* is the network as PyTorch starts
it, operator by operator.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from _common import command_line, show

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
KINDS: dict[str, Callable[[dict[str, Any]], str]] = {
    **OPERATORS,
    "median time": lambda row: f"{1e6 * row['seconds']:.1f} us",
}
EACH: dict[str, Callable[[dict[str, Any]], str]] = {
    "operator": lambda row: row["operator"],
    "measured": lambda row: f"{1e6 * row['seconds']:.1f} us",
    "predicted": lambda row: f"{1e6 * row['predicted']:.1f} us",
    "error": lambda row: f"{row['predicted'] / row['seconds'] - 1.0:+.0%}",
}
GROUPS = {
    "1 sample": "-b1$",
    "8 samples": "-b8$",
    "32 samples": "-b32$",
    "all of these": r"-b\d+$",
    "without TF32": "-no-tf32$",
    "language models": "prefill|decode",
}
"""Name of a group of networks -> the pattern of their names."""

SHORTEST = 1e-7
"""Time below which an operator launched nothing [s]."""


Pairs = list[tuple[float, float]]
"""Predicted and measured seconds."""


class Priced:
    """A table of ``hetgym profile``, and the prices of its operators.

    Args:
        table: its name or path.
        costs: model of the operators; by default the board's.
        half: model of 16-bit operators; none; by default the board's.
    """

    def __init__(self, table: str, costs: str = "", half: str = "") -> None:
        dataset = Dataset.load(table)
        named = {"costs": costs} if costs else {}
        named |= {"half_costs": half.replace("none", "")} if half else {}
        self.board = find_board(dataset.device.model, "", (), table).named("gpu", **named)
        rows = [row for row in dataset.table.timed() if row.operator.kind != "Graph"]
        prices = AutoCosts().predict([row.operator for row in rows], self.board)
        of: dict[str, list[tuple[Measurement, float]]] = defaultdict(list)
        self.kinds: dict[str, Pairs] = defaultdict(list)  # kind -> operators of float32 networks
        self.alone: dict[str, Pairs] = defaultdict(list)  # kind and phase -> operators of language models
        self.each: dict[str, list[dict[str, Any]]] = defaultdict(list)  # kind -> the same, with their shapes
        for row, price in zip(rows, prices.tolist(), strict=True):
            if row.context == "graph":
                of[row.source].append((row, price))
                if row.seconds > SHORTEST and row.operator.dtype == "float32" and not row.source.startswith("random-"):
                    self.kinds[row.operator.kind].append((price, row.seconds))
            elif row.operator.dtype == "bfloat16" and not row.source.endswith("-bf16"):
                phase = "decode" if "decode" in row.source else "prefill"
                self.alone[f"{row.operator.kind}, {phase}"].append((price, row.seconds))
                shapes = ", ".join("x".join(map(str, tensor.shape)) for tensor in row.operator.inputs)
                words = f"{row.source}: {shapes}"
                self.each[row.operator.kind].append({"operator": words, "seconds": row.seconds, "predicted": price})
        walls = dataset.table.graphs()
        self.networks = [
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

    def score(self, pattern: str) -> Score:
        """Errors of the networks whose names a pattern finds."""
        chosen = [row for row in self.networks if re.search(pattern, row["network"])]
        return Score.of([row["predicted"] for row in chosen], [row["kernels"] for row in chosen])


def main() -> None:
    parser = command_line(__doc__, json=False)
    parser.add_argument("--table", default="h200")
    parser.add_argument("--costs", default="", help="model of the operators; by default the board's")
    parser.add_argument("--half-costs", default="", help="model of 16-bit operators; none; by default the board's")
    parser.add_argument("--list", default="", metavar="KIND", help="print each 16-bit operator of a kind")
    options = parser.parse_args()
    found = Priced(options.table, options.costs, options.half_costs)
    show(f"networks on {found.board.model}", found.networks, NETWORKS)
    for words, pattern in GROUPS.items():
        if (score := found.score(pattern)).n:
            print(f"{words}: {score}")
    show("operators of these networks in float32", scores(found.kinds), KINDS)
    show("operators of language models in bfloat16", scores(found.alone), KINDS)
    if options.list in found.each:
        show(options.list, found.each[options.list], EACH)


def scores(groups: dict[str, Pairs]) -> list[dict[str, Any]]:
    """Errors of groups of predicted and measured seconds that have three or more."""
    found = []
    for what, pairs in sorted(groups.items()):
        predicted, measured = np.array(pairs).T
        if len(measured) > 2:
            found.append({"what": what, "score": Score.of(predicted, measured), "seconds": float(np.median(measured))})
    return found


if __name__ == "__main__":
    main()
