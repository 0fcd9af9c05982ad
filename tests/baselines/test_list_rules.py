"""Rules of the list and queueing schedulers against plain Python, step by step and without any caching."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import numpy as np
import oracle
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym import Problem
from hetgym.baselines import get
from hetgym.planning import critical_path
from hetgym.planning.list_scheduling import fastest_device


class Board:
    """The operators placed so far."""

    def __init__(self, problem: Problem) -> None:
        self.p = problem
        self.cost = problem.cost.tolist()
        self.devices = range(problem.num_devices)
        self.order = oracle.kahn(problem)
        self.place = {i: k for k, i in enumerate(self.order)}
        self.after = oracle.successors_of(problem)
        self.before: list[list[oracle.Edge]] = [[] for _ in self.cost]
        for edge in oracle.edges_of(problem):
            self.before[edge.target].append(edge)
        self.at: dict[int, tuple[int, float, float]] = {}  # device, start, finish
        self.on_trial: set[int] = set()  # in the way, but no sources of data

    def arrival(self, i: int, device: int) -> float:
        placed = [
            (e, *self.at[e.source]) for e in self.before[i] if e.source in self.at and e.source not in self.on_trial
        ]
        return max([f + oracle.transfer_time(self.p, e.bytes, a, device) for e, a, _, f in placed], default=0.0)

    def start(self, i: int, device: int, insertion: bool = False) -> float:
        ready, cost, end = self.arrival(i, device), self.cost[i][device], 0.0
        for begin, finish in sorted((s, f) for a, s, f in self.at.values() if a == device):
            if insertion and max(ready, end) + cost <= begin:
                return max(ready, end)
            end = max(end, finish)
        return max(ready, end)

    def finish(self, i: int, device: int, insertion: bool = False) -> float:
        return self.start(i, device, insertion) + self.cost[i][device]

    def possible(self, i: int) -> list[int]:
        return [device for device in self.devices if self.cost[i][device] < math.inf]

    def put(self, i: int, device: int, start: float) -> None:
        self.at[i] = (device, start, start + self.cost[i][device])

    def ready(self) -> list[int]:
        return [i for i in self.order if i not in self.at and all(e.source in self.at for e in self.before[i])]

    def levels(self) -> dict[int, float]:
        level: dict[int, float] = {}
        for i in reversed(self.order):
            level[i] = self.median(i) + max([level[e.target] for e in self.after[i]], default=0.0)
        return level

    def median(self, i: int) -> float:
        return statistics.median(self.cost[i][device] for device in self.possible(i))


def completions(b: Board, i: int) -> list[tuple[float, int]]:
    return sorted((b.finish(i, device), device) for device in b.possible(i))


def regret(b: Board, i: int) -> float:
    times = [time for time, _ in completions(b, i)]
    return times[1] - times[0] if len(times) > 1 else math.inf


def pair(b: Board, value: Callable[[int, int], tuple[float, ...]]) -> tuple[int, int]:
    return min(((i, d) for i in b.ready() for d in b.possible(i)), key=lambda x: (*value(*x), b.place[x[0]], x[1]))


def pick_dls(b: Board) -> tuple[int, int]:
    level = b.levels()
    return pair(b, lambda i, d: (-(level[i] - b.start(i, d) + (b.median(i) - b.cost[i][d])),))


def pick_etf(b: Board) -> tuple[int, int]:
    level = b.levels()
    return pair(b, lambda i, d: (b.start(i, d), -level[i]))


def pick_min_min(b: Board) -> tuple[int, int]:
    return pair(b, lambda i, d: (b.finish(i, d),))


def pick_max_min(b: Board) -> tuple[int, int]:
    i = min(b.ready(), key=lambda i: (-completions(b, i)[0][0], b.place[i]))
    return i, completions(b, i)[0][1]


def pick_sufferage(b: Board) -> tuple[int, int]:
    i = min(b.ready(), key=lambda i: (-regret(b, i), completions(b, i)[0][0], b.place[i]))
    return i, completions(b, i)[0][1]


def pick_mct(b: Board) -> tuple[int, int]:
    i = b.order[len(b.at)]
    return i, completions(b, i)[0][1]


def pick_met(b: Board) -> tuple[int, int]:
    i = b.order[len(b.at)]
    return i, min(b.possible(i), key=lambda d: (b.cost[i][d], d))


def pick_olb(b: Board) -> tuple[int, int]:
    i = b.order[len(b.at)]
    return i, min(b.possible(i), key=lambda d: (max([f for a, _, f in b.at.values() if a == d], default=0.0), d))


def pick_gdl(b: Board) -> tuple[int, int]:
    level = b.levels()

    def dynamic_level(i: int, d: int) -> float:
        gain = b.median(i) - b.cost[i][d]
        if b.after[i]:
            e = min(b.after[i], key=lambda e: (-e.bytes, b.place[e.target]))
            soonest = min(oracle.transfer_time(b.p, e.bytes, d, other) + b.cost[e.target][other] for other in b.devices)
            gain += b.median(e.target) - soonest
        return level[i] - b.start(i, d) + gain

    def key(i: int) -> tuple[float, ...]:
        values = sorted(-dynamic_level(i, d) for d in b.possible(i))
        scarcity = values[0] - (values[1] if len(values) > 1 else math.inf)
        return values[0] + scarcity, values[0], b.place[i]

    i = min(b.ready(), key=key)
    return i, min(b.possible(i), key=lambda d: (-dynamic_level(i, d), d))


def pick_bil(b: Board) -> tuple[int, int]:
    level: dict[tuple[int, int], float] = {}
    for i in reversed(b.order):
        for d in b.devices:
            ways = [
                [oracle.transfer_time(b.p, e.bytes, d, other) + level[e.target, other] for other in b.devices]
                for e in b.after[i]
            ]
            level[i, d] = b.cost[i][d] + max([min(way) for way in ways], default=0.0)
    ready, p = b.ready(), len(b.devices)

    def makespans(i: int) -> list[float]:
        return sorted(b.start(i, d) + level[i, d] for d in b.possible(i))

    i = min(ready, key=lambda i: (-makespans(i)[: len(ready)][-1], b.place[i]))
    crowd = max(len(ready) / p - 1.0, 0.0)
    return i, min(b.possible(i), key=lambda d: (b.start(i, d) + level[i, d] + b.cost[i][d] * crowd, d))


def idle_from(b: Board, device: int) -> float:
    return max([finish for a, _, finish in b.at.values() if a == device], default=0.0)


def last_input(b: Board, i: int) -> tuple[float, int]:
    """When the last input would arrive at mean transfer times, and from which device."""
    mean = b.p.mean_communication.tolist()
    arrivals = [(-(b.at[e.source][2] + mean[e.index]), b.place[e.source], b.at[e.source][0]) for e in b.before[i]]
    time, _, device = min(arrivals)
    return -time, device


def pick_flb(b: Board) -> tuple[int, int]:
    rank = oracle.upward_rank(b.p)
    candidates = []
    free, bound = [], {device: [] for device in b.devices}
    for i in b.ready():
        time, device = last_input(b, i) if b.before[i] else (0.0, -1)
        if device < 0 or time < idle_from(b, device) or b.cost[i][device] == math.inf:
            free.append((time, -rank[i], b.place[i], i))
        else:
            bound[device].append((b.arrival(i, device), -rank[i], b.place[i], i))
    if free:
        i = min(free)[-1]
        device = min(b.possible(i), key=lambda d: (idle_from(b, d), b.cost[i][d], d))
        candidates.append((b.start(i, device), -1, i, device))
    for device, waiting in bound.items():
        if waiting:
            i = min(waiting)[-1]
            candidates.append((b.start(i, device), device, i, device))
    return min(candidates)[2:]


def pick_mh(b: Board) -> tuple[int, int]:
    level = b.levels()
    since = {i: max([b.at[e.source][2] for e in b.before[i]], default=0.0) for i in b.ready()}
    i = min(since, key=lambda i: (since[i], -level[i], b.place[i]))
    return i, completions(b, i)[0][1]


RULES = {
    "bil": pick_bil,
    "dls": pick_dls,
    "etf": pick_etf,
    "flb": pick_flb,
    "gdl": pick_gdl,
    "mh": pick_mh,
    "min-min": pick_min_min,
    "max-min": pick_max_min,
    "sufferage": pick_sufferage,
    "mct": pick_mct,
    "met": pick_met,
    "olb": pick_olb,
}


def assert_is(name: str, problem: Problem, board: Board) -> None:
    schedule = get(name)(problem)
    assert schedule.start is not None
    assert schedule.assignment.tolist() == [board.at[i][0] for i in range(problem.num_operators)]
    assert schedule.start.tolist() == [board.at[i][1] for i in range(problem.num_operators)]


@pytest.mark.parametrize("name", RULES)
@examples(60)
@given(problem=strategies.problems(max_operators=14, max_devices=4))
def test_each_step_takes_what_the_rule_says(name: str, problem: Problem) -> None:
    board = Board(problem)
    while len(board.at) < problem.num_operators:
        i, device = RULES[name](board)
        board.put(i, device, board.start(i, device))
    assert_is(name, problem, board)


@examples(60)
@given(problem=strategies.problems(max_operators=10, max_devices=3, costs=("continuous",), allow_zero=False))
def test_lookahead_tries_every_device_with_the_children(problem: Problem) -> None:
    board = Board(problem)
    rank = oracle.upward_rank(problem)
    for i in sorted(board.order, key=lambda i: (-rank[i], board.place[i])):
        keys = []
        for device in board.possible(i):
            kept = dict(board.at)
            begin = board.start(i, device, insertion=True)
            board.put(i, device, begin)
            children = sorted({e.target for e in board.after[i]}, key=lambda j: (-rank[j], board.place[j]))
            ends = []
            for j in children:
                end, q = min((board.finish(j, q, insertion=True), q) for q in board.possible(j))
                board.put(j, q, board.start(j, q, insertion=True))
                board.on_trial.add(j)
                ends.append(end)
            keys.append((max(ends, default=begin + board.cost[i][device]), device, begin))
            board.at = kept
            board.on_trial.clear()
        _, device, begin = min(keys)
        board.put(i, device, begin)
    assert_is("lookahead-heft", problem, board)


@pytest.mark.parametrize("name", ["fcfs", "sjf"])
@examples(80)
@given(problem=strategies.problems(max_operators=16, max_devices=4, costs=("integer", "continuous"), allow_zero=False))
def test_idle_devices_are_served_from_the_queue(name: str, problem: Problem) -> None:
    board = Board(problem)
    now = 0.0
    while len(board.at) < problem.num_operators:
        done = {i for i, (_, _, finish) in board.at.items() if finish <= now}
        queue = [i for i in board.order if i not in board.at and {e.source for e in board.before[i]} <= done]
        since = {i: max([board.at[e.source][2] for e in board.before[i]], default=0.0) for i in queue}
        mean = problem.mean_cost.tolist()
        for i in sorted(queue, key=lambda i: (since[i] if name == "fcfs" else mean[i], board.place[i])):
            busy = {a for a, _, finish in board.at.values() if finish > now}
            idle = [device for device in board.possible(i) if device not in busy]
            starts = {device: max(now, board.arrival(i, device)) for device in idle}
            if idle:
                device = min(idle, key=lambda d: (starts[d] + board.cost[i][d], d))
                board.put(i, device, starts[device])
        now = min([finish for _, _, finish in board.at.values() if finish > now], default=now)
    assert_is(name, problem, board)


@examples(60)
@given(problem=strategies.problems(max_operators=14, max_devices=4))
def test_fcp_keeps_as_many_in_order_as_there_are_devices(problem: Problem) -> None:
    board = Board(problem)
    rank = oracle.upward_rank(problem)

    def urgency(i: int) -> tuple[float, int]:
        return -rank[i], board.place[i]

    line, urgent = sorted(board.ready(), key=urgency), []
    while line or urgent:
        while line and len(urgent) < problem.num_devices:
            urgent.append(line.pop(0))
        i = min(urgent, key=urgency)
        urgent.remove(i)
        idle = min(board.possible(i), key=lambda d: (idle_from(board, d), board.cost[i][d], d))
        enabling = last_input(board, i)[1] if board.before[i] else idle
        tried = [d for d in dict.fromkeys([idle, enabling]) if board.cost[i][d] < math.inf]
        device = min(tried, key=lambda d: board.finish(i, d))
        before = set(board.ready())
        board.put(i, device, board.start(i, device))
        line += sorted(set(board.ready()) - before, key=urgency)
    assert_is("fcp", problem, board)


@examples(60)
@given(problem=strategies.problems(max_operators=14, max_devices=4))
def test_dps_takes_what_has_most_of_its_path_ahead(problem: Problem) -> None:
    board = Board(problem)
    rank, mean = oracle.upward_rank(problem), problem.mean_communication.tolist()
    top: dict[int, float] = {}

    def priority(i: int) -> float:
        reached = [top[e.source] + board.cost[e.source][board.at[e.source][0]] + mean[e.index] for e in board.before[i]]
        return rank[i] - max(reached, default=0.0)

    while len(board.at) < problem.num_operators:
        i = min(board.ready(), key=lambda i: (-priority(i), board.place[i]))
        device = min(board.possible(i), key=lambda d: (board.finish(i, d, insertion=True), d))
        sources = [(e, board.at[e.source][0]) for e in board.before[i]]
        top[i] = max(
            [
                top[e.source] + board.cost[e.source][a] + oracle.transfer_time(problem, e.bytes, a, device)
                for e, a in sources
            ],
            default=0.0,
        )
        board.put(i, device, board.start(i, device, insertion=True))
    assert_is("dps", problem, board)


@st.composite
def whole_numbers(draw: st.DrawFn) -> Problem:
    """A small problem without rounding."""
    n, d = draw(st.integers(1, 14)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    cost = rng.integers(0, 9, (n, d)).astype(float)
    cost[rng.random((n, d)) < 0.1] = math.inf
    cost[np.arange(n), rng.integers(d, size=n)] = rng.integers(1, 9, n)
    density = draw(st.sampled_from([0.0, 0.1, 0.3]))
    edges = [(i, j, float(rng.integers(0, 9))) for i in range(n) for j in range(i + 1, n) if rng.random() < density]
    return Problem.from_arrays(cost, edges, latency=float(rng.integers(0, 3)))


@examples(100)
@given(problem=whole_numbers())
def test_hbmct_balances_one_group_after_the_other(problem: Problem) -> None:
    board = Board(problem)
    order = oracle.list_order(problem, oracle.upward_rank(problem))
    turn = {i: k for k, i in enumerate(order)}

    def run(group: list[int], device: int) -> list[tuple[int, float]]:
        """The operators of a group on a device, and when each starts."""
        end, rows = idle_from(board, device), []
        for i in sorted(group, key=lambda i: (board.arrival(i, device), turn[i])):
            rows.append((i, max(end, board.arrival(i, device))))
            end = rows[-1][1] + board.cost[i][device]
        return rows

    def end(group: list[int], device: int) -> float:
        rows = run(group, device)
        return rows[-1][1] + board.cost[rows[-1][0]][device] if rows else idle_from(board, device)

    while order:
        group: list[int] = []
        while order and not {e.source for e in board.before[order[0]]} & set(group):
            group.append(order.pop(0))
        mine: dict[int, list[int]] = {device: [] for device in board.devices}
        for i in group:
            mine[min(board.possible(i), key=lambda d: (board.cost[i][d], d))].append(i)
        while True:
            late = max(board.devices, key=lambda d: (end(mine[d], d), -d))
            moves = []
            for i in mine[late]:
                without = end([j for j in mine[late] if j != i], late)
                for device in set(board.possible(i)) - {late}:
                    moves.append((max(without, end([*mine[device], i], device)), turn[i], device, i))
            if not moves or min(moves)[0] >= end(mine[late], late):
                break
            _, _, device, i = min(moves)
            mine[late].remove(i)
            mine[device].append(i)
        placed = [(i, device, start) for device in board.devices for i, start in run(mine[device], device)]
        for i, device, start in placed:
            board.put(i, device, start)
    assert_is("hbmct", problem, board)


@examples(100)
@given(problem=whole_numbers(), chunk=st.integers(1, 6))
def test_ilha_first_places_what_needs_no_transfer(problem: Problem, chunk: int) -> None:
    board = Board(problem)
    rank = oracle.upward_rank(problem)
    while len(board.at) < problem.num_operators:
        members = sorted(board.ready(), key=lambda i: (-rank[i], board.place[i]))[:chunk]
        speeds = []
        for device in board.devices:
            costs = [board.cost[i][device] for i in members if board.cost[i][device] < math.inf]
            if costs:
                speeds.append(math.inf if sum(costs) == 0 else len(costs) / (sum(costs) * len(members)))
        load = dict.fromkeys(board.devices, 0.0)
        rest = []
        for i in members:
            places = {board.at[e.source][0] for e in board.before[i]}
            device = places.pop() if len(places) == 1 else -1
            if device >= 0 and load[device] + board.cost[i][device] <= 1 / sum(speeds):
                board.put(i, device, board.start(i, device, insertion=True))
                load[device] += board.cost[i][device]
            else:
                rest.append(i)
        for i in rest:
            device = min(board.possible(i), key=lambda d: (board.finish(i, d, insertion=True), d))
            board.put(i, device, board.start(i, device, insertion=True))
    schedule = get("ilha", chunk=chunk)(problem)
    assert schedule.start is not None
    assert schedule.assignment.tolist() == [board.at[i][0] for i in range(problem.num_operators)]
    assert schedule.start.tolist() == [board.at[i][1] for i in range(problem.num_operators)]


@examples(60)
@given(problem=strategies.problems(max_operators=14, max_devices=4))
def test_bsa_moves_operators_from_pivot_to_pivot(problem: Problem) -> None:
    board = Board(problem)
    rank = oracle.upward_rank(problem)
    path = critical_path(problem)
    series: list[int] = []

    def enter(i: int) -> None:
        for j in sorted({e.source for e in board.before[i]}, key=lambda j: (-rank[j], board.place[j])):
            enter(j)
        if i not in series:
            series.append(i)

    for i in [*path, *oracle.list_order(problem, rank)]:
        enter(i)
    first = fastest_device(problem, path)
    mine = {i: first if first in board.possible(i) else int(np.argmin(board.cost[i])) for i in board.order}
    for pivot in [first, *(device for device in board.devices if device != first)]:
        board.at = {}
        for i in series:
            if mine[i] == pivot:
                ends = {device: board.finish(i, device, insertion=True) for device in board.possible(i)}
                mine[i] = min(ends, key=lambda d: (ends[d], d != pivot, d))
            board.put(i, mine[i], board.start(i, mine[i], insertion=True))
    assert_is("bsa", problem, board)
