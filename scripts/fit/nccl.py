"""Collectives of NCCL as latency + bytes / bandwidth, and hetgym's simulated rings beside them.

    python scripts/fit/nccl.py law   --data DIR --json nccl.json --markdown nccl.md   # half a minute
    python scripts/fit/nccl.py score --data DIR        # hetgym.costs.collectives on sizes and boards held out
    python scripts/fit/nccl.py fit   --data DIR        # prints its curves and latencies

DIR holds ``{a100,h100,h200}_sxm/comm/nccl/<version>/nccl_perf.parquet`` of NVIDIA's aiconfigurator
(github.com/ai-dynamo/aiconfigurator, Apache-2.0); by default ``aiconfigurator`` in the folder that HETGYM_DATA names.
Needs pyarrow. Sizes are those of the whole buffer, which all ranks hold before a reduce-scatter or after an all-gather.

*law*: one latency and one bandwidth, fitted to the float16 rows by least squares of the relative error. *Bus* is the
bandwidth times the share of the buffer that each GPU must send: 2 (k - 1) / k for an all-reduce, (k - 1) / k otherwise.
*Simulated* is a ring on ``8gpu-node`` under ``links``, over the measurement on A100, at 128 KiB, 16 MiB and 256 MiB.

*score*: rows of float16 and int8. Each size is predicted by curves and latencies that were fitted to all other sizes.
Then each board is predicted by a fit to the two others; for A100, the latencies are those of H100 and H200 in cycles.
*custom* is the all-reduce of vLLM in a captured graph, whose curves are printed and scored in the same way.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show

from hetgym import Problem, Schedule, load_platform, simulate
from hetgym.costs.collectives import (
    CUSTOM_HOP,
    CUSTOM_LIMIT,
    FORMS,
    KNOTS,
    LINKS,
    Curves,
    Links,
    collective_seconds,
    latency_of,
    seconds_per_byte,
)
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


HOPPER = 1.98 / 1.41
"""Clock of H100 and H200 over that of A100."""

CUSTOM = {"a100": "0.14.0", "h100": "0.24.0"}
"""Versions of vLLM's tables of its custom all-reduce."""

KIND_OF = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "custom": "custom-all-reduce",
}
RING = {"a100": "nvlink3", "h100": "nvlink4", "h200": "nvlink4"}
SMOOTH = 0.05  # weight of the squared second differences of a curve
SMALL = 2048.0  # messages up to this many bytes take the latency


@dataclass(frozen=True)
class Row:
    """A measured collective: board, key of :data:`KIND_OF`, GPUs, size [byte], time [s], True if of 16 bits."""

    board: str
    op: str
    gpus: int
    size: float
    seconds: float
    half: bool

    @property
    def kind(self) -> str:
        """Kind of collective."""
        return KIND_OF[self.op]

    def links(self, fitted: Mapping[str, Links]) -> Links:
        """The board's links; switches add numbers of 16 bits only."""
        return replace(fitted[self.board], switch=fitted[self.board].switch and self.half)

    def curve(self, fitted: Mapping[str, Links]) -> tuple[str, int]:
        """The curve that the row belongs to."""
        switched = self.op == "all_reduce" and self.gpus == 8 and self.links(fitted).switch
        return ("switch" if switched else FORMS[self.kind]), self.gpus


def rows_of(folder: Path) -> list[Row]:
    """All rows of NCCL and of the custom all-reduce in captured graphs."""
    import pyarrow.parquet

    found = []
    for board, release in VERSIONS.items():
        path = folder / f"{board}_sxm" / "comm" / "nccl" / release / "nccl_perf.parquet"
        for row in pyarrow.parquet.read_table(path).to_pylist():
            half = row["nccl_dtype"] == "half"
            size = row["message_size"] * (2.0 if half else 1.0)
            found.append(Row(board, row["op_name"], row["num_gpus"], size, 1e-3 * row["latency"], half))
    for board, release in CUSTOM.items():
        path = folder / f"{board}_sxm" / "comm" / "vllm" / release / "custom_allreduce_perf.parquet"
        for row in pyarrow.parquet.read_table(path).to_pylist():
            if row["kernel_source"] == "vLLM_custom_graph":
                size = 2.0 * row["message_size"]
                found.append(Row(board, "custom", row["num_gpus"], size, 1e-3 * row["latency"], True))
    return found


def latencies(rows: Sequence[Row]) -> dict[str, Links]:
    """Start and hop of each generation of links, by least squares of the relative errors of the smallest messages."""
    fitted = {}
    for ring in sorted({RING[row.board] for row in rows}):
        groups: dict[tuple[str, int, str], list[float]] = {}
        for row in rows:
            if RING[row.board] == ring and row.size <= SMALL and row.op != "custom":
                groups.setdefault((row.op, row.gpus, row.board), []).append(row.seconds)
        unit = [replace(LINKS[ring], start=a, hop=b) for a, b in ((1.0, 1e-9), (1e-9, 1.0))]
        columns = [[latency_of(KIND_OF[op], gpus, one) for one in unit] for op, gpus, _ in groups]
        middle = np.array([np.median(times) for times in groups.values()])
        (start, hop), *_ = np.linalg.lstsq(np.array(columns) / middle[:, None], np.ones(len(middle)), rcond=None)
        smallest = [
            row.seconds - CUSTOM_HOP * np.log2(row.gpus)
            for row in rows
            if row.op == "custom" and row.size <= SMALL and RING[row.board] == ring
        ]
        direct = float(np.median(smallest)) if smallest else Links(1.0, 1.0, 1.0).direct
        one = replace(LINKS[ring], start=float(start), hop=float(hop), direct=direct)
        fitted |= {board: one for board, name in RING.items() if name == ring}
    return fitted


def curves_of(rows: Sequence[Row], fitted: Mapping[str, Links]) -> dict[str, dict[int, tuple[float, ...]]]:
    """Smooth curves through the rows, by iterated least squares with the weights of absolute errors."""
    points: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for row in rows:
        if row.op == "custom" and row.size >= CUSTOM_LIMIT:
            continue
        links = row.links(fitted)
        latency = latency_of(row.kind, row.gpus, links)
        transfer = row.size * seconds_per_byte(row.kind, row.gpus, links)
        point = float(np.log2(transfer / latency)), float(np.log(row.seconds / (latency + transfer)))
        points.setdefault(row.curve(fitted), []).append(point)
    bend = np.diff(np.eye(len(KNOTS)), 2, axis=0)
    made: dict[str, dict[int, tuple[float, ...]]] = {}
    for (form, gpus), pairs in sorted(points.items()):
        at, y = np.array(pairs).T
        tent = np.maximum(0.0, 1.0 - np.abs(np.clip(at, KNOTS[0], KNOTS[-1])[:, None] - KNOTS))
        weight = np.ones(len(y))
        for _ in range(30):
            scaled = tent * weight[:, None]
            curve = np.linalg.solve(scaled.T @ tent + SMOOTH * bend.T @ bend + 1e-9 * np.eye(len(KNOTS)), scaled.T @ y)
            weight = 0.03 / np.maximum(np.abs(y - tent @ curve), 0.03)
        made.setdefault(form, {})[gpus] = tuple(float(round(v, 2)) for v in curve)
    return made


def predicted(rows: Sequence[Row], fitted: Mapping[str, Links], curves: Curves) -> Floats:
    """[r] seconds."""
    return np.array(
        [collective_seconds(r.kind, r.size, r.gpus, r.links(fitted), curves=curves)[0] for r in rows], np.float64
    )


def scores(rows: Sequence[Row], guess: Floats, protocol: str) -> list[dict[str, Any]]:
    """Errors of each kind of collective, and of all of NCCL's."""
    ratio = guess / np.array([row.seconds for row in rows]) - 1
    ops = np.array([row.op for row in rows])
    large = np.array([row.size >= CUSTOM_LIMIT for row in rows])
    groups = {op: ops == op for op in ("all_reduce", "all_gather", "reduce_scatter", "alltoall")}
    groups |= {"all of NCCL": ops != "custom", "custom, below 8 MiB": (ops == "custom") & ~large}
    groups |= {"custom, NCCL from 8 MiB on": (ops == "custom") & large}
    return [
        {"protocol": protocol, "what": name, "n": int(use.sum()), "mean": float(np.abs(ratio[use]).mean()),
         "median": float(np.median(np.abs(ratio[use]))), "p90": float(np.quantile(np.abs(ratio[use]), 0.9)),
         "bias": float(np.median(ratio[use]))}
        for name, use in groups.items() if use.any()
    ]  # fmt: skip


def held(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Errors on sizes that were held out one after another, and on boards."""
    table: list[dict[str, Any]] = []
    guess = np.zeros(len(rows))
    sizes = np.array([row.size for row in rows])
    for size in np.unique(sizes):
        rest = [row for row in rows if row.size != size]
        fitted = latencies(rest)
        here = np.flatnonzero(sizes == size)
        guess[here] = predicted([rows[i] for i in here], fitted, curves_of(rest, fitted))
    table += scores(rows, guess, "each size in turn")
    for board in VERSIONS:
        rest, test = [r for r in rows if r.board != board], [r for r in rows if r.board == board]
        fitted = latencies(rest)
        if board == "a100":
            known = fitted["h100"]
            start, hop, direct = (HOPPER * part for part in (known.start, known.hop, known.direct))
            fitted["a100"] = replace(LINKS["nvlink3"], start=start, hop=hop, direct=direct)
        table += scores(test, predicted(test, fitted, curves_of(rest, fitted)), f"without {board}")
    return table


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
    parser = command_line(__doc__)
    parser.add_argument("what", choices=("law", "score", "fit"), nargs="?", default="law")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("HETGYM_DATA", ".")) / "aiconfigurator")
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    if args.what == "fit":
        found = rows_of(args.data)
        fitted = latencies(found)
        for ring, board in (("nvlink3", "a100"), ("nvlink4", "h100")):
            print(ring, f"start {fitted[board].start:.2e} s, hop {fitted[board].hop:.2e} s,", end=" ")
            print(f"direct {fitted[board].direct:.2e} s")
        for form, lines in curves_of(found, fitted).items():
            for gpus, curve in lines.items():
                print(form, gpus, "(" + ", ".join(f"{v + 0.0:.2f}" for v in curve) + ")")
        return
    if args.what == "score":
        rows = held(rows_of(args.data))
        figures = {"n": lambda r: str(r["n"])} | {
            name: (lambda r, name=name: f"{100 * r[name]:.1f} %") for name in ("mean", "median", "p90", "bias")
        }
        show("collectives", rows, {"protocol": lambda r: r["protocol"], "what": lambda r: r["what"], **figures})
        save(args.json, "collectives", rows)
        return
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
