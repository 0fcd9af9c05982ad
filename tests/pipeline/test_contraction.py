"""Operators that are bound together."""

from __future__ import annotations

from hetgym.pipeline import DeviceKind, PipelineProblem
from hetgym.pipeline.contraction import bind


def test_nodes_that_are_bound_but_not_reduced() -> None:
    problem = PipelineProblem([[0.0], [1.0], [0.0], [1.0]], [(0, 1), (1, 2), (2, 3)], [DeviceKind("gpu", 2)])
    assert bind(problem).members == [(0,), (1,), (2,), (3,)]
    coloured = PipelineProblem(
        [[0.0], [1.0], [0.0], [1.0]], [(0, 1), (1, 2), (2, 3)], [DeviceKind("gpu", 2)], colour=[-1, 5, 5, -1]
    )
    assert bind(coloured).members == [(0,), (1, 2), (3,)]
    plain = PipelineProblem([[1.0]] * 4, [(3, 0), (1, 2)], [DeviceKind("gpu", 1)])
    alone = PipelineProblem([[1.0]] * 4, [(3, 0), (1, 2)], [DeviceKind("gpu", 1)], colour=[0, 1, 2, 3])
    assert bind(plain).members == bind(alone).members == [(i,) for i in plain.order.tolist()]


def test_the_order_takes_the_smallest_number_that_is_ready() -> None:
    """Edges that only go up leave the numbers as they are; repeated edges count once."""
    upward = PipelineProblem([[1.0]] * 4, [(1, 3), (0, 2), (1, 3)], [DeviceKind("gpu", 1)])
    assert upward.order.tolist() == [0, 1, 2, 3]
    assert (upward.edge_source.tolist(), upward.edge_target.tolist()) == ([0, 1], [2, 3])
    assert PipelineProblem([[1.0]] * 4, [(3, 0), (1, 2)], [DeviceKind("gpu", 1)]).order.tolist() == [1, 2, 3, 0]
