"""Every column of a placement episode against plain Python for the same decisions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hetgym import Problem
from hetgym.envs import CANDIDATE_FEATURES, DEVICE_FEATURES, OPERATOR_FEATURES, HetScheduleEnv
from hetgym.planning import ranks

Booked = dict[int, tuple[int, float, float]]
"""Operator -> device, start and finish."""


def masked() -> Problem:
    """Nine operators on three devices, some of which cannot run some operators."""
    rng = np.random.default_rng(4)
    cost = rng.uniform(1, 9, (9, 3))
    cost[2, 1] = cost[5, 0] = cost[7, 2] = math.inf
    edges = [(a, b, float(rng.uniform(1, 20))) for a in range(9) for b in range(a + 1, 9) if rng.random() < 0.35]
    return Problem.from_arrays(cost, edges, latency=0.3, bandwidth=4.0)


def arrival(problem: Problem, booked: Booked, operator: int, device: int) -> float:
    """Arrival of the last input of an operator on a device [s]."""
    ready = 0.0
    for k in np.flatnonzero(problem.edge_target == operator):
        a, _, finish = booked[int(problem.edge_source[k])]
        ready = max(ready, finish + problem.latency[a, device] + problem.edge_bytes[k] / problem.bandwidth[a, device])
    return ready


def first_gap(booked: Booked, device: int, ready: float, duration: float) -> float:
    """HEFT's insertion rule."""
    taken = sorted((start, finish) for d, start, finish in booked.values() if d == device)
    free = 0.0
    for start, finish in taken:
        if max(ready, free) + duration <= start:
            break
        free = max(free, finish)
    return max(ready, free)


def book(problem: Problem, booked: Booked, operator: int, device: int) -> Booked:
    """Place an operator as HEFT would on that device."""
    duration = float(problem.cost[operator, device])
    start = first_gap(booked, device, arrival(problem, booked, operator, device), duration)
    return booked | {operator: (device, start, start + duration)}


def completed(problem: Problem, booked: Booked, rest: list[int]) -> float:
    """Makespan if every operator that is left goes where it finishes first."""
    for operator in rest:
        options = [book(problem, booked, operator, d) for d in np.flatnonzero(np.isfinite(problem.cost[operator]))]
        booked = min(options, key=lambda option: option[operator][2])
    return max(finish for _, _, finish in booked.values())


def columns(table: np.ndarray, features: tuple) -> dict[str, np.ndarray]:
    """Columns by the names of a public table."""
    assert table.shape[-1] == len(features)
    return {feature.name: table[..., k] for k, feature in enumerate(features)}


def scaled(value: float, reference: float) -> float:
    return 10.0 if math.isinf(value) else min(max(value / reference, 0.0), 10.0)


@pytest.mark.parametrize("seed", [0, 1])
def test_every_column_is_what_its_table_says(seed: int) -> None:
    problem = masked()
    env, rng = HetScheduleEnv(problem, completion="eft"), np.random.default_rng(seed)
    obs, info = env.reset(seed=0)
    order = ranks.list_order(problem.arrays, ranks.upward_rank(problem)).tolist()
    to_exit, optimistic = ranks.least_cost_to_exit(problem), ranks.optimistic_cost(problem)
    reference = env.lanes.instance(0).reference
    booked: Booked = {}
    bound = 0.0
    for turn, operator in enumerate(order):
        found = columns(obs["candidates"], CANDIDATE_FEATURES)
        assert obs["current"][0] == operator
        ends, ahead = {}, {}
        for device in range(3):
            if math.isinf(problem.cost[operator, device]):
                assert (obs["candidates"][device] == 10.0).all() and not info["action_mask"][device]
                continue
            ready, after = arrival(problem, booked, operator, device), book(problem, booked, operator, device)
            _, start, finish = after[operator]
            ahead[device] = max(bound, finish + to_exit[operator, device])
            ends[device] = completed(problem, after, order[turn + 1 :])
            expected = {
                "cost": problem.cost[operator, device],
                "ready": ready,
                "start": start,
                "finish": finish,
                "wait": start - ready,
                "cost_to_go": optimistic[operator, device],
                "bound": ahead[device],
                "completion": ends[device],
            }
            for name, value in expected.items():
                assert found[name][device] == pytest.approx(scaled(value, reference), rel=1e-5), (turn, device, name)
        for device, end in ends.items():
            assert found["regret"][device] == pytest.approx((end - min(ends.values())) / reference, abs=1e-5)
        check_state(problem, obs, booked, order, reference)
        device = int(rng.choice(sorted(ends)))
        booked, bound = book(problem, booked, operator, device), ahead[device]
        obs, _, _, _, info = env.step(device)
    assert info["makespan"] == pytest.approx(max(finish for _, _, finish in booked.values()), rel=1e-12)
    check_state(problem, obs, booked, order, reference)


def check_state(problem: Problem, obs: dict, booked: Booked, order: list[int], reference: float) -> None:
    """Rows of operators and devices."""
    operators, devices = columns(obs["operators"], OPERATOR_FEATURES), columns(obs["devices"], DEVICE_FEATURES)
    finite = np.where(np.isfinite(problem.cost), problem.cost, np.nan)
    transfer = problem.mean_communication
    for i in range(9):
        device, start, finish = booked.get(i, (-1, 0.0, 0.0))
        sent = transfer[problem.edge_source == i]
        expected = {
            "mean_cost": problem.mean_cost[i] / reference,
            "least_cost": np.nanmin(finite[i]) / reference,
            "upward_rank": ranks.upward_rank(problem)[i] / reference,
            "downward_rank": ranks.downward_rank(problem)[i] / reference,
            "output_transfer": sent.max(initial=0.0) / reference,
            "in_degree": np.sum(problem.edge_target == i) / 8,
            "out_degree": np.sum(problem.edge_source == i) / 8,
            "turn": order.index(i) / 8,
            "is_placed": i in booked,
            "is_current": len(booked) < 9 and order[len(booked)] == i,
            "start": start / reference,
            "finish": finish / reference,
        }
        assert obs["assignment"][i] == device
        for name, value in expected.items():
            assert operators[name][i] == pytest.approx(min(float(value), 10.0), rel=1e-5, abs=1e-7), (i, name)
    for d in range(3):
        mine = [(start, finish) for device, start, finish in booked.values() if device == d]
        expected = {
            "busy": sum(finish - start for start, finish in mine) / reference,
            "available": max((finish for _, finish in mine), default=0.0) / reference,
            "share": len(mine) / max(1, len(booked)),
            "total_cost": np.nansum(finite[:, d]) / 3 / reference,
        }
        for name, value in expected.items():
            assert devices[name][d] == pytest.approx(float(value), rel=1e-5, abs=1e-7), (d, name)
