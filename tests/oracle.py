"""Slow, plain-Python references, written from the documented rules and sharing no code with the package.

``simulate`` is an event-driven simulator of the classic and the links runtime. Where a kernel and
this file disagree in the last bit, one of them is wrong: there is no tolerance.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hetgym import Problem


class Edge(NamedTuple):
    index: int
    source: int
    target: int
    bytes: float


class Run(NamedTuple):
    start: list[float]
    finish: list[float]
    sent: list[float]
    arrived: list[float]

    @property
    def makespan(self) -> float:
        return max(self.finish)


def edges_of(problem: Problem) -> list[Edge]:
    columns = (problem.edge_source.tolist(), problem.edge_target.tolist(), problem.edge_bytes.tolist())
    return [Edge(k, u, v, size) for k, (u, v, size) in enumerate(zip(*columns, strict=True))]


def transfer_time(problem: Problem, size: float, a: int, b: int) -> float:
    return 0.0 if a == b else float(problem.latency[a, b]) + size / float(problem.bandwidth[a, b])


def kahn(problem: Problem) -> list[int]:
    """Topological order that always takes the smallest ready id."""
    after: list[list[int]] = [[] for _ in range(problem.num_operators)]
    missing = [0] * problem.num_operators
    for edge in edges_of(problem):
        after[edge.source].append(edge.target)
        missing[edge.target] += 1
    ready = {i for i, count in enumerate(missing) if count == 0}
    order: list[int] = []
    while ready:
        order.append(min(ready))
        ready.remove(order[-1])
        for j in after[order[-1]]:
            missing[j] -= 1
            if missing[j] == 0:
                ready.add(j)
    return order


def simulate(
    problem: Problem,
    assignment: Sequence[int],
    order: Sequence[Sequence[int]] | None = None,
    priority: Sequence[float] | None = None,
    fifo: bool = False,
) -> Run:
    """Step a clock through all events; nothing is computed before the time at which it happens.

    With ``order`` a free device waits for the next operator of its list. With ``priority`` it takes,
    of its operators whose inputs have arrived, the one of the largest priority (then the earliest in
    Kahn's order). All events of one instant are processed before any device chooses; every free
    device then chooses once, and events that operators of zero duration cause are processed before the
    next choice.
    """
    n, d = problem.num_operators, problem.num_devices
    cost = problem.cost.tolist()
    edges = edges_of(problem)
    inputs: list[set[int]] = [set() for _ in range(n)]
    outputs: list[list[Edge]] = [[] for _ in range(n)]
    for edge in edges:
        inputs[edge.target].add(edge.index)
        outputs[edge.source].append(edge)
    place = {i: k for k, i in enumerate(kahn(problem))}
    lists = None if order is None else [list(map(int, row)) for row in order]

    start, finish = [math.nan] * n, [math.nan] * n
    sent, arrived = [math.nan] * len(edges), [math.nan] * len(edges)
    launched: list[list[int]] = [[] for _ in range(d)]  # what each device has started so far, in order
    running: list[int | None] = [None] * d
    on_the_way: list[tuple[float, Edge]] = []
    carrying: dict[tuple[int, int], Edge | None] = {}
    queue: dict[tuple[int, int], list[tuple[float, int, int, int, Edge]]] = {}
    there: set[int] = set()  # edges whose data have arrived
    done: set[int] = set()
    now = 0.0

    def send(edge: Edge, link: tuple[int, int]) -> None:
        sent[edge.index] = now
        arrived[edge.index] = now + transfer_time(problem, edge.bytes, *link)
        on_the_way.append((arrived[edge.index], edge))

    def settle() -> None:
        """Process all events that are due now."""
        changed = True
        while changed:
            changed = False
            for device in range(d):
                i = running[device]
                if i is None or finish[i] != now:
                    continue
                running[device] = None
                done.add(i)
                changed = True
                for edge in outputs[i]:
                    link = (device, int(assignment[edge.target]))
                    if link[0] == link[1]:
                        sent[edge.index] = arrived[edge.index] = now
                        there.add(edge.index)
                    elif fifo:
                        request = (now, launched[device].index(i), edge.target, edge.index, edge)
                        queue.setdefault(link, []).append(request)
                    else:
                        send(edge, link)
            for item in [item for item in on_the_way if item[0] == now]:
                on_the_way.remove(item)
                edge = item[1]
                there.add(edge.index)
                carrying[int(assignment[edge.source]), int(assignment[edge.target])] = None
                changed = True
            for link, requests in queue.items():
                if requests and carrying.get(link) is None:
                    requests.sort(key=lambda request: request[:4])
                    edge = requests.pop(0)[4]
                    carrying[link] = edge
                    send(edge, link)
                    changed = True

    def choose(device: int) -> int | None:
        if lists is not None:
            queue_here = lists[device]
            return queue_here.pop(0) if queue_here and inputs[queue_here[0]] <= there else None
        assert priority is not None
        mine = [i for i in range(n) if assignment[i] == device and math.isnan(start[i]) and inputs[i] <= there]
        return min(mine, key=lambda i: (-priority[i], place[i])) if mine else None

    while len(done) < n:
        settle()
        launched_any = False
        for device in range(d):
            if running[device] is not None:
                continue
            i = choose(device)
            if i is not None:
                start[i], finish[i] = now, now + cost[i][device]
                launched[device].append(i)
                running[device] = i
                launched_any = True
        if launched_any and any(i is not None and finish[i] == now for i in running):
            continue
        ahead = [finish[i] for i in running if i is not None] + [time for time, _ in on_the_way]
        if not ahead:
            assert len(done) == n, "deadlock"
            break
        now = min(ahead)
    for time, edge in on_the_way:  # results that nobody waits for cannot exist: every edge has a reader
        raise AssertionError(f"edge {edge} still under way at {time}")
    return Run(start, finish, sent, arrived)


# Ranks, straight from the formulas, by recursion over paths.


def successors_of(problem: Problem) -> list[list[Edge]]:
    rows: list[list[Edge]] = [[] for _ in range(problem.num_operators)]
    for edge in edges_of(problem):
        rows[edge.source].append(edge)
    return rows


def mean_cost(problem: Problem, i: int) -> float:
    possible = [c for c in problem.cost[i].tolist() if c != math.inf]
    return math.fsum(possible) / len(possible)


def mean_transfer(problem: Problem, size: float) -> float:
    pairs = list(itertools.permutations(range(problem.num_devices), 2))
    return math.fsum(transfer_time(problem, size, a, b) for a, b in pairs) / len(pairs) if pairs else 0.0


def upward_rank(problem: Problem) -> list[float]:
    after = successors_of(problem)
    rank: dict[int, float] = {}
    for i in reversed(kahn(problem)):
        tails = [mean_transfer(problem, e.bytes) + rank[e.target] for e in after[i]]
        rank[i] = mean_cost(problem, i) + max(tails, default=0.0)
    return [rank[i] for i in range(problem.num_operators)]


def downward_rank(problem: Problem) -> list[float]:
    rank: dict[int, float] = {}
    edges = edges_of(problem)
    for j in kahn(problem):
        heads = [
            rank[e.source] + mean_cost(problem, e.source) + mean_transfer(problem, e.bytes)
            for e in edges
            if e.target == j
        ]
        rank[j] = max(heads, default=0.0)
    return [rank[i] for i in range(problem.num_operators)]


def optimistic_cost(problem: Problem) -> list[list[float]]:
    after, devices = successors_of(problem), range(problem.num_devices)
    table: dict[int, list[float]] = {}
    for i in reversed(kahn(problem)):
        table[i] = [
            max(
                (
                    min(
                        table[e.target][q]
                        + float(problem.cost[e.target, q])
                        + (mean_transfer(problem, e.bytes) if q != device else 0.0)
                        for q in devices
                    )
                    for e in after[i]
                ),
                default=0.0,
            )
            for device in devices
        ]
    return [table[i] for i in range(problem.num_operators)]


def weighted_out_degree(problem: Problem) -> list[float]:
    edges = edges_of(problem)
    indegree = [sum(e.target == j for e in edges) for j in range(problem.num_operators)]
    degrees = [0.0] * problem.num_operators
    for e in edges:  # from left to right, unlike the builtin sum from Python 3.12 on
        degrees[e.source] += 1.0 / indegree[e.target]
    return degrees


# List scheduling.


def list_order(problem: Problem, priority: Sequence[float]) -> list[int]:
    """Of the operators whose predecessors are listed, the largest priority first, then Kahn's order."""
    place = {i: k for k, i in enumerate(kahn(problem))}
    edges = edges_of(problem)
    listed: list[int] = []
    while len(listed) < problem.num_operators:
        ready = [i for i in place if i not in listed and all(e.source in listed for e in edges if e.target == i)]
        listed.append(min(ready, key=lambda i: (-priority[i], place[i])))
    return listed


def earliest_gap(busy: Sequence[tuple[float, float]], ready: float, duration: float) -> float:
    """First time from which the device is idle long enough: try every time at which a gap could begin.

    An operator of zero duration still takes its turn: it cannot start inside another operator, and no
    other operator can run across it.
    """
    for begin in sorted({ready, *(to for _, to in busy if to > ready)}):
        end = begin + duration
        if all(end <= a or begin >= b for a, b in busy):
            return begin
    raise AssertionError("the end of the last interval is always free")


class Plan(NamedTuple):
    assignment: list[int]
    start: list[float]
    finish: list[float]
    placed: list[int]

    def device_order(self, num_devices: int) -> list[list[int]]:
        """Operators of each device by time; those of one instant in the order in which they were placed."""
        turn = sorted(self.placed, key=lambda i: (self.start[i], self.finish[i]))
        return [[i for i in turn if self.assignment[i] == device] for device in range(num_devices)]

    @property
    def makespan(self) -> float:
        return max(self.finish)


def place(
    problem: Problem,
    order: Sequence[int],
    fixed: Sequence[int] | None = None,
    bonus: Sequence[Sequence[float]] | None = None,
    insertion: bool = True,
) -> Plan:
    """HEFT's second phase: each operator on the device where it finishes first, ties to the smaller device."""
    n, d = problem.num_operators, problem.num_devices
    assignment, start, finish = [-1] * n, [math.nan] * n, [math.nan] * n
    busy: list[list[tuple[float, float]]] = [[] for _ in range(d)]
    inputs: list[list[Edge]] = [[] for _ in range(n)]
    for edge in edges_of(problem):
        inputs[edge.target].append(edge)
    for i in order:
        options = []
        for device in range(d) if fixed is None or fixed[i] < 0 else [fixed[i]]:
            duration = float(problem.cost[i, device])
            if duration == math.inf:
                continue
            arrivals = [
                finish[e.source] + transfer_time(problem, e.bytes, assignment[e.source], device) for e in inputs[i]
            ]
            ready = max(arrivals, default=0.0)
            begin = (
                earliest_gap(busy[device], ready, duration)
                if insertion
                else max([ready, *(to for _, to in busy[device])])
            )
            end = begin + duration
            options.append((end + (bonus[i][device] if bonus is not None else 0.0), device, begin, end))
        _, assignment[i], start[i], finish[i] = min(options)
        busy[assignment[i]].append((start[i], finish[i]))
    return Plan(assignment, start, finish, list(order))


def donf(problem: Problem, priority: Sequence[float], model: str) -> Plan:
    """Degree of node first: at each finish, commit all ready operators, one after the other.

    Inputs on other devices come as one message from each of them, sent when the operator is chosen.
    A message waits for its link, which both directions share; only "link-wait" and "light" take that
    wait into account when they compare devices. "light" and "per-edge" compare devices as if every edge were a
    message of its own. In "classic" each edge is sent when its producer finishes.
    """
    n, d = problem.num_operators, problem.num_devices
    rank = {i: k for k, i in enumerate(kahn(problem))}
    inputs: list[list[Edge]] = [[] for _ in range(n)]
    for edge in edges_of(problem):
        inputs[edge.target].append(edge)
    assignment, start, finish, placed = [-1] * n, [math.nan] * n, [math.nan] * n, []
    free, link_free = [0.0] * d, dict.fromkeys(map(frozenset, itertools.combinations(range(d), 2)), 0.0)
    now = 0.0
    while len(placed) < n:
        ready = [i for i in range(n) if i not in placed and all(finish[e.source] <= now for e in inputs[i])]
        if not ready:
            now = min(finish[i] for i in placed if finish[i] > now)
        for i in sorted(ready, key=lambda i: (-priority[i], rank[i])):
            options = []
            for device in range(d):
                sizes: dict[int, float] = {}
                for e in inputs[i]:
                    source = assignment[e.source]
                    if source != device:
                        sizes[source] = sizes.get(source, 0.0) + e.bytes
                messages = {a: transfer_time(problem, size, a, device) for a, size in sizes.items()}
                if model == "classic":
                    arrivals = [
                        finish[e.source] + transfer_time(problem, e.bytes, assignment[e.source], device)
                        for e in inputs[i]
                    ]
                elif model == "link-wait":
                    waits = {a: max(0.0, link_free[frozenset((a, device))] - now) for a in messages}
                    arrivals = [now + (time + waits[a]) for a, time in messages.items()]
                elif model in ("light", "per-edge"):
                    remote = [(e.bytes, assignment[e.source]) for e in inputs[i] if assignment[e.source] != device]
                    links = {a: link_free[frozenset((a, device))] if model == "light" else now for _, a in remote}
                    arrivals = [
                        now + (transfer_time(problem, size, a, device) + max(0.0, links[a] - now)) for size, a in remote
                    ]
                else:
                    arrivals = [now + time for time in messages.values()]
                begin = max([now, free[device], *arrivals])
                options.append((begin + float(problem.cost[i, device]), device, begin, messages))
            _, device, begin, messages = min(options, key=lambda option: option[:2])
            if model != "classic":
                begin = max(now, free[device])
                for a, time in messages.items():
                    link = frozenset((a, device))
                    link_free[link] = max(link_free[link], now) + time
                    begin = max(begin, link_free[link])
            assignment[i], start[i], finish[i] = device, begin, begin + float(problem.cost[i, device])
            free[device] = finish[i]
            placed.append(i)
    return Plan(assignment, start, finish, placed)


# Exhaustive search.


def topological_orders(problem: Problem) -> Iterator[list[int]]:
    edges = edges_of(problem)
    for order in itertools.permutations(range(problem.num_operators)):
        if all(order.index(e.source) < order.index(e.target) for e in edges):
            yield list(order)


def optimum(problem: Problem) -> float:
    """Shortest classic makespan over all placements and all orders."""
    best = math.inf
    orders = list(topological_orders(problem))
    devices = [
        [d for d in range(problem.num_devices) if problem.cost[i, d] != math.inf] for i in range(problem.num_operators)
    ]
    for assignment in itertools.product(*devices):
        for order in orders:
            best = min(best, place(problem, order, fixed=assignment, insertion=False).makespan)
    return best
