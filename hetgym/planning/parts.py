"""Parts: sets of operators that stay together on one device, the basis of the partition schedulers."""

import math
from collections import defaultdict

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.graph import topology
from hetgym.planning.decode import decode_placement
from hetgym.problem import Problem, Routes
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def structure(problem: Problem) -> tuple[BoolArray, BoolArray, BoolArray]:
    """[n] each: the operators that are forks, those that are joins, and those on the trunk."""
    n = problem.num_operators
    pairs = np.unique(np.stack([problem.edge_source, problem.edge_target], axis=1), axis=0)
    fork = np.bincount(pairs[:, 0], minlength=n) > 1
    join = np.bincount(pairs[:, 1], minlength=n) > 1
    return fork, join, topology.on_trunk(problem.topological_order, problem.edge_source, problem.edge_target)


def numbered(problem: Problem, part: npt.ArrayLike) -> IntArray:
    """[n] the same parts, numbered from 0 in the topological order of their first operators."""
    names = np.asarray(part)
    number: dict[int, int] = {}
    for i in problem.topological_order.tolist():
        number.setdefault(int(names[i]), len(number))
    return np.array([number[int(name)] for name in names], np.int32)


def part_costs(problem: Problem, part: IntArray) -> FloatArray:
    """[m, d] summed run times [s], rounded once, so that they do not depend on the numbers of operators."""
    rows: list[list[int]] = [[] for _ in range(int(part.max()) + 1)]
    for i, p in enumerate(part.tolist()):
        rows[p].append(i)
    return np.array([[math.fsum(column) for column in problem.cost[row].T.tolist()] for row in rows])


def dissolve(problem: Problem, part: IntArray) -> IntArray:
    """[n] the parts, but those that no single device can run as operators of their own."""
    nowhere = ~np.isfinite(part_costs(problem, part)).any(axis=1)
    alone = np.asarray(nowhere)[part]
    return numbered(problem, np.where(alone, part.max() + 1 + np.arange(len(part)), part))


def quotient(problem: Problem, part: IntArray) -> Problem:
    """The problem of placing whole parts.

    A part costs what its operators cost together; an edge carries all tensors that go from one part to the other, each
    once. Devices, links and routes are those of the problem.

    Args:
        part: [n] the part of each operator, from 0; no cycle among parts.

    Raises:
        ProblemError: the parts form a cycle, or no device can run all of one.
    """
    source, target = part[problem.edge_source], part[problem.edge_target]
    carried: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
    for k in np.flatnonzero(source != target).tolist():
        tensors = carried[int(source[k]), int(target[k])]
        tensor = int(problem.edge_tensor[k])
        tensors[tensor] = max(tensors.get(tensor, 0.0), float(problem.edge_bytes[k]))
    parts = Problem.from_arrays(
        part_costs(problem, part),
        [(a, b, math.fsum(tensors.values())) for (a, b), tensors in carried.items()],
        problem.latency,
        problem.bandwidth,
        device_names=problem.device_names,
        name=f"parts of {problem.name}",
    )
    routes = Routes(problem.route_pointer, problem.route_link, problem.link_bandwidth)
    return parts.replace(routes=routes, asynchronous=problem.asynchronous)


def expand(problem: Problem, part: IntArray, assignment: IntArray, runtime: str | Runtime = "classic") -> Schedule:
    """Run every operator on its part's device, in the order of the placement's own bottom levels.

    Args:
        part, assignment: [n] the part of each operator, and [m] the device of each part.

    Raises:
        OutOfMemory: the runtime enforces capacities, and no plan that fits was found.
    """
    return decode_placement(problem, assignment[part], "bottom-level", runtime)
