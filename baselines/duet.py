"""DUET: branches between the trunk's operators as subgraphs, placed greedily and then corrected."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from hetgym._types import FloatArray, IntArray
from hetgym.errors import ConfigError
from hetgym.planning.capacity import unlimited
from hetgym.planning.evaluation import evaluate
from hetgym.planning.list_scheduling import place_by_priority
from hetgym.planning.parts import dissolve, expand, numbered, quotient, structure
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime


def duet(problem: Problem, budget: int = 1_000_000, runtime: str | Runtime = "classic") -> Schedule:
    """Phases between trunk operators: the heaviest branch to its fastest device, the others where they finish first.

    Operators that follow each other on the trunk are one subgraph; so is each connected piece between two trunk
    operators. As long as that shortens the schedule, the best move of a subgraph, or swap of two of a phase, is made.

    Args:
        budget: largest number of subgraphs placed in trial schedules.
        runtime: the runtime that will run the schedule. If it enforces capacities, operators for whose weights the
            device of their subgraph has no room go where they finish first.

    Raises:
        ConfigError: a negative budget.
    """
    if budget < 0:
        raise ConfigError(f"duet: budget is {budget}; it must not be negative")
    part, phase = subgraphs(problem)
    parts, switches = quotient(problem, part), unlimited(runtime)
    assignment = _greedy(parts, phase, switches)
    _correct(parts, phase, assignment, budget // parts.num_operators, switches)
    return expand(problem, part, assignment, runtime)


def subgraphs(problem: Problem) -> tuple[IntArray, IntArray]:
    """[n] the subgraph of each operator and [m] the phase of each subgraph, numbered in topological order.

    Subgraphs that no single device can run are taken apart into operators.
    """
    n = problem.num_operators
    order = problem.topological_order.tolist()
    trunk = structure(problem)[2]
    phase = np.empty(n, np.int32)
    count, single = -1, False
    for k, i in enumerate(order):
        if k == 0 or trunk[i] != single:
            count, single = count + 1, bool(trunk[i])
        phase[i] = count
    root = list(range(n))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    for i, j in zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True):
        if phase[i] == phase[j]:
            root[find(i)] = find(j)
    part = dissolve(problem, numbered(problem, [find(i) for i in range(n)]))
    of_part = np.empty(int(part.max()) + 1, np.int32)
    of_part[part] = phase
    return part, of_part


def _weights(parts: Problem) -> FloatArray:
    return np.asarray(parts.cost.min(axis=1), np.float64)


def _greedy(parts: Problem, phase: IntArray, runtime: Runtime) -> IntArray:
    weight = _weights(parts)
    fixed = np.full(parts.num_operators, -1, np.int32)
    for number in np.unique(phase).tolist():
        branches = np.flatnonzero(phase == number)
        heaviest = branches[np.argmax(weight[branches])]
        if len(branches) > 1:
            fixed[heaviest] = parts.cost[heaviest].argmin()
    # Phase after phase, the heaviest first: less than 1 apart within a phase.
    scale = 2.0 * float(weight.max()) or 1.0
    priority = -phase.astype(np.float64) + weight / scale
    return place_by_priority(parts, priority, fixed=fixed, runtime=runtime).assignment.copy()


def _correct(parts: Problem, phase: IntArray, assignment: IntArray, trials: int, runtime: Runtime) -> None:
    """Improve a placement in place."""
    heaviest = np.lexsort((parts.arrays.position, -_weights(parts))).tolist()
    makespan = float(evaluate(parts, [assignment], runtime, "bottom-level")[0])
    while True:
        candidates = list(islice(_neighbours(parts, phase, assignment, heaviest), max(0, trials)))
        if not candidates:
            return
        trials -= len(candidates)
        results = evaluate(parts, np.array(candidates), runtime, "bottom-level")
        best = int(np.argmin(results))
        if not results[best] < makespan:
            return
        assignment[:] = candidates[best]
        makespan = float(results[best])


def _neighbours(parts: Problem, phase: IntArray, assignment: IntArray, heaviest: list[int]) -> Iterator[IntArray]:
    """Placements with one subgraph moved, then with two of one phase swapped, heaviest first."""

    def moved(*moves: tuple[int, int]) -> Iterator[IntArray]:
        if all(np.isfinite(parts.cost[s, device]) for s, device in moves):
            changed = assignment.copy()
            for s, device in moves:
                changed[s] = device
            yield changed

    for s in heaviest:
        for device in range(parts.num_devices):
            if device != assignment[s]:
                yield from moved((s, device))
    for k, s in enumerate(heaviest):
        for other in heaviest[k + 1 :]:
            if phase[s] == phase[other] and assignment[s] != assignment[other]:
                yield from moved((s, int(assignment[other])), (other, int(assignment[s])))
