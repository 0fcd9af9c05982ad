"""Add your own scheduler to the benchmark's table: ``python examples/own_scheduler.py --suite zoo``."""

from __future__ import annotations

import argparse

import numpy as np

import hetgym
from hetgym.planning import decode_placement, register
from hetgym.workloads import load_suite


@register("mutation", kind="search", citation="this file", complexity="O(rounds width e p)")
def mutation(problem: hetgym.Problem, rounds: int = 40, width: int = 128, seed: int = 0) -> hetgym.Schedule:
    """Move a few operators to random devices, try many such placements at once, and keep the best.

    Args:
        problem: the problem to schedule.
        rounds: number of rounds.
        width: number of placements simulated in a round.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    n, d = problem.num_operators, problem.num_devices
    fastest = problem.cost.argmin(axis=1)
    starts = np.vstack(
        [fastest, np.tile(np.arange(d)[:, None], n)]
    )  # each operator on its fastest device, or all on one
    best, value = fastest, np.inf
    for _ in range(rounds):
        candidates = np.repeat(best[None], width, axis=0)
        moved = rng.random((width, n)) < 2 / n
        candidates[moved] = rng.integers(0, d, size=(width, n))[moved]
        candidates = np.vstack([starts, candidates])
        candidates = np.where(np.isfinite(problem.cost[np.arange(n), candidates]), candidates, fastest)
        makespans = hetgym.evaluate(problem, candidates)
        if makespans.min() < value:
            best, value = candidates[makespans.argmin()], makespans.min()
    return decode_placement(problem, best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="quick")
    parser.add_argument("--schedulers", default="mutation,heft,peft,cpgc,single-device")
    arguments = parser.parse_args()
    schedulers = [hetgym.baselines.get(name) for name in arguments.schedulers.split(",")]
    hetgym.bench.warm_up(schedulers, ["classic"])  # otherwise times to schedule would include compiling
    result = hetgym.bench.run(load_suite(arguments.suite).specs, schedulers, ["classic"])
    for line in hetgym.bench.summarise(result.rows):
        print(f"{line.scheduler:14}  gap to best {line.gap_to_best:7.2%}  time {1e3 * line.schedule_seconds:8.2f} ms")


if __name__ == "__main__":
    main()
