"""Parts of graphs, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym import Problem, ProblemError
from hetgym.planning.parts import dissolve, numbered, part_costs, quotient, structure

INF = np.inf


def graph() -> Problem:
    """0 feeds 1 and 2, which feed 3, which feeds 4; tensor 0 goes to both of its readers."""
    cost = [[1.0, 2.0], [0.1, 1.0], [0.2, INF], [INF, 4.0], [5.0, 5.0]]
    edges = [(0, 1, 3.0), (0, 2, 4.0), (1, 3, 2.0), (2, 3, 1.0), (3, 4, 6.0)]
    return Problem.from_arrays(cost, edges, tensors=[0, 0, 1, 2, 3], latency=0.5)


def test_forks_joins_and_the_trunk() -> None:
    fork, join, trunk = structure(graph())
    assert fork.tolist() == [True, False, False, False, False]
    assert join.tolist() == [False, False, False, True, False]
    assert trunk.tolist() == [True, False, False, True, True]


def test_two_edges_to_one_reader_are_no_fork() -> None:
    twice = Problem.from_arrays([[1.0]] * 2, [(0, 1, 1.0), (0, 1, 2.0)], tensors=[0, 1])
    assert not any(kind.any() for kind in structure(twice)[:2])


def test_parts_are_numbered_by_their_first_operators() -> None:
    assert numbered(graph(), [7, 3, 7, 5, 3]).tolist() == [0, 1, 0, 2, 1]


def test_parts_that_no_device_can_run_are_taken_apart() -> None:
    part = np.array([0, 1, 2, 2, 3], np.int32)
    assert part_costs(graph(), part).tolist() == [[1.0, 2.0], [0.1, 1.0], [INF, INF], [5.0, 5.0]]
    assert dissolve(graph(), part).tolist() == [0, 1, 2, 3, 4]
    assert dissolve(graph(), np.array([0, 0, 0, 1, 1], np.int32)).tolist() == [0, 0, 0, 1, 1]


def test_an_edge_between_parts_carries_each_tensor_once() -> None:
    """Tensor 0 of up to 4 bytes; and tensors 1 and 2 of 3 bytes together."""
    parts = quotient(graph(), np.array([0, 1, 1, 2, 2], np.int32))
    found = zip(parts.edge_source.tolist(), parts.edge_target.tolist(), parts.edge_bytes.tolist(), strict=True)
    assert list(found) == [(0, 1, 4.0), (1, 2, 3.0)]
    assert parts.cost.tolist() == [[1.0, 2.0], [0.1 + 0.2, INF], [INF, 9.0]]
    assert parts.latency.tolist() == graph().latency.tolist()
    with pytest.raises(ProblemError, match="cycle"):
        quotient(Problem.from_arrays([[1.0]] * 3, [(0, 1, 1.0), (1, 2, 1.0)]), np.array([0, 1, 0], np.int32))
