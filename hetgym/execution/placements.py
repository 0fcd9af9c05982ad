"""Placements on which predictions are tested; none of them is used for calibration."""

from collections.abc import Iterator

import numpy as np

from hetgym import baselines
from hetgym._types import IntArray
from hetgym.execution.calibration import calibration_schedules, in_topological_order
from hetgym.graph.dataflow import DataflowGraph
from hetgym.problem import Problem
from hetgym.schedule import Schedule

SHARES = (0.5, 0.15, 0.85, 0.3, 0.7)
"""Shares of the operators that random placements assign to devices other than the first."""

BLOCKS = (2, 3, 4, 8, 16, 32)
"""Numbers of blocks that the topological order is cut into, which are assigned to the devices in turn."""

SCHEDULERS = ("heft", "peft", "cpop", "donf", "etf", "mct", "sufferage", "graham")
"""Baselines whose schedules are among the placements."""


def held_out_placements(graph: DataflowGraph, problem: Problem, count: int, rng: np.random.Generator) -> list[Schedule]:
    """Different placements of several sorts: schedules of baselines, blocks, separated families, and random ones.

    There are ``count``, or fewer if there are not enough different ones. No two have the same assignment, and none
    has that of a calibration run. The baselines schedule ``problem``, the graph's with costs.
    """
    taken = {tuple(schedule.assignment.tolist()) for schedule in calibration_schedules(graph, problem.num_devices)}
    found: list[Schedule] = []
    kinds = (
        _scheduled(problem),
        _random(graph, problem.num_devices, rng),
        _blocks(graph, problem.num_devices),
        _by_kind(graph, problem.num_devices),
    )
    sources = [iter(kind) for kind in kinds]
    while sources and len(found) < count:
        for source in list(sources):
            schedule = next(source, None)
            if schedule is None:
                sources.remove(source)
                continue
            key = tuple(schedule.assignment.tolist())
            if key not in taken and len(found) < count:
                taken.add(key)
                found.append(schedule)
    return found


def _scheduled(problem: Problem) -> Iterator[Schedule]:
    for name in SCHEDULERS:
        yield baselines.get(name)(problem)


def _blocks(graph: DataflowGraph, devices: int) -> Iterator[Schedule]:
    n = len(graph)
    for blocks in BLOCKS:
        for first in range(devices):
            if devices < 2 or blocks > n // 2:
                continue
            assignment = np.empty(n, np.int32)
            assignment[graph.topological_order] = (np.arange(n) * blocks // n + first) % devices
            yield in_topological_order(graph, assignment, devices, f"blocks-{blocks}-from-{first}")


def _by_kind(graph: DataflowGraph, devices: int) -> Iterator[Schedule]:
    """Heavy families of operators on one device, all others on another."""
    heavy = np.array([op.spec.family in ("conv", "matmul", "recurrent") for op in graph.operators])
    for first in range(devices):
        if devices > 1:
            assignment = np.where(heavy, first, (first + 1) % devices)
            yield in_topological_order(graph, assignment, devices, f"heavy-on-{first}")


def _random(graph: DataflowGraph, devices: int, rng: np.random.Generator) -> Iterator[Schedule]:
    for attempt in range(100):
        share = SHARES[attempt % len(SHARES)]
        assignment: IntArray = np.zeros(len(graph), np.int32)
        away = rng.random(len(graph)) < share
        if devices > 1:
            assignment[away] = rng.integers(1, devices, int(away.sum()))
        yield in_topological_order(graph, assignment, devices, f"random-{attempt}-{share:g}")
