"""Max-loads of cut pipelines, and times of the methods that cut them.

    python benchmarks/pipeline.py DATA --json pipeline.json

DATA holds the files of github.com/msr-fiddle/dnn-partitioning, in any folders: each ``*.json`` or ``*.json.gz``
in a folder called ``throughput`` is cut by every method. Loads are also given relative to the optimal
contiguous cut; the published optima, where known, stand beside it. The first table needs no files: it
compares pipeline schedules of a balanced model by simulation.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from _common import command_line, save, seconds, show

from hetgym import HetgymError, pipeline
from hetgym.baselines.pipeline import PARTITIONERS, pipedream
from hetgym.pipeline import PipelineProblem

OPTIMA = {
    "bert24_inference": 17.789906,
    "bert24_training": 41.745813,
    "gnmt_inference": 32.910658,
    "gnmt_training": 107.004414,
    "resnet50_inference": 33.774666,
    "resnet50_training": 78.631813,
    "op_bert_l-3_inference": 27.918568,
    "op_bert_l-3_training": 65.303149,
}
"""Optimal contiguous max-loads [ms]."""


def schedules(stages: int, micro_batches: int) -> list[dict[str, Any]]:
    """One row for each pipeline schedule; a forward pass takes 1 s, a backward pass 2 s."""
    rows = []
    for name, chunks in (("gpipe", 1), ("1f1b", 1), ("interleaved", 2), ("interleaved", 4), ("zb-h1", 1)):
        passes = pipeline.orders(name, stages, micro_batches, chunks if chunks > 1 else None)
        split = name == "zb-h1"
        makespan = pipeline.run(passes, 1.0, 1.0 if split else 2.0, 1.0 if split else None).makespan
        rows.append(
            {
                "what": name,
                "stages": stages,
                "micro_batches": micro_batches,
                "chunks": chunks,
                "seconds": makespan,
                "bubbles": 1 - 3 * micro_batches / makespan,
                "activations": max(pipeline.peak_activations(passes)),
            }
        )
    return rows


def cut(problem: PipelineProblem) -> dict[str, Any]:
    """One row: the max-load and time of every method on a problem."""
    row: dict[str, Any] = {"what": problem.name, "operators": problem.num_operators, "devices": problem.num_devices}
    for name, partition in PARTITIONERS.items():
        begin = time.perf_counter()
        try:
            row[name] = problem.max_load(partition(problem))
        except HetgymError as error:
            row[name], row[f"{name}_error"] = None, str(error)
        row[f"{name}_seconds"] = time.perf_counter() - begin
    try:
        row["pipedream"] = pipedream(problem).seconds
    except HetgymError as error:
        row["pipedream"], row["pipedream_error"] = None, str(error)
    optimum = OPTIMA.get(problem.name)
    row["published"] = None if optimum is None else optimum * 1e-3
    return row


def relative(row: dict[str, Any], name: str) -> str:
    """A method's load over the optimal one."""
    return "-" if row[name] is None or not row["downset-dp"] else f"{row[name] / row['downset-dp']:.3f} x"


def as_published(row: dict[str, Any]) -> str:
    """``equal`` if the optimum is the published one, else the published one; a dash if either is unknown."""
    if row["published"] is None or row["downset-dp"] is None:
        return "-"
    return "equal" if abs(row["downset-dp"] - row["published"]) < 1e-9 else f"{row['published'] * 1e3:.4f} ms"


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("data", type=Path, nargs="?", help="folder that holds the files")
    parser.add_argument("--skip", nargs="*", default=[], help="names to leave out")
    options = parser.parse_args()
    rows = [row for size in ((4, 8), (8, 16)) for row in schedules(*size)]
    show(
        "Pipeline schedules",
        rows,
        {
            "what": lambda row: row["what"],
            "p": lambda row: str(row["stages"]),
            "m": lambda row: str(row["micro_batches"]),
            "v": lambda row: str(row["chunks"]),
            "makespan": lambda row: f"{row['seconds']:g}",
            "bubbles": lambda row: f"{row['bubbles']:.1%}",
            "activations": lambda row: f"{row['activations']:g}",
        },
    )
    if options.data is not None:
        files = sorted(file for file in options.data.rglob("*.json*") if file.parent.name == "throughput")
        problems = [problem for problem in map(pipeline.load, files) if problem.name not in options.skip]
        if problems:
            cut(problems[0])  # compiles
        cuts = [cut(problem) for problem in problems]
        show(
            "Max-load of a pipeline",
            cuts,
            {
                "what": lambda row: row["what"],
                "n": lambda row: str(row["operators"]),
                "equal cut": lambda row: relative(row, "equal-cut"),
                "one order": lambda row: relative(row, "contiguous-dp"),
                "optimal": lambda row: f"{row['downset-dp'] * 1e3:.4f} ms" if row["downset-dp"] else "-",
                "known": as_published,
                "took": lambda row: seconds(row["downset-dp_seconds"]),
            },
        )
        rows += cuts
    save(options.json, "pipeline", rows)


if __name__ == "__main__":
    main()
