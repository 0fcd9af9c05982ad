"""Schedulers that SAGA has too: time and makespan on the same problems, in the same run.

    python -m venv saga-env && saga-env/bin/pip install anrg-saga
    python benchmarks/saga.py --peer-python saga-env/bin/python --json saga.json

SAGA (https://github.com/ANRGUSC/saga) is a plain-Python collection of schedulers on related machines: a
speed for each device, a strength for each link. The problems are of that form. It lives in an environment
of its own; calls alternate between the two, and medians are compared. ``peer's mean`` is hetgym's HEFT
with ranks whose mean transfer time includes, as in SAGA, the free transfer of a device to itself.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _common import command_line, save, seconds, show

import hetgym
from hetgym import Problem
from hetgym.planning import place_by_priority

PAIRS = {
    "heft": "heft:HeftScheduler",
    "cpop": "cpop:CpopScheduler",
    "mct": "mct:MCTScheduler",
    "met": "met:METScheduler",
    "olb": "olb:OLBScheduler",
    "min-min": "minmin:MinMinScheduler",
    "max-min": "maxmin:MaxMinScheduler",
    "sufferage": "sufferage:SufferageScheduler",
    "etf": "etf:ETFScheduler",
}


def related(operators: int, devices: int, seed: int) -> dict[str, Any]:
    """A graph with one entry and one exit on related machines, as plain numbers."""
    rng = np.random.default_rng(seed)
    target = np.repeat(np.arange(1, operators - 1), 3)
    source = np.maximum(0, target - rng.integers(1, 21, len(target)))
    pairs = {(int(i), int(j)) for i, j in zip(source, target, strict=True)}
    inner = {i for i, _ in pairs}
    pairs |= {(i, operators - 1) for i in range(operators - 1) if i not in inner}
    bandwidth = np.triu(rng.uniform(0.5, 2.0, (devices, devices)), 1)
    return {
        "work": rng.uniform(1.0, 10.0, operators).tolist(),
        "speeds": rng.uniform(1.0, 4.0, devices).tolist(),
        "bandwidth": (bandwidth + bandwidth.T + np.eye(devices)).tolist(),
        "edges": [(i, j, float(rng.uniform(0.5, 5.0))) for i, j in sorted(pairs)],
    }


def ours(given: dict[str, Any]) -> Problem:
    """The same problem for hetgym."""
    cost = np.array(given["work"])[:, None] / np.array(given["speeds"])
    return Problem.from_arrays(cost, given["edges"], bandwidth=given["bandwidth"])


def with_peers_mean(problem: Problem) -> float:
    """Makespan of HEFT whose mean transfer is over all unordered pairs of devices, equal ones included."""
    d = problem.num_devices
    transfer = problem.mean_communication * (d - 1) / (d + 1)
    rank = np.array(problem.mean_cost)
    for i in problem.topological_order[::-1]:
        after = np.flatnonzero(problem.edge_source == i)
        if len(after):
            rank[i] += (transfer[after] + rank[problem.edge_target[after]]).max()
    return place_by_priority(problem, rank).makespan


class Peer:
    """SAGA in another process, reached through a pipe."""

    def __init__(self, python: str, problems: Path) -> None:
        script = Path(__file__).with_name("saga_peer.py")
        self.process = subprocess.Popen(
            [python, str(script), str(problems)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )

    def __call__(self, problem: int, scheduler: str) -> tuple[float, float]:
        """Seconds and makespan of one call."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([problem, scheduler]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the peer ended while it ran {scheduler}; its message is above")
        taken, makespan = json.loads(answer)
        return taken, makespan


def compare(peer: Peer, number: int, problem: Problem, name: str, repeats: int) -> dict[str, Any]:
    """One row: both schedulers on one problem, in turns."""
    scheduler = hetgym.baselines.get(name)
    schedule = scheduler(problem)  # compiles
    mine, theirs = [], []
    makespan = 0.0
    for _ in range(repeats):
        begin = time.perf_counter()
        scheduler(problem)
        mine.append(time.perf_counter() - begin)
        taken, makespan = peer(number, PAIRS[name])
        theirs.append(taken)
        if sum(theirs) > 20.0:
            break
    return {
        "scheduler": name,
        "operators": problem.num_operators,
        "seconds": statistics.median(mine),
        "peer_seconds": statistics.median(theirs),
        "ratio": statistics.median(theirs) / statistics.median(mine),
        "runs": len(mine),
        "makespan": schedule.makespan,
        "peer_makespan": makespan,
        "makespan_with_peers_mean": with_peers_mean(problem) if name == "heft" else None,
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--peer-python", required=True, help="a Python that has anrg-saga installed")
    parser.add_argument("--sizes", type=int, nargs="+", default=(100, 300, 1_000), help="numbers of operators")
    parser.add_argument("--schedulers", nargs="+", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=60.0, help="skip what the peer would take longer for [s]")
    options = parser.parse_args()
    given = [related(size, options.devices, seed=size) for size in options.sizes]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "problems.json"
        file.write_text(json.dumps(given))
        peer = Peer(options.peer_python, file)
        for name in options.schedulers:
            last = 0.0
            for number, size in enumerate(options.sizes):
                growth = (size / options.sizes[number - 1]) ** 3 if number else 1.0
                if last * growth > options.limit:
                    break
                rows.append(compare(peer, number, ours(given[number]), name, options.repeats))
                last = rows[-1]["peer_seconds"]
        assert peer.process.stdin is not None
        peer.process.stdin.close()
        peer.process.wait()
    show(
        f"hetgym and SAGA on {options.devices} related machines",
        rows,
        {
            "scheduler": lambda row: row["scheduler"],
            "operators": lambda row: f"{row['operators']:,}",
            "hetgym": lambda row: seconds(row["seconds"]),
            "SAGA": lambda row: seconds(row["peer_seconds"]),
            "ratio": lambda row: f"{row['ratio']:,.0f} x",
            "makespan": lambda row: f"{row['makespan']:.6g}",
            "SAGA's": lambda row: f"{row['peer_makespan']:.6g}",
            "peer's mean": lambda row: (
                "-" if row["makespan_with_peers_mean"] is None else f"{row['makespan_with_peers_mean']:.6g}"
            ),
        },
    )
    save(options.json, "saga", rows)


if __name__ == "__main__":
    main()
