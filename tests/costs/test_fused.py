"""Fused operators are priced by their anchors, which are operators of the graph that was fused."""

from __future__ import annotations

import pytest

from hetgym import load_graph, load_platform
from hetgym.costs.fused import anchor_of
from hetgym.errors import GraphError
from hetgym.graph import Operator, Tensor
from hetgym.graph.transforms import fuse
from hetgym.graph.transforms.pieces import cut, pieces


def types(op: Operator) -> tuple:
    return op.kind, [(t.shape, t.dtype, t.constant) for t in op.inputs], [t.shape for t in op.outputs], op.attributes


@pytest.mark.parametrize("model", ["resnet50", "densenet121", "shufflenet", "bert_base"])
def test_anchors_are_operators_of_the_graph(model: str) -> None:
    graph = load_graph(model)
    written = {op.name: op for op in graph.operators}
    for op in fuse(graph).graph.operators:
        anchor, more = anchor_of(op)
        assert types(anchor) == types(written[op.name]) if op.kind.startswith("Fused-") else anchor is op
        assert more >= 0


@pytest.mark.parametrize(("model", "axis"), [("resnet50", "output"), ("resnet50", "spatial"), ("bert_base", "output")])
def test_pieces_of_a_fused_operator_have_pieces_of_its_anchor(model: str, axis: str) -> None:
    checked = 0
    for op in fuse(load_graph(model)).graph.operators:
        anchor, _ = anchor_of(op)
        if op.kind not in ("Fused-conv", "Fused-matmul") or anchor.outputs != op.outputs:
            continue
        try:
            size = cut(op, axis).size
        except GraphError:
            continue
        lengths = [size // 2 - size // 2 % cut(op, axis).unit, size - (size // 2 - size // 2 % cut(op, axis).unit)]
        if min(lengths) < 1:
            continue
        parts = [anchor_of(part)[0] for part in pieces(op, axis, lengths)]
        assert all(part.kind == anchor.kind for part in parts)
        assert sum(part.flops for part in parts) == pytest.approx(anchor.flops, rel=1e-9)
        checked += 1
    assert checked > 5


@pytest.mark.parametrize("platform", ["core-pair", "cpu-gpu"])
def test_a_fused_operator_costs_its_anchor_and_the_traffic_beyond(platform: str) -> None:
    from hetgym.costs import AutoCosts

    x, w, b = Tensor((64, 256)), Tensor((256, 512), constant=True), Tensor((64, 512))
    alone = Operator("fc", "MatMul", (x, w), (b,))
    attributes = {
        "anchor": "MatMul",
        "operands": 2,
        "anchor_output": (64, 512),
        "fused": "MatMul+Add",
        "flops": alone.flops + b.size,
        "reads": alone.bytes_read + b.bytes,
    }
    fused = Operator("fc", "Fused-matmul", (x, w, b), (b,), attributes)
    for device in load_platform(platform).devices:
        one, both = AutoCosts().predict([alone], device)[0], AutoCosts().predict([fused], device)[0]
        assert both == pytest.approx(one + b.bytes / device.memory_bandwidth, rel=1e-6)


def test_what_does_not_tell_its_anchor_is_itself() -> None:
    x = Tensor((4, 4))
    attributes = {"anchor": "MatMul", "operands": 2, "flops": 1.0, "reads": 1.0}
    odd = Operator("odd", "Fused-matmul", (x, x), (x,), attributes)
    assert anchor_of(odd) == (odd, 0.0)
