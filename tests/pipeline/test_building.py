"""Blocks of models, and what they cost on platforms."""

from __future__ import annotations

import numpy as np
import pytest

import hetgym
from hetgym.graph import DataflowGraph, Operator, Tensor, load_graph
from hetgym.graph.generators import lstm_grid
from hetgym.pipeline import (
    blocks,
    pipeline,
    training_pipeline,
)
from hetgym.pipeline.contraction import bind
from hetgym.platform import load_platform
from hetgym.problem import Problem


def diamond() -> DataflowGraph:
    """a -> (b, c) -> d -> e: cuts behind a, d and e."""
    x = Tensor((4, 4))
    return DataflowGraph(
        [Operator(name, "Relu", (x,), (x,)) for name in "abcde"],
        [(0, 0, 1), (0, 0, 2), (1, 0, 3), (2, 0, 3), (3, 0, 4)],
    )


def test_trunk_blocks_end_where_all_paths_meet() -> None:
    assert blocks(diamond()).tolist() == [0, 1, 1, 1, 2]
    assert blocks(diamond(), "operators").tolist() == [0, 1, 2, 3, 4]
    for name in ("resnet50", "gpt2", "squeezenet"):
        graph = load_graph(name)
        block = blocks(graph)
        apart = block[graph.edge_target] - block[graph.edge_source]
        assert apart.min() >= 0 and apart.max() == 1
        for k in range(int(block.max())):  # one operator's results cross each cut
            crossing = (block[graph.edge_source] <= k) & (block[graph.edge_target] > k)
            assert len(set(graph.edge_source[crossing].tolist())) == 1


def test_time_steps() -> None:
    assert blocks(lstm_grid(layers=3, steps=4)).tolist() == [0, 1, 2, 3] * 3
    assert blocks(load_graph("lstm")).max() == 23
    with pytest.raises(hetgym.ConfigError, match="no time steps"):
        blocks(diamond(), "steps")
    with pytest.raises(hetgym.UnknownName, match="did you mean 'trunk'"):
        blocks(diamond(), "trunc")


def test_blocks_are_priced_as_their_operators() -> None:
    platform = load_platform("cpu-2gpu-nvlink")
    graph = load_graph("resnet50")
    problem, chain = Problem.build(graph, platform), pipeline(graph, platform)
    assert [kind.count for kind in chain.kinds] == [1, 2]
    np.testing.assert_allclose(chain.cost.sum(axis=0), problem.cost[:, :2].sum(axis=0))
    assert chain.size.sum() == pytest.approx(graph.resident_bytes.sum())
    edge = int(np.flatnonzero(blocks(graph)[graph.edge_target] > blocks(graph)[graph.edge_source])[0])
    assert chain.transfer[0] == pytest.approx(
        np.mean(
            [
                platform.latency[a, b] + graph.edge_bytes[edge] / platform.bandwidth[a, b]
                for a in range(3)
                for b in range(3)
                if a != b
            ]
        )
    )
    apart = pipeline(graph, platform, how="operators")
    assert apart.num_operators == len(graph) and len(bind(apart).members) == len(graph)
    np.testing.assert_allclose(apart.cost.sum(axis=0), chain.cost.sum(axis=0))


def test_backward_passes() -> None:
    """A product costs its forward FLOPs once for each gradient; what it reads stays."""
    x, w = Tensor((64, 64)), Tensor((64, 64), constant=True, name="w")
    graph = DataflowGraph([Operator(f"fc{k}", "MatMul", (x, w), (x,)) for k in range(3)], [(0, 0, 1), (1, 0, 2)])
    step = training_pipeline(graph, load_platform("cpu-gpu"), optimizer="momentum")
    assert step.backward[0].tolist() == [0.0, 0.0] and (step.weight[0] > 0).all()  # nothing learns before it
    np.testing.assert_allclose(step.backward[1], step.weight[1])
    assert step.stash.tolist() == [0.0, x.bytes, x.bytes]
    np.testing.assert_allclose(step.state, 2 * step.problem.size)
    with pytest.raises(hetgym.UnknownName, match="optimizer"):
        training_pipeline(graph, load_platform("cpu-gpu"), optimizer="lion")
