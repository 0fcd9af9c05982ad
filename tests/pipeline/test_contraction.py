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
