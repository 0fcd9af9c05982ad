"""Gains of time slices over a sequence of tasks, for recurrent networks on a CPU beside a GPU.

    python studies/rnn/rnn_study.py --json studies/rnn/rnn_study.json --markdown tables.md
    python studies/rnn/rnn_study.py --quick    # seconds

Everything is simulated: problems are those of the suite ``rnn-study``, stacked LSTMs on the platform ``even-pair``
whose GPU is scaled by r in arithmetic and by min(r, 3) in memory bandwidth; the roofline prices cells. A step of all
layers takes tau on a device, a slice of k steps k tau and the time to start it; the state that is handed on is h
and c of all layers. With rho the ratio of the slower to the faster tau, the gain of many tasks over the faster
device tends to 1 / rho: that is the law. Methods, for N tasks of one network that follow each other:

* *one device*: all of them on the faster one;
* *slices*: ``time_slices``, as many tasks in flight as the devices take, and *limited*: as many as there are slices;
* *wavefront*: ``wavefront``, layers cut between the devices, chunks of steps, tasks right behind each other. The
  bytes of a chunk's outputs are not charged, which favours it;
* *layer pipeline*: the same with one chunk a task;
* *whole tasks*: nothing is cut, each device gets some of the tasks, in the best numbers;
* *HEFT*, *CPGC*: the graph of all cells of a few tasks, scheduled cell by cell without any time to start a slice.

Every plan's time is that of ``hetgym.simulate`` on the plan. A gain is T_base / T - 1; tables of means also have
1 - T / T_base.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hetgym import Problem, simulate
from hetgym.baselines import get
from hetgym.baselines.pipeline import time_slices, wavefront
from hetgym.pipeline import FlowShop
from hetgym.workloads import load_suite

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, show  # noqa: E402

Row = dict[str, Any]

TASKS = (1, 2, 4, 8, 16, 64)
MANY = 4096
"""Tasks of the limit."""

OVERHEAD = (20e-6, 40e-6)  # [s] to start a slice on the CPU and on the GPU
UNROLLED = 4
"""Tasks whose graphs are scheduled cell by cell, in networks of 256 cells at most."""


@dataclass(frozen=True)
class Network:
    """Times of a stacked LSTM on a pair of devices, as plans need them: [layers, d] and [d, d] seconds."""

    steps: int
    layer_seconds: np.ndarray
    handing_on: np.ndarray
    sending_up: np.ndarray

    @property
    def step_seconds(self) -> np.ndarray:
        """[d] one step of all layers."""
        return np.asarray(self.layer_seconds.sum(axis=0))

    @property
    def rho(self) -> float:
        """A step on the slower device over one on the faster."""
        return float(self.step_seconds.max() / self.step_seconds.min())


def network(problem: Problem) -> Network:
    """Extract the times from a problem whose operators are cells."""
    cells = [tuple(map(int, re.findall(r"\d+", name))) for name in problem.operator_names]
    layers, steps = (1 + max(cell[k] for cell in cells) for k in (0, 1))
    of = {cell: i for i, cell in enumerate(cells)}
    sizes = {
        (cells[a], cells[b]): float(payload)
        for a, b, payload in zip(problem.edge_source, problem.edge_target, problem.edge_bytes, strict=True)
    }
    state = sum(size for (a, b), size in sizes.items() if a[1] == 0 and b[1] == 1)
    return Network(
        steps,
        problem.cost[[of[layer, 0] for layer in range(layers)]],
        np.where(np.eye(problem.num_devices) > 0, 0.0, problem.latency + state / problem.bandwidth),
        problem.latency,
    )


def together(problem: Problem, tasks: int) -> Problem:
    """Several tasks as one problem, the first task's operators first."""
    n = problem.num_operators
    triples = list(
        zip(problem.edge_source.tolist(), problem.edge_target.tolist(), problem.edge_bytes.tolist(), strict=True)
    )
    edges = [(a + k * n, b + k * n, size) for k in range(tasks) for a, b, size in triples]
    tensors = [int(t) + k * n * n for k in range(tasks) for t in problem.edge_tensor]
    return Problem.from_arrays(
        np.tile(problem.cost, (tasks, 1)), edges, problem.latency, problem.bandwidth, tensors=tensors
    )


def run(plan: FlowShop) -> float:
    """Makespan of a plan in the simulator [s]."""
    return simulate(*plan.unroll()).makespan


def per_task(net: Network) -> np.ndarray:
    """[d] a whole task on each device [s]."""
    return np.asarray(net.steps * net.step_seconds + np.array(OVERHEAD))


def alone(net: Network, tasks: int) -> float:
    """Time of all tasks on the faster device [s]."""
    return float(tasks * per_task(net).min())


def whole_tasks(net: Network, tasks: int) -> float:
    """Time if each task runs wholly on one device, with the best number of tasks on each [s]."""
    first, second = per_task(net)
    return float(min(max(k * first, (tasks - k) * second) for k in range(tasks + 1)))


def latency(plan: FlowShop) -> float:
    """Time of one task from the start of its first slice to the end of its last, without waiting [s]."""
    return float(plan.seconds[0].sum() + sum(plan.moves))


def gain(base: float, ours: float) -> float:
    """Per cent."""
    return 100 * (base / ours - 1)


def measure(problem: Problem, name: str, counts: tuple[int, ...]) -> list[Row]:
    """A row for each number of tasks."""
    net = network(problem)
    sizes = {key: int(value) for key, value in re.findall(r"(layers|steps|hidden|batch)=(\d+)", name)}
    ratio = float(name.rpartition("=")[2])
    step, move, up = net.step_seconds, net.handing_on, net.sending_up
    endless = time_slices(net.steps, step, MANY, OVERHEAD, move)
    limit = gain(alone(net, MANY), endless.makespan)
    rows = []
    for tasks in counts:
        free = time_slices(net.steps, step, tasks, OVERHEAD, move)
        few = time_slices(net.steps, step, tasks, OVERHEAD, move, in_flight="slices")
        front, chunk = wavefront(net.steps, net.layer_seconds, OVERHEAD, up, tasks=tasks)
        row: Row = {
            **sizes,
            "r": ratio,
            "rho": net.rho,
            "law": 100 / net.rho,
            "limit": limit,
            "tasks": tasks,
            "one device": alone(net, tasks),
            "slices": run(free),
            "limited": run(few),
            "wavefront": run(front),
            "layer pipeline": layer_pipeline(net, tasks),
            "whole tasks": whole_tasks(net, tasks),
            "slowest task": {"slices": latency(free), "whole tasks": float(per_task(net).max())},
            "parts": list(free.parts),
            "chunk": chunk,
            "heft": None,
            "cpgc": None,
        }
        if tasks == UNROLLED and problem.num_operators <= 256:
            whole = together(problem, tasks)
            row |= {key: get(key)(whole).makespan for key in ("heft", "cpgc")}
        rows.append(row)
    return rows


def layer_pipeline(net: Network, tasks: int) -> float:
    """Layers cut between the devices, all steps of a task in one chunk, or one device if that is faster [s]."""
    whole_task = np.asarray(net.layer_seconds) * net.steps
    plan, _ = wavefront(1, whole_task, OVERHEAD, net.sending_up, tasks=tasks)
    return run(plan)


COLUMNS: dict[str, Callable[[Row], str]] = {
    **{key: lambda row, key=key: f"{row[key]:g}" for key in ("layers", "steps", "hidden", "batch", "r", "tasks")},
    "rho": lambda row: f"{row['rho']:.2f}",
    "slices": lambda row: f"{gain(row['one device'], row['slices']):.1f}",
    "limited": lambda row: f"{gain(row['one device'], row['limited']):.1f}",
    "wavefront": lambda row: f"{gain(row['one device'], row['wavefront']):.1f}",
    "whole tasks": lambda row: f"{gain(row['one device'], row['whole tasks']):.1f}",
    "limit": lambda row: f"{row['limit']:.1f}",
    "1 / rho": lambda row: f"{row['law']:.1f}",
}  # type: ignore[dict-item]


def law(rho: float, tasks: int) -> float:
    """Gain of N tasks in equal slices without overheads, (N / rho - 1) / (N + 1), which tends to 1 / rho [%]."""
    return max(0.0, 100 * (tasks / rho - 1) / (tasks + 1))


METHODS = ("slices", "limited", "wavefront", "layer pipeline", "whole tasks")
CENTRE = {"layers": 4, "steps": 64, "hidden": 512, "batch": 16}


def table(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in rows)


def mean_gain(rows: list[Row], base: str, ours: str) -> str:
    """Mean and median of T_base / T - 1, and the mean of 1 - T / T_base."""
    ratio = np.array([row[base] / row[ours] for row in rows])
    values = (ratio.mean() - 1, np.median(ratio) - 1, 1 - (1 / ratio).mean())
    return " / ".join(f"{round(100 * float(value), 1) + 0.0:.1f}" for value in values)


def markdown(rows: list[Row]) -> str:
    """Tables for a page."""
    tasks, ratios = (sorted({row[key] for row in rows}) for key in ("tasks", "r"))
    most = [row for row in rows if row["tasks"] == tasks[-1]]
    networks: dict[tuple[int, ...], list[Row]] = {}
    for row in most:
        networks.setdefault(tuple(row[key] for key in CENTRE), []).append(row)
    lines = []
    for key, own in networks.items():
        varied = [f"{what} {size}" for (what, usual), size in zip(CENTRE.items(), key, strict=True) if size != usual]
        cells = [f"{row['rho']:.2f}: {row['limit']:.1f} ({row['law']:.1f})" for row in own]
        lines.append([", ".join(varied) or "unvaried", *cells])
    heads = [f"r = {r:g}" for r in ratios]
    tables = [table(["rho: limit of the gain (1 / rho)", *heads], lines)]
    tables.append(
        table(
            ["over one device: mean / median / mean by 1 - T / T_base", *(f"N = {n}" for n in tasks)],
            [
                [method, *(mean_gain([row for row in rows if row["tasks"] == n], "one device", method) for n in tasks)]
                for method in METHODS
            ],
        )
    )
    tables.append(
        table(
            ["slices over", *(f"N = {n}" for n in tasks)],
            [
                [method, *(mean_gain([row for row in rows if row["tasks"] == n], method, "slices") for n in tasks)]
                for method in METHODS[1:]
            ],
        )
    )
    lines = []
    for axis in CENTRE:
        for size in sorted({row[axis] for row in most}):
            own = [
                row for row in most if row[axis] == size and all(row[k] == v for k, v in CENTRE.items() if k != axis)
            ]
            pairs = (("one device", "slices"), ("wavefront", "slices"), ("layer pipeline", "slices"))
            lines.append([f"{axis} {size}", *(mean_gain(own, *pair) for pair in pairs if own)])
    tables.append(
        table([f"N = {tasks[-1]}", "over one device", "over the wavefront", "over the layer pipeline"], lines)
    )
    lines = []
    for row in rows:
        if row["cpgc"] is not None and all(row[key] == size for key, size in CENTRE.items()):
            found = [
                gain(row["one device"], row[key]) for key in ("slices", "wavefront", "whole tasks", "heft", "cpgc")
            ]
            lines.append([f"{row['r']:g}", *(f"{value:.1f}" for value in found)])
    tables.append(table([f"r, N = {UNROLLED}", "slices", "wavefront", "whole tasks", "HEFT", "CPGC"], lines))
    lines = []
    for row in most:
        if all(row[key] == size for key, size in CENTRE.items()):
            once = row["one device"] / row["tasks"]
            lines.append([f"{row['r']:g}", *(f"{row['slowest task'][key] / once:.2f}" for key in row["slowest task"])])
    tables.append(table(["r", "a task's time over one device's: slices", "whole tasks, on the slower device"], lines))
    return "\n".join(tables)


def agreement(rows: list[Row]) -> str:
    """Deviations of the gains from the law, relative to it."""
    most = max(row["tasks"] for row in rows)
    limits = [row["limit"] / row["law"] - 1 for row in rows if row["tasks"] == most]
    text = [
        f"limit against 1 / rho: {sum(abs(x) <= 0.1 for x in limits)} of {len(limits)} within 10 %, worst "
        f"{100 * max(limits, key=abs):+.1f} %, median {100 * float(np.median(limits)):+.1f} %"
    ]
    for n in sorted({row["tasks"] for row in rows} - {1}):
        chosen = [row for row in rows if row["tasks"] == n and law(row["rho"], n) > 0]
        off = [gain(row["one device"], row["slices"]) / law(row["rho"], n) - 1 for row in chosen]
        if off:
            points = [gain(row["one device"], row["slices"]) - law(row["rho"], n) for row in chosen]
            text.append(
                f"N = {n} against (N / rho - 1) / (N + 1): {sum(abs(x) <= 0.1 for x in off)} of {len(off)} "
                f"within 10 %, worst {max(points, key=abs):+.1f} points"
            )
    return "\n".join(text)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--suite", default="rnn-study")
    parser.add_argument("--quick", action="store_true", help="the usual size at r = 2 and 10, up to 8 tasks")
    parser.add_argument("--markdown", type=Path, help="file for the tables")
    options = parser.parse_args()
    specs, counts = load_suite(options.suite).specs, TASKS
    if options.quick:
        usual = re.compile(r".*layers=4-steps=64-hidden=512-batch=16-.*=(2|10)")
        specs, counts = tuple(spec for spec in specs if usual.fullmatch(spec.name)), (1, 2, 4, 8)
    rows = [row for spec in specs for row in measure(spec.build(), spec.name, counts)]
    shown = [row for row in rows if row["tasks"] == max(counts)]
    show("Simulated gains over the better device in per cent, T_base / T - 1", shown, COLUMNS)
    print(agreement(rows))
    save(options.json, "rnn_study", rows)
    if options.markdown is not None:
        options.markdown.write_text(markdown(rows))


if __name__ == "__main__":
    main()
