"""Hypothesis strategies: problems with every oddity that a real one may have, and legal schedules for them."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from hetgym import Problem, Runtime, Schedule
from hetgym.problem import Routes
from hetgym.sim.runtime import COMMUNICATION, ORDER, TRANSFERS

COSTS = ("integer", "continuous", "tiny")


@st.composite
def problems(
    draw: st.DrawFn,
    max_operators: int = 40,
    max_devices: int = 5,
    min_operators: int = 1,
    costs: tuple[str, ...] = COSTS,
    allow_inf: bool = True,
    allow_zero: bool = True,
) -> Problem:
    """Draw the shape of a problem and a seed for its numbers, so that failures shrink to small graphs.

    Integer costs make many ties, "tiny" ones vanish when they are added to a time.
    """
    n = draw(st.integers(min_operators, max_operators), label="operators")
    d = draw(st.integers(1, max_devices), label="devices")
    kind = draw(st.sampled_from(costs), label="costs")
    density = draw(st.sampled_from([0.0, 0.1, 0.3, 1.0]), label="density")
    zeros = draw(st.booleans(), label="zero costs") and allow_zero
    holes = draw(st.booleans(), label="inf costs") and allow_inf
    parallel = draw(st.booleans(), label="parallel edges")
    latency_kind = draw(st.sampled_from(["zero", "uniform", "matrix"]), label="latency")
    bandwidth_kind = draw(st.sampled_from(["one", "matrix", "some infinite"]), label="bandwidth")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))

    def numbers(shape: tuple[int, ...], top: int) -> np.ndarray:
        if kind == "integer":
            return rng.integers(1, top + 1, shape).astype(np.float64)
        values = rng.uniform(0.1, top, shape)
        return np.where(rng.random(shape) < 0.3, 1e-17, values) if kind == "tiny" else values

    cost = numbers((n, d), 6)
    if zeros:
        cost[rng.random((n, d)) < 0.3] = 0.0
    if holes:
        gap = rng.random((n, d)) < 0.3
        gap[np.arange(n), rng.integers(d, size=n)] = False
        cost[gap] = np.inf
    name = rng.permutation(n)  # ids need not be in topological order
    edges, tensors = [], []
    for i in range(n):
        for j in range(i + 1, n):
            if rng.random() < density * min(1.0, 6 / n):
                for _ in range(1 + (int(rng.integers(3)) if parallel else 0)):
                    size = 0.0 if rng.random() < 0.2 else float(numbers((1,), 8)[0])
                    edges.append((int(name[i]), int(name[j]), size))
                    tensors.append(len(tensors))
    latency = {"zero": 0.0, "uniform": 1.0, "matrix": numbers((d, d), 3) * (rng.random((d, d)) < 0.7)}[latency_kind]
    bandwidth = np.ones((d, d)) if bandwidth_kind == "one" else numbers((d, d), 4)
    if kind == "tiny":
        bandwidth = np.maximum(bandwidth, 0.1)
    if bandwidth_kind == "some infinite":
        bandwidth[rng.random((d, d)) < 0.4] = np.inf
    return Problem.from_arrays(cost, edges, latency, bandwidth, tensors=tensors)


def random_assignment(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    choices = [np.flatnonzero(np.isfinite(row)) for row in problem.cost]
    return np.array([int(rng.choice(c)) for c in choices], np.int32)


def random_topological_order(problem: Problem, rng: np.random.Generator) -> list[int]:
    waiting = np.bincount(problem.edge_target, minlength=problem.num_operators)
    ready = [int(i) for i in np.flatnonzero(waiting == 0)]
    order = []
    while ready:
        i = ready.pop(int(rng.integers(len(ready))))
        order.append(i)
        for j in problem.edge_target[problem.edge_source == i].tolist():
            waiting[j] -= 1
            if waiting[j] == 0:
                ready.append(j)
    return order


def device_lists(problem: Problem, assignment: np.ndarray, order: list[int]) -> list[list[int]]:
    return [[i for i in order if assignment[i] == device] for device in range(problem.num_devices)]


def planned_times(problem: Problem, assignment: np.ndarray, order: list[int], rng: np.random.Generator) -> np.ndarray:
    """Legal start times along an order, with idle time thrown in."""
    start = np.zeros(problem.num_operators)
    finish = np.zeros(problem.num_operators)
    free = np.zeros(problem.num_devices)
    for i in order:
        device = assignment[i]
        ready = free[device]
        for k in np.flatnonzero(problem.edge_target == i):
            source = problem.edge_source[k]
            a = assignment[source]
            wait = problem.latency[a, device] + problem.edge_bytes[k] / problem.bandwidth[a, device]
            ready = max(ready, finish[source] + (wait if a != device else 0.0))
        start[i] = ready + float(rng.choice([0.0, 0.0, 1.0, 0.37]))
        finish[i] = free[device] = start[i] + problem.cost[i, device]
    return start


@st.composite
def schedules(draw: st.DrawFn, problem: Problem, kinds: tuple[str, ...] = ("order", "priority", "start")) -> Schedule:
    """Draw a legal schedule: a random placement with random orders, priorities (with ties) or times."""
    kind = draw(st.sampled_from(kinds), label="schedule")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="schedule seed"))
    assignment = random_assignment(problem, rng)
    order = random_topological_order(problem, rng)
    if kind == "order":
        return Schedule(assignment, order=device_lists(problem, assignment, order))
    if kind == "priority":
        n = problem.num_operators
        return Schedule(assignment, priority=rng.choice([rng.integers(0, 4, n), rng.normal(size=n)]))
    return Schedule(assignment, start=planned_times(problem, assignment, order, rng))


@st.composite
def cases(
    draw: st.DrawFn, kinds: tuple[str, ...] = ("order", "priority", "start"), **options: object
) -> tuple[Problem, Schedule]:
    """A problem and a legal schedule for it."""
    problem = draw(problems(**options))  # type: ignore[arg-type]
    return problem, draw(schedules(problem, kinds))


@st.composite
def machines(draw: st.DrawFn, max_operators: int = 14, max_devices: int = 4, **options: object) -> Problem:
    """A problem whose transfers cross shared links, some of whose tensors have several readers.

    Links: one for each pair; a bus; a switch with a way in and a way out for each device; or any.
    """
    base = draw(problems(max_operators=max_operators, max_devices=max_devices, **options))  # type: ignore[arg-type]
    d = base.num_devices
    topology = draw(st.sampled_from(["direct", "bus", "switch", "any"]), label="links")
    shared = draw(st.booleans(), label="shared tensors")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="machine seed"))
    tensor = np.arange(base.num_edges)
    if shared:
        taken: set[tuple[int, int]] = set()
        for k, (source, target) in enumerate(zip(base.edge_source.tolist(), base.edge_target.tolist(), strict=True)):
            choice = base.num_edges + 2 * source + int(rng.integers(2))
            if (target, choice) not in taken:
                taken.add((target, choice))
                tensor[k] = choice
    bandwidth, routes = np.array(base.bandwidth), None
    if topology != "direct" and d > 1:
        links = {"bus": 1, "switch": 2 * d, "any": d + 1}[topology]
        speed = rng.permutation(bandwidth[~np.eye(d, dtype=bool)])[np.arange(links) % (d * (d - 1))]
        crossed: list[list[int]] = []
        for a, b in itertools.product(range(d), repeat=2):
            path = {
                "bus": [0],
                "switch": [a, d + b],
                "any": rng.permutation(links)[: 1 + int(rng.integers(links))].tolist(),
            }[topology]
            crossed.append(path if a != b else [])
            if a != b:
                bandwidth[a, b] = speed[path].min()
        pointer = np.concatenate([[0], np.cumsum([len(path) for path in crossed])])
        routes = Routes(pointer, np.array(sum(crossed, []), np.int32), speed)
    return base.replace(
        edge_tensor=tensor,
        bandwidth=bandwidth,
        name="machine",
        routes=routes,
        asynchronous=rng.random(d) < 0.5,
        occupancy=rng.integers(1, 9, (base.num_operators, d)) / 8,  # sums are exact in any order
    )


@st.composite
def partitioned(draw: st.DrawFn) -> Problem:
    """A machine some of whose devices take time to enter partitions, or let their host wait."""
    problem = draw(machines())
    d = problem.num_devices
    overhead = draw(st.lists(st.sampled_from([0.0, 0.0, 0.5, 2.0, 3.3]), min_size=d, max_size=d))
    return problem.replace(
        partition_overhead=np.array(overhead),
        synchronous=np.array(draw(st.lists(st.booleans(), min_size=d, max_size=d))),
    )


def runtimes(**fixed: object) -> st.SearchStrategy[Runtime]:
    """Any combination of switches but memory, which moves nothing; some held fixed."""
    switches = {
        "communication": st.sampled_from(COMMUNICATION),
        "transfers": st.sampled_from(TRANSFERS),
        "dispatch": st.sampled_from([0.0, 0.0, 0.5, 1.0, 0.37]),
        "streams": st.integers(1, 3),
        "overlap": st.sampled_from([0.0, 0.5, 0.2]),
        "noise": st.sampled_from([0.0, 0.0, 0.3]),
        "seed": st.integers(0, 3),
        "order": st.sampled_from(ORDER),
    }
    return st.builds(Runtime, **(switches | {name: st.just(value) for name, value in fixed.items()}))
