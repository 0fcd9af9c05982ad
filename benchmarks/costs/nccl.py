"""Collectives of NCCL as latency + bytes / bandwidth, and hetgym's simulated rings beside them.

    python benchmarks/costs/nccl.py --data DIR --json nccl.json --markdown nccl.md      # half a minute

DIR holds ``{a100,h100,h200}_sxm/comm/nccl/<version>/nccl_perf.parquet`` of NVIDIA's aiconfigurator
(github.com/ai-dynamo/aiconfigurator, Apache-2.0); by default ``aiconfigurator`` in the folder that HETGYM_DATA names.
Needs pyarrow. Sizes are those of the whole buffer, which all ranks hold before a reduce-scatter or after an all-gather.

The law is fitted to the float16 rows by least squares of the relative error. *Bus* is its bandwidth times the share of
the buffer that each GPU must send: 2 (k - 1) / k for an all-reduce, (k - 1) / k otherwise. *Simulated* is a ring on
``8gpu-node`` under ``links``, over the measurement on A100, at 128 KiB, 16 MiB and 256 MiB.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[1]))
from _common import save, show

from hetgym import Problem, Schedule, load_platform, simulate
from hetgym.graph.transforms import collective

VERSIONS = {"a100": "2.27.3", "h100": "2.29.2", "h200": "2.29.2"}
NAMES = {"all_reduce": "all-reduce", "all_gather": "all-gather", "reduce_scatter": "reduce-scatter", "alltoall": ""}
SIZES = (1 << 17, 1 << 24, 1 << 28)
Floats = npt.NDArray[np.float64]


def read(folder: Path, gpu: str) -> dict[tuple[str, int], tuple[Floats, Floats]]:
    """(collective, GPUs) -> buffer sizes in rising order [byte] and times [s], for two-byte elements."""
    import pyarrow.parquet

    path = folder / f"{gpu}_sxm" / "comm" / "nccl" / VERSIONS[gpu] / "nccl_perf.parquet"
    rows = pyarrow.parquet.read_table(path).to_pylist()
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for row in rows:
        if row["nccl_dtype"] == "half":  # the table's message size counts elements
            point = 2.0 * row["message_size"], 1e-3 * row["latency"]
            found.setdefault((row["op_name"], row["num_gpus"]), []).append(point)
    return {key: tuple(np.array(sorted(points)).T) for key, points in sorted(found.items())}  # type: ignore[misc]


def law(size: Floats, seconds: Floats) -> tuple[float, float]:
    """Latency [s] and bandwidth [byte/s] with the least squares of the relative error."""
    columns = np.stack([1 / seconds, size / seconds], axis=1)
    (latency, inverse), *_ = np.linalg.lstsq(columns, np.ones(len(size)), rcond=None)
    return float(latency), float(1 / inverse)


def simulated(name: str, ranks: int, size: float) -> float:
    """Time of a ring over the first GPUs of ``8gpu-node`` [s]."""
    made = collective(name, ranks, int(size) // 2, "float16")
    problem = Problem.build(made.graph, load_platform("8gpu-node"))
    schedule = Schedule(made.assignment(list(range(ranks))), priority=made.priority)
    return simulate(problem, schedule, runtime="links").makespan


def study(folder: Path) -> list[dict[str, Any]]:
    rows = []
    for gpu in VERSIONS:
        for (op, ranks), (size, seconds) in read(folder, gpu).items():
            latency, bandwidth = law(size, seconds)
            error = np.abs((latency + size / bandwidth) / seconds - 1)
            share = (2 if op == "all_reduce" else 1) * (ranks - 1) / ranks
            ratios = {}
            if gpu == "a100" and NAMES[op]:
                known = dict(zip(size.tolist(), seconds.tolist(), strict=True))
                ratios = {n: simulated(NAMES[op], ranks, n) / known[float(n)] for n in SIZES}
            rows.append(
                {
                    "gpu": gpu,
                    "collective": op,
                    "ranks": ranks,
                    "n": len(size),
                    "latency": latency,
                    "bandwidth": bandwidth,
                    "bus": bandwidth * share,
                    "mean": float(error.mean()),
                    "worst": float(error.max()),
                    "simulated": ratios,
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HETGYM_DATA", ".")) / "aiconfigurator")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    rows = study(args.data)
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "GPU": lambda r: r["gpu"],
        "collective": lambda r: r["collective"],
        "GPUs": lambda r: str(r["ranks"]),
        "latency [us]": lambda r: f"{1e6 * r['latency']:.1f}",
        "GB/s": lambda r: f"{r['bandwidth'] / 1e9:.0f}",
        "bus GB/s": lambda r: f"{r['bus'] / 1e9:.0f}",
        "mean error": lambda r: f"{100 * r['mean']:.0f} %",
        "worst": lambda r: f"{100 * r['worst']:.0f} %",
        "simulated / NCCL": lambda r: " ".join(f"{v:.2f}" for v in r["simulated"].values()),
    }
    show("collectives of NCCL", rows, columns)
    save(args.json, "nccl", rows)
    if args.markdown is not None:
        lines = ["| " + " | ".join(columns) + " |", "| --- | --- |" + " ---: |" * (len(columns) - 2)]
        lines += ["| " + " | ".join(cell(row) for cell in columns.values()) + " |" for row in rows]
        args.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
