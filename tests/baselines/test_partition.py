"""Schedulers that cut the graph into parts first: which parts, and what placing them whole gives."""

from __future__ import annotations

import numpy as np
import pytest
import strategies
from hypothesis import given

from hetgym import ConfigError, Problem, UnknownName, load_graph, load_platform
from hetgym.baselines import duet, get, key_operators, single_device, sub_models
from hetgym.baselines.duet import subgraphs
from hetgym.graph.transforms import fuse
from hetgym.planning.parts import dissolve, part_costs, quotient
from hetgym.workloads import textbook

BRANCHES = [(0, 1, 8.0), (1, 2, 8.0), (2, 5, 8.0), (0, 3, 8.0), (3, 4, 8.0), (4, 5, 8.0), (5, 6, 8.0)]
"""0 forks into 1-2 and 3-4, which meet in 5; 6 follows."""


def forked(cost, kinds=None, latency=0.0, bandwidth=8.0):
    return Problem.from_arrays(cost, BRANCHES, latency, bandwidth, operator_kinds=kinds)


def test_key_operators_are_heavy_or_structural():
    kinds = ["Conv", "Conv", "Relu", "Conv", "Conv", "Concat", "Relu"]
    problem = forked([[4.0, 9.0], [8.0, 9.0], [9.0, 9.0], [8.0, 9.0], [0.1, 9.0], [1.0, 9.0], [1.0, 9.0]], kinds)
    assert key_operators(problem).tolist() == [True, True, False, True, False, True, True]
    assert key_operators(problem, theta=0.01).tolist() == [True, True, False, True, True, True, True]
    assert key_operators(problem, theta=9.0).tolist() == [True, False, False, False, False, True, True]


def test_sub_models_grow_and_join_by_preference():
    kinds = ["Conv", "Conv", "Relu", "Conv", "Relu", "Concat", "Relu"]
    fast, slow = [1.0, 2.0], [2.0, 1.0]
    problem = forked([fast, slow, fast, fast, fast, slow, slow], kinds)
    assert sub_models(problem).tolist() == [0, 1, 1, 2, 2, 3, 3]
    # 5 and 6 prefer different devices: two parts; a join has two predecessors, so it stays apart.
    other = forked([fast, slow, fast, fast, fast, slow, fast], kinds)
    assert sub_models(other).tolist() == [0, 1, 1, 2, 2, 3, 4]


def test_a_fork_is_a_cut() -> None:
    problem = forked([[1.0, 2.0]] * 7, ["Relu"] * 7)
    assert key_operators(problem).tolist() == [True, False, False, False, False, True, True]
    assert sub_models(problem).tolist() == [0, 1, 1, 2, 2, 3, 3]


def test_small_sub_models_join_their_neighbour():
    cost = [[10.0, 20.0]] * 5 + [[10.0, 20.0], [9.0, 3.0]]
    assert sub_models(forked(cost)).tolist() == [0, 1, 1, 2, 2, 3, 4]
    assert sub_models(forked(cost, latency=2.0)).tolist() == [0, 1, 1, 2, 2, 3, 3]  # 3 s < two latencies


def test_an_operator_stays_apart_if_its_part_runs_where_it_cannot():
    cost = np.full((7, 2), 1.0)
    cost[0:2] = [1.0, 2.0]
    cost[2] = [np.inf, 5.0]
    kinds = ["Conv", "Conv", "Relu", "Conv", "Relu", "Concat", "Relu"]
    part = sub_models(forked(cost, kinds))
    assert part[2] != part[1] and part[4] == part[3]


@given(problem=strategies.problems())
def test_parts_can_be_scheduled(problem: Problem) -> None:
    """The quotient's constructor refuses cycles and parts that no device can run."""
    for part in (sub_models(problem), subgraphs(problem)[0]):
        assert sorted(set(part.tolist())) == list(range(part.max() + 1))
        parts = quotient(problem, part)
        np.testing.assert_allclose(parts.cost, part_costs(problem, part))
        crossing = part[problem.edge_source] != part[problem.edge_target]
        assert parts.edge_bytes.sum() == pytest.approx(problem.edge_bytes[crossing].sum())


@given(problem=strategies.problems())
def test_cpgc_partition_is_never_worse_than_a_single_device(problem: Problem) -> None:
    for name in ("cpgc-partition", "key-operators"):
        assert get(name)(problem).makespan <= single_device(problem).makespan


def test_tensors_between_parts_count_once():
    problem = Problem.from_arrays(
        np.ones((4, 1)), [(0, 1, 3.0), (0, 2, 3.0), (0, 3, 5.0), (1, 3, 7.0)], tensors=[0, 0, 0, 1]
    )
    parts = quotient(problem, np.array([0, 0, 1, 1], np.int32))
    assert (parts.edge_source.tolist(), parts.edge_target.tolist()) == ([0], [1])
    assert parts.edge_bytes.tolist() == [5.0 + 7.0]


def test_parts_without_a_device_are_taken_apart():
    problem = Problem.from_arrays([[1.0, np.inf], [np.inf, 1.0], [1.0, 1.0]], [(0, 1, 1.0), (1, 2, 1.0)])
    assert dissolve(problem, np.zeros(3, np.int32)).tolist() == [0, 1, 2]
    assert dissolve(problem, np.array([0, 1, 1], np.int32)).tolist() == [0, 1, 1]


def test_duet_finds_phases_and_branches():
    part, phase = subgraphs(forked(np.ones((7, 2))))
    assert part.tolist() == [0, 1, 1, 2, 2, 3, 3]
    assert phase.tolist() == [0, 1, 1, 2]
    chain = Problem.from_arrays(np.ones((3, 2)), [(0, 1, 1.0), (1, 2, 1.0)])
    assert subgraphs(chain)[0].tolist() == [0, 0, 0]
    apart = Problem.from_arrays(np.ones((3, 2)), [(0, 1, 1.0)])
    assert subgraphs(apart)[0].tolist() == [0, 0, 1]


def test_duet_sends_one_branch_to_the_other_device():
    problem = forked([[1.0, 9.0], [5.0, 6.0], [5.0, 6.0], [4.0, 5.0], [4.0, 5.0], [1.0, 9.0], [1.0, 9.0]])
    schedule = duet(problem)
    assert schedule.assignment.tolist() == [0, 0, 0, 1, 1, 0, 0]
    assert schedule.makespan == 1 + (1 + 10 + 1) + 2  # the lighter branch travels both ways


def test_duet_corrects_what_greed_did():
    """Greedy keeps the heavier branch on device 0, where it is barely faster; swapping the two is better."""
    problem = forked([[1.0, 99.0], [9.0, 9.5], [0.0, 0.0], [8.0, 30.0], [0.0, 0.0], [1.0, 99.0], [1.0, 99.0]])
    assert duet(problem, budget=0).assignment.tolist()[1] == 0
    assert duet(problem).assignment.tolist()[1:5] == [1, 1, 0, 0]
    assert duet(problem).makespan < duet(problem, budget=0).makespan


def test_on_a_real_network():
    platform = load_platform("cpu-gpu-balanced")
    problem = Problem.build(fuse(load_graph("inception_v1")).graph, platform)
    single = single_device(problem).makespan
    assert sub_models(problem).max() + 1 < problem.num_operators
    assert get("cpgc-partition")(problem).makespan < single
    assert duet(problem).makespan < single


def test_options():
    problem = textbook("topcuoglu")
    with pytest.raises(ConfigError, match="theta is -1; it must not be negative"):
        get("cpgc-partition", theta=-1)(problem)
    with pytest.raises(UnknownName, match="unknown scheduler 'hetf'"):
        get("cpgc-partition", inner="hetf")(problem)
    with pytest.raises(ConfigError, match="duet: budget is -1"):
        duet(problem, budget=-1)
