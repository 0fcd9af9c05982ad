"""Simulator throughput: operators a second against problem size, and against the plain-Python oracle.

    python benchmarks/simulator.py --json simulator.json

``kernel`` runs one schedule after the other, ``simulate`` validates one and builds its trace;
``schedules`` has ``evaluate`` check and run as many as come to a million operators, all different, on one
thread, and ``placements`` as many placements that are decoded by insertion first. The last
column is the speed-up of that by a thread on every core. Placements are HEFT's with one operator in
twenty moved at random. The ratio is the oracle's time over that of ``simulate`` on HEFT's schedule,
in the same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from _common import SIZES, command_line, median_seconds, random_problem, save, seconds, show

import hetgym
from hetgym import Problem
from hetgym.planning import decode_placement
from hetgym.sim import PRESETS
from hetgym.sim.run import new_workspace, run, setting
from hetgym.sim.runtime import runtime as as_runtime
from hetgym.sim.simulation import dispatch_order

OPERATORS = 1_000_000  # in a batch
ORACLE_LIMIT = 100  # operators; beyond it the oracle takes minutes


def measure(operators: int, devices: int, runtimes: Sequence[str]) -> list[dict[str, Any]]:
    """One row for each runtime and way to simulate."""
    import oracle_runtime

    problem = random_problem(operators, devices)
    schedule = hetgym.baselines.get("heft")(problem)
    assert schedule.order is not None
    batch = max(2, OPERATORS // operators)
    rng = np.random.default_rng(1)
    moved = rng.random((batch, operators)) < 0.05
    placements = np.where(moved, rng.integers(0, devices, moved.shape), schedule.assignment)
    schedules = [decode_placement(problem, placement) for placement in placements]
    plans = [np.stack(column) for column in zip(*(rows_of(problem, plan) for plan in schedules), strict=True)]
    rows = []
    for runtime in runtimes:
        how = setting(problem, as_runtime(runtime))
        space = new_workspace(problem.arrays, how)
        slow = None
        if operators <= ORACLE_LIMIT:
            lists = [row.tolist() for row in schedule.order]
            slow = median_seconds(
                lambda lists=lists, runtime=runtime: oracle_runtime.simulate(
                    problem, schedule.assignment.tolist(), lists, runtime=as_runtime(runtime)
                ),
                repeats=1,
            )
        kernel = median_seconds(lambda how=how, space=space: run(problem.arrays, space, *plans, how)) / batch
        rows.append(_row(operators, devices, runtime, "kernel", kernel))
        alone = median_seconds(lambda runtime=runtime: hetgym.simulate(problem, schedule, runtime))
        rows.append(_row(operators, devices, runtime, "simulate", alone, oracle=slow and slow / alone))
        for what, candidates in (("schedules", schedules), ("placements", placements)):
            one, all_ = (
                median_seconds(
                    lambda candidates=candidates, runtime=runtime, threads=threads: hetgym.evaluate(
                        problem, candidates, runtime, threads=threads
                    )
                )
                for threads in (1, None)
            )
            rows.append(_row(operators, devices, runtime, what, one / batch, threads=one / all_))
    return rows


def rows_of(problem: Problem, schedule: hetgym.Schedule) -> tuple[np.ndarray, ...]:
    """The arrays of a schedule that the kernel takes."""
    return (schedule.assignment, *dispatch_order(problem, schedule))


def _row(
    operators: int,
    devices: int,
    runtime: str,
    what: str,
    time: float,
    oracle: float | None = None,
    threads: float | None = None,
) -> dict[str, Any]:
    return {
        "operators": operators,
        "devices": devices,
        "runtime": runtime,
        "what": what,
        "seconds": time,
        "operators_per_second": operators / time,
        "oracle_ratio": oracle,
        "threads_ratio": threads,
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of operators")
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--runtimes", nargs="+", default=list(PRESETS), choices=list(PRESETS))
    options = parser.parse_args()
    rows = [row for size in options.sizes for row in measure(size, options.devices, options.runtimes)]
    show(
        f"Simulating on {options.devices} devices",
        rows,
        {
            "operators": lambda row: f"{row['operators']:,}",
            "runtime": lambda row: row["runtime"],
            "what": lambda row: row["what"],
            "a schedule": lambda row: seconds(row["seconds"]),
            "operators/s": lambda row: f"{row['operators_per_second'] / 1e6:.2f} M",
            "times the oracle": lambda row: "-" if row["oracle_ratio"] is None else f"{row['oracle_ratio']:,.0f} x",
            "by all cores": lambda row: "-" if row["threads_ratio"] is None else f"{row['threads_ratio']:.2f} x",
        },
    )
    save(options.json, "simulator", rows)


if __name__ == "__main__":
    main()
