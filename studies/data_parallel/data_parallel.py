"""Data-parallel training of real models in simulation: step time, scaling and the share of communication.

    python studies/data_parallel/data_parallel.py --json studies/data_parallel/data_parallel.json

Every GPU trains on a batch of its own (weak scaling), so the efficiency is the step on one GPU over the step on
k. Communication is its share of the critical chain: transfers, and waiting for links. Two machines: eight A100
behind NVSwitch, and two nodes with two V100 each, on PCIe, joined by InfiniBand. ``one bucket`` reduces all
gradients after backward, as without overlap. Nothing is measured on GPUs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hetgym import Platform, Problem, Runtime, Schedule, load_graph, load_platform, simulate
from hetgym.graph import DataflowGraph
from hetgym.graph.transforms import BUCKET_BYTES, data_parallel, training

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, seconds, show  # noqa: E402

MODELS = {"resnet50": 32, "vgg19": 32, "inception_v1": 32, "bert_base": 8, "gpt2": 8, "vit_b16": 32}
"""Model -> batch on each GPU."""

MACHINES = {
    "8gpu-node": ([f"gpu{r}" for r in range(8)], (2, 4, 8)),
    "two-level-cluster": ([f"node{n}-gpu{g}" for n in (0, 1) for g in (0, 1)], (2, 4)),
}
"""Platform -> GPUs in the order of the ring, and how many take part."""

VARIANTS = {"ring": ("ring", BUCKET_BYTES), "tree": ("tree", BUCKET_BYTES), "one bucket": ("ring", float("inf"))}
"""Variant -> algorithm, and bytes of a bucket."""

RUNTIME = Runtime(communication="fifo", streams=2, memory="track")
"""Links carry one transfer at a time; a second stream, on which collectives run beside backward."""


def step(graph: DataflowGraph, platform: Platform, gpus: list[str], algorithm: str, bucket: float) -> dict[str, Any]:
    """One row: a step on some GPUs."""
    made = data_parallel(graph, len(gpus), algorithm, bucket)
    problem = Problem.build(made.graph, platform)
    devices = [platform.index(name) for name in gpus]
    trace = simulate(problem, Schedule(made.assignment(devices), priority=made.priority), RUNTIME)
    shares = trace.blame.shares
    return {
        "machine": platform.name,
        "gpus": len(gpus),
        "algorithm": algorithm,
        "buckets": len(made.buckets),
        "gradient_bytes": sum(made.buckets),
        "seconds": trace.makespan,
        "operators": len(made.graph),
        "communication": shares["transfer"] + shares["link wait"],
        "peak_bytes": float(trace.memory.peak.max()),
    }


def rows_of(model: str, batch: int, machine: str) -> list[dict[str, Any]]:
    """All rows of a model on a machine."""
    platform, graph = load_platform(machine), training(load_graph(model, batch=batch))
    names, counts = MACHINES[machine]
    alone = step(graph, platform, names[:1], "ring", BUCKET_BYTES)
    rows = [alone | {"algorithm": "-", "variant": "-"}]
    for k in counts:
        for variant, (algorithm, bucket) in VARIANTS.items():
            rows.append(step(graph, platform, names[:k], algorithm, bucket) | {"variant": variant})
    for row in rows:
        row |= {"what": model, "batch": batch, "efficiency": alone["seconds"] / row["seconds"]}
    return rows


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS), help="which to train")
    options = parser.parse_args()
    rows = [row for machine in MACHINES for model in options.models for row in rows_of(model, MODELS[model], machine)]
    for machine in MACHINES:
        lines = table([row for row in rows if row["machine"] == machine])
        show(f"steps on {machine}", lines, {name: (lambda line, name=name: line[name]) for name in lines[0]})
    longer = [{"machine": machine, "one bucket over the ring": without_overlap(rows, machine)} for machine in MACHINES]
    show("without overlap", longer, {name: (lambda line, name=name: line[name]) for name in longer[0]})
    save(options.json, "data_parallel", rows)


def table(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Step, efficiency and share of communication, a line for each model and number of GPUs."""
    lines: dict[str, dict[str, str]] = {}
    for row in rows:
        name = f"{row['what']} x{row['batch']}, {row['gpus']} GPU{'s' if row['gpus'] > 1 else ''}"
        line = lines.setdefault(name, {"model, batch of a GPU": name, "one GPU": "–"} | dict.fromkeys(VARIANTS, "–"))
        if row["gpus"] == 1:
            line["one GPU"] = seconds(row["seconds"])
        else:
            shares = f"{100 * row['efficiency']:.0f} %, {100 * row['communication']:.0f} %"
            line[row["variant"]] = f"{seconds(row['seconds'])}, {shares}"
    return list(lines.values())


def without_overlap(rows: list[dict[str, Any]], machine: str) -> str:
    """The range by which a step with one bucket is longer than that of the ring on a machine."""
    steps = {
        (row["what"], row["gpus"], row["variant"]): row["seconds"]
        for row in rows
        if row["machine"] == machine and row["gpus"] > 1
    }
    extra = [time / steps[m, k, "ring"] - 1 for (m, k, variant), time in steps.items() if variant == "one bucket"]
    return f"{100 * min(extra):.0f} to {100 * max(extra):.0f} % longer"


if __name__ == "__main__":
    main()
