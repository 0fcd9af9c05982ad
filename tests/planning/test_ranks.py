"""Ranks: as printed in the papers, against plain-Python formulas, and against networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import oracle
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym import Problem
from hetgym.planning import degrees, ranks
from hetgym.workloads import textbook

# Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, table 2, in full precision.
TOPCUOGLU_UP = [108, 77, 80, 80, 69, 63 + 1 / 3, 42 + 2 / 3, 35 + 2 / 3, 44 + 1 / 3, 14 + 2 / 3]
TOPCUOGLU_DOWN = [0, 31, 25, 22, 24, 27, 62 + 1 / 3, 66 + 2 / 3, 63 + 2 / 3, 93 + 1 / 3]
# Arabnejad, Barbosa, IEEE TPDS 25(3), 2014, table 1.
OCT = [
    [64, 68, 86], [42, 39, 42], [27, 41, 43], [42, 39, 50], [28, 37, 28],
    [42, 39, 44], [13, 16, 22], [13, 16, 33], [13, 16, 20], [0, 0, 0],
]  # fmt: skip
RANK_OCT = [72.7, 41.0, 37.0, 43.7, 31.0, 41.7, 17.0, 20.7, 16.3, 0.0]
# Lin, Li, Jia, Liu, An, J. Comput. Sci. Technol. 34(5), 2019: the definition, on both examples (one graph).
WEIGHTED_OUT_DEGREE = [5, 2 / 3, 1, 2 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 0]


def test_topcuoglu_as_published() -> None:
    problem = textbook("topcuoglu")
    assert ranks.upward_rank(problem) == pytest.approx(TOPCUOGLU_UP, rel=1e-14)
    assert ranks.downward_rank(problem) == pytest.approx(TOPCUOGLU_DOWN, rel=1e-14)


def test_optimistic_cost_table_as_published() -> None:
    table = ranks.optimistic_cost(textbook("arabnejad-barbosa"))
    assert table.tolist() == OCT
    assert table.mean(axis=1).round(1).tolist() == RANK_OCT


@pytest.mark.parametrize("name", ["topcuoglu", "arabnejad-barbosa"])
def test_weighted_out_degree_as_defined(name: str) -> None:
    assert degrees.weighted_out_degree(textbook(name)) == pytest.approx(WEIGHTED_OUT_DEGREE, rel=1e-14)


@examples(100)
@given(problem=strategies.problems(max_operators=20))
def test_ranks_equal_the_formulas(problem: Problem) -> None:
    close = {"rel": 1e-12, "abs": 1e-12}
    assert ranks.upward_rank(problem) == pytest.approx(oracle.upward_rank(problem), **close)
    assert ranks.downward_rank(problem) == pytest.approx(oracle.downward_rank(problem), **close)
    assert ranks.optimistic_cost(problem).ravel() == pytest.approx(np.ravel(oracle.optimistic_cost(problem)), **close)
    assert degrees.weighted_out_degree(problem).tolist() == oracle.weighted_out_degree(problem)


@examples(50)
@given(problem=strategies.problems(max_operators=20, costs=("continuous",)))
def test_longest_upward_rank_is_networkx_longest_path(problem: Problem) -> None:
    graph = nx.DiGraph()
    for edge, wait in zip(oracle.edges_of(problem), problem.mean_communication.tolist(), strict=True):
        length = problem.mean_cost[edge.source] + wait
        known = graph.get_edge_data(edge.source, edge.target, {"length": 0.0})["length"]
        graph.add_edge(edge.source, edge.target, length=max(length, known))
    for i, cost in enumerate(problem.mean_cost.tolist()):
        graph.add_edge(i, "end", length=cost)
    longest = nx.dag_longest_path_length(graph, weight="length")
    assert ranks.upward_rank(problem).max() == pytest.approx(longest, rel=1e-12)
    through = ranks.upward_rank(problem) + ranks.downward_rank(problem)
    assert through.max() == pytest.approx(longest, rel=1e-12)


def test_means_leave_out_devices_that_cannot_run_an_operator() -> None:
    problem = Problem.from_arrays([[2.0, np.inf, 4.0], [1.0, 1.0, 1.0]], [(0, 1, 6.0)], bandwidth=2.0)
    assert problem.mean_cost.tolist() == [3.0, 1.0]
    assert ranks.upward_rank(problem).tolist() == [7.0, 1.0]


def test_optimistic_cost_passes_over_devices_that_cannot_run_the_successor() -> None:
    problem = Problem.from_arrays([[1.0, 1.0], [np.inf, 5.0]], [(0, 1, 2.0)])
    assert ranks.optimistic_cost(problem).tolist() == [[7.0, 5.0], [0.0, 0.0]]


@examples(60)
@given(problem=strategies.problems(max_operators=15), seed=st.integers(0, 2**32 - 1))
def test_assigned_bottom_level_is_the_makespan_without_queues(problem: Problem, seed: int) -> None:
    """The largest level is what a device for every operator alone would take: the longest path."""
    assignment = strategies.random_assignment(problem, np.random.default_rng(seed))
    finish: dict[int, float] = {}
    for i in oracle.kahn(problem):
        ready = [
            finish[e.source] + oracle.transfer_time(problem, e.bytes, assignment[e.source], assignment[i])
            for e in oracle.edges_of(problem)
            if e.target == i
        ]
        finish[i] = max(ready, default=0.0) + float(problem.cost[i, assignment[i]])
    levels = ranks.assigned_bottom_level(problem.arrays, assignment)
    assert levels.max() == pytest.approx(max(finish.values()), rel=1e-12, abs=1e-15)


@examples(100)
@given(problem=strategies.problems(max_operators=25), seed=st.integers(0, 2**32 - 1), ties=st.booleans())
def test_list_order_equals_oracle(problem: Problem, seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    n = problem.num_operators
    priority = rng.integers(0, 3, n).astype(np.float64) if ties else rng.normal(size=n)
    assert ranks.list_order(problem.arrays, priority).tolist() == oracle.list_order(problem, priority.tolist())


def test_list_order_repairs_ranks_that_operators_of_no_cost_make_equal() -> None:
    problem = Problem.from_arrays([[0.0], [0.0], [0.0]], [(2, 1, 0.0), (1, 0, 0.0)])
    assert ranks.upward_rank(problem).tolist() == [0.0, 0.0, 0.0]
    assert ranks.list_order(problem.arrays, np.zeros(3)).tolist() == [2, 1, 0]


@given(problem=strategies.problems())
def test_topological_order_is_kahns_with_smallest_ids(problem: Problem) -> None:
    assert problem.topological_order.tolist() == oracle.kahn(problem)
    assert problem.arrays.position[problem.topological_order].tolist() == list(range(problem.num_operators))
