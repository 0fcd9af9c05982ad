"""Simulator throughput: operators a second against problem size, and against the plain-Python oracle.

    python benchmarks/simulator.py --json simulator.json

``simulate`` includes validating the schedule and building the trace; ``evaluate`` decodes placements
by insertion, 16 in a call, and in every runtime but classic runs each decoded order. The ratio is the
oracle's time over the kernel's on the same schedule, in the same run.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from _common import SIZES, median_seconds, random_problem, save, seconds, show

import hetgym
from hetgym.sim import PRESETS
from hetgym.sim.run import new_workspace, run, setting
from hetgym.sim.runtime import runtime as as_runtime
from hetgym.sim.simulation import flat_order

BATCH = 16
ORACLE_LIMIT = 100  # operators; beyond it the oracle takes minutes


def measure(operators: int, devices: int) -> list[dict[str, Any]]:
    """One row for each runtime and way to simulate."""
    import oracle_runtime

    problem = random_problem(operators, devices)
    schedule = hetgym.baselines.get("heft")(problem)
    assert schedule.order is not None
    placements = np.random.default_rng(1).integers(0, devices, (BATCH, operators))
    order, pointer = flat_order(schedule.order)
    one = [array[None] for array in (schedule.assignment.copy(), order, pointer, np.zeros(operators))]
    rows = []
    for runtime in PRESETS:
        how = setting(problem, as_runtime(runtime))
        space = new_workspace(problem.arrays, how)
        times = {
            "kernel": median_seconds(lambda how=how, space=space: run(problem.arrays, space, *one, how)),
            "simulate": median_seconds(lambda runtime=runtime: hetgym.simulate(problem, schedule, runtime)),
            "evaluate": median_seconds(lambda runtime=runtime: hetgym.evaluate(problem, placements, runtime)) / BATCH,
        }
        slow = None
        if operators <= ORACLE_LIMIT:
            lists = [row.tolist() for row in schedule.order]
            slow = median_seconds(
                lambda lists=lists, runtime=runtime: oracle_runtime.simulate(
                    problem, schedule.assignment.tolist(), lists, runtime=as_runtime(runtime)
                ),
                repeats=1,
            )
        for what, time in times.items():
            rows.append({
                "operators": operators, "devices": devices, "runtime": runtime, "what": what, "seconds": time,
                "operators_per_second": operators / time,
                "oracle_ratio": slow / time if slow is not None and what != "evaluate" else None,
            })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of operators")
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--json", type=Path, help="file for the numbers")
    options = parser.parse_args()
    rows = [row for size in options.sizes for row in measure(size, options.devices)]
    show(f"Simulating on {options.devices} devices", rows, {
        "operators": lambda row: f"{row['operators']:,}",
        "runtime": lambda row: row["runtime"],
        "what": lambda row: row["what"],
        "a schedule": lambda row: seconds(row["seconds"]),
        "operators/s": lambda row: f"{row['operators_per_second'] / 1e6:.2f} M",
        "times the oracle": lambda row: "-" if row["oracle_ratio"] is None else f"{row['oracle_ratio']:,.0f} x",
    })  # fmt: skip
    save(options.json, "simulator", rows)


if __name__ == "__main__":
    main()
