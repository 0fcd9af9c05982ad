"""Contraction: by hand, and what must hold for any problem."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import strategies
from hypothesis import given

from hetgym import Problem, ProblemError
from hetgym.planning.contraction import contracted, contractions

INF = np.inf


def test_pairs_by_hand() -> None:
    """Two chains 0 -> 1 -> 2 and 3 -> 4, and 1 -> 4, of transfers that take 3, 1, 9 and 2 seconds.

    Levels are 0, 1, 2, 0, 2. In the first round levels 0 and 1 are paired: 0 with 1, worth 3 / (3 + 1). The edge 3 -> 4
    spans two levels. Then the levels are 0, 1, 0, 1, and those of 1 and 2 are empty; in the third round edges are worth
    9 / (9 + 1) to 3 and 4, where 3 runs 5 seconds and 4 one; 1 / (1 + 1) to 0-1 and 2; 2 / (2 + 1) to 0-1 and 4.
    """
    edges = [(0, 1, 3.0), (1, 2, 1.0), (3, 4, 9.0), (1, 4, 2.0)]
    problem = Problem.from_arrays([[1.0, 2.0], [1.0, 1.0], [1.0, 3.0], [5.0, 5.0], [1.0, 1.0]], edges)
    small, parent = contracted(problem, 0.8)
    assert parent.tolist() == [0, 0, 1, 2, 3]
    assert small.cost.tolist() == [[2.0, 3.0], [1.0, 3.0], [5.0, 5.0], [1.0, 1.0]]
    smaller, parent = contracted(problem, 0.6)
    assert parent.tolist() == [0, 0, 1, 2, 2]
    found = zip(smaller.edge_source.tolist(), smaller.edge_target.tolist(), smaller.edge_bytes.tolist(), strict=True)
    assert list(found) == [(0, 1, 1.0), (0, 2, 2.0)]
    assert contracted(problem, 0.2)[0].num_operators == 1


def test_of_two_pairs_that_would_form_a_cycle_the_dearer_one_is_made() -> None:
    """0 and 1 feed 2 and 3 each: pairs 0-2 and 1-3 would wait for each other."""
    edges = [(0, 2, 9.0), (1, 3, 8.0), (0, 3, 1.0), (1, 2, 1.0)]
    assert contracted(Problem.from_arrays([[1.0, 1.0]] * 4, edges), 0.5)[1].tolist()[:3] == [0, 1, 0]
    small, _ = next(contractions(Problem.from_arrays([[1.0, 1.0]] * 4, edges), (0.75,)))
    assert small.num_operators == 3 and small.num_edges == 3


def test_an_edge_between_groups_carries_each_tensor_once() -> None:
    """Tensor 1 goes from 1 to both members of the group of 2 and 3, at 3 and 4 bytes."""
    edges = [(0, 1, 1.0), (1, 2, 3.0), (1, 3, 4.0), (2, 3, 90.0)]
    problem = Problem.from_arrays([[1.0, 1.0]] * 4, edges, tensors=[0, 1, 1, 2])
    small, parent = contracted(problem, 0.75)
    assert parent.tolist() == [0, 1, 2, 2]
    assert small.edge_bytes.tolist() == [1.0, 4.0] and small.edge_tensor.tolist() == [0, 1]


def test_pairs_that_no_device_runs_or_holds_are_not_made() -> None:
    edges = [(0, 1, 5.0)]
    assert contracted(Problem.from_arrays([[1.0, INF], [INF, 1.0]], edges), 0.5)[0].num_operators == 2
    heavy = Problem.from_arrays([[1.0, INF], [1.0, 1.0]], edges, weight_bytes=3.0, memory_capacity=[5.0, 9.0])
    assert contracted(heavy, 0.5)[0].num_operators == 2
    light = heavy.replace(memory_capacity=[6.0, 9.0])
    assert contracted(light, 0.5)[0].cost.tolist() == [[2.0, INF]]


def test_weights_that_members_share_count_once_and_outputs_within_a_group_do_not() -> None:
    problem = Problem.from_arrays(
        [[1.0]] * 3,
        [(0, 1, 5.0), (1, 2, 1.0)],
        weight_bytes=[4.0, 4.0, 4.0],
        output_bytes=[5.0, 1.0, 2.0],
        shared_weights=[([0, 1, 2], 3.0)],
    )
    small, parent = contracted(problem, 0.67)
    assert parent.tolist() == [0, 0, 1]
    assert small.weight_bytes.tolist() == [5.0, 4.0] and small.model_bytes == problem.model_bytes == 6.0
    assert small.shared_weights.pairs() == [([0, 1], 3.0)]
    assert small.output_bytes.tolist() == [1.0, 2.0]


def test_fractions_out_of_range() -> None:
    for fraction in (0.0, 1.5):
        with pytest.raises(ProblemError, match="above 0 and at most 1"):
            contracted(Problem.from_arrays([[1.0]], []), fraction)


@given(strategies.problems(max_operators=60))
def test_groups_form_no_cycle_and_keep_all_work(problem: Problem) -> None:
    n, before = problem.num_operators, np.arange(problem.num_operators)
    for fraction, (small, parent) in zip((0.7, 0.4, 0.1), contractions(problem, (0.7, 0.4, 0.1)), strict=True):
        assert sorted(set(parent.tolist())) == list(range(small.num_operators))
        assert small.num_operators >= max(1, round(fraction * n))
        assert all(len({parent[i] for i in np.flatnonzero(before == group)}) == 1 for group in set(before.tolist()))
        graph = nx.DiGraph(zip(parent[problem.edge_source].tolist(), parent[problem.edge_target].tolist(), strict=True))
        graph.remove_edges_from([(i, i) for i in range(n)])
        assert nx.is_directed_acyclic_graph(graph)
        assert set(graph.edges) == set(zip(small.edge_source.tolist(), small.edge_target.tolist(), strict=True))
        cost = np.zeros_like(small.cost)
        np.add.at(cost, parent, problem.cost)
        np.testing.assert_allclose(small.cost, cost)
        before = parent


@given(strategies.problems())
def test_all_of_a_problem_is_itself(problem: Problem) -> None:
    small, parent = contracted(problem, 1.0)
    assert small.digest == problem.digest and parent.tolist() == list(range(problem.num_operators))
