from __future__ import annotations

import numpy as np
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from steps import callable_step

from hetgym import Problem, simulate
from hetgym.schedule import Schedule
from hetgym.search import device_orders

put, estimate = callable_step(device_orders.put), callable_step(device_orders.estimate)
find_path, insertion = callable_step(device_orders.find_path), callable_step(device_orders.insertion)


def random_orders(problem: Problem, rng: np.random.Generator) -> device_orders.DeviceOrders:
    assignment = strategies.random_assignment(problem, rng)
    order = strategies.random_topological_order(problem, rng)
    return device_orders.new_device_orders(problem, assignment, np.array(order, np.int32))


def rows(problem: Problem, s: device_orders.DeviceOrders) -> list[list[int]]:
    """The device orders, along the links between neighbours."""
    found: list[list[int]] = [[] for _ in range(problem.num_devices)]
    for i in np.flatnonzero(s.previous < 0):
        while i >= 0:
            found[s.assignment[i]].append(int(i))
            i = s.following[i]
    return found


def assert_whole(problem: Problem, s: device_orders.DeviceOrders) -> None:
    trace = simulate(problem, Schedule(s.assignment.copy(), order=rows(problem, s)), "classic")
    assert s.head.tolist() == trace.start.tolist()
    assert sorted(s.order.tolist()) == list(range(problem.num_operators))
    assert (s.turn[s.order] == np.arange(problem.num_operators)).all()
    assert (s.turn[problem.edge_source] < s.turn[problem.edge_target]).all()
    afresh = device_orders.new_device_orders(problem, s.assignment, s.order)
    assert afresh.tail.tolist() == s.tail.tolist()
    assert (s.head + s.duration + s.tail).max() <= trace.makespan * (1 + 1e-12)
    assert not s.marked.any()


@examples(150)
@given(strategies.problems(max_operators=14), st.integers(0, 2**32 - 1))
def test_changes_keep_heads_tails_and_a_topological_order(problem: Problem, seed: int) -> None:
    rng, p = np.random.default_rng(seed), problem.arrays
    s = random_orders(problem, rng)
    assert_whole(problem, s)
    for _ in range(12):
        line = [row for row in rows(problem, s) if len(row) > 1]
        if not line:
            return
        row = line[int(rng.integers(len(line)))]
        a, b = sorted(int(k) for k in rng.choice(len(row), 2, replace=False))
        behind = bool(rng.random() < 0.5)
        operator, other = (row[a], row[b]) if behind else (row[b], row[a])
        expected = list(row)
        expected.remove(operator)
        expected.insert(b if behind else a, operator)
        foreseen = estimate(p, s, operator, other, behind)
        device = int(s.assignment[operator])
        if put(p, s, operator, device, other, behind):
            assert rows(problem, s)[device] == expected
            if b - a == 1:  # nothing around two neighbours changes, so the estimate is exact
                through = max(s.head[i] + s.duration[i] + s.tail[i] for i in (operator, other))
                assert foreseen == pytest.approx(through, rel=1e-12)
        else:
            assert rows(problem, s)[device] == row
        assert_whole(problem, s)


@examples(60)
@given(strategies.problems(), st.integers(0, 2**32 - 1))
def test_the_path_is_a_longest_one(problem: Problem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = random_orders(problem, rng)
    path = s.path[: find_path(problem.arrays, s, rng)][::-1]
    makespan = float((s.head + s.duration).max())
    assert s.head[path[0]] == 0.0
    assert s.head[path[-1]] + s.duration[path[-1]] == makespan
    sent: dict[tuple[int, int], float] = {}
    for i, j, lag in zip(problem.edge_source, problem.edge_target, s.lag, strict=True):
        sent[i, j] = max(lag, sent.get((i, j), 0.0))
    for i, j in zip(path[:-1], path[1:], strict=True):
        finish = s.head[i] + s.duration[i]
        assert s.head[j] == finish if s.previous[j] == i else s.head[j] == finish + sent[i, j]


@examples(100)
@given(strategies.problems(max_operators=14), st.integers(0, 2**32 - 1))
def test_operators_go_to_other_devices_and_circles_change_nothing(problem: Problem, seed: int) -> None:
    rng, p = np.random.default_rng(seed), problem.arrays
    s = random_orders(problem, rng)
    for _ in range(12):
        operator, device = int(rng.integers(problem.num_operators)), int(rng.integers(problem.num_devices))
        if device == s.assignment[operator] or problem.cost[operator, device] == np.inf:
            continue
        before = rows(problem, s), s.assignment.tolist()
        foreseen, other, behind = insertion(p, s, operator, device)
        best = np.isfinite(foreseen) and rng.random() < 0.5
        if not best and before[0][device]:  # anywhere
            other, behind = int(rng.choice(before[0][device])), bool(rng.random() < 0.5)
        if put(p, s, operator, device, other, behind):
            row = rows(problem, s)[device]
            assert other < 0 or row.index(operator) - row.index(other) == (1 if behind else -1)
            assert [i for i in row if i != operator] == before[0][device]
        else:
            assert not best, "a place that is found never makes a circle"
            assert (rows(problem, s), s.assignment.tolist()) == before
        assert_whole(problem, s)
