"""Strategies of backward operators: ranks that differentiate their local operators get the unsharded gradients."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym.graph.ops import Operator, Tensor
from hetgym.graph.transforms.training import training
from hetgym.sharding import Mesh, local_operator, strategies
from hetgym.sharding.roles import Roles
from hetgym.sharding.rules.gradients import Adjoint
from tests.mesh_tools import Array, cut, run, whole
from tests.sharding.test_strategies import operator

MESHES = (Mesh((2,)), Mesh((2, 2)))

FORWARD = {
    "matmul": operator("MatMul", [(4, 4), (4, 8)], (4, 8)),
    "batched": operator("MatMul", [(4, 4, 2), (1, 2, 4)], (4, 4, 4)),
    "linear": operator("Gemm", [(4, 4), (8, 4), (8,)], (4, 8), transB=1),
    "conv": operator("Conv", [(2, 4, 3, 3), (4, 4, 2, 2), (4,)], (2, 4, 2, 2)),
    "grouped conv": operator("Conv", [(2, 4, 2, 2), (4, 2, 2, 2)], (2, 4, 1, 1), group=2),
    "attention": operator("Attention", [(2, 4, 2, 2), (2, 2, 2, 2), (2, 2, 2, 2)], (2, 4, 2, 2), is_causal=1),
    "gelu": operator("Gelu", [(4, 4)], (4, 4)),
    "broadcast": operator("Mul", [(4, 4), (4,)], (4, 4)),
    "add": operator("Add", [(4, 4), (4, 4)], (4, 4)),
    "softmax": operator("Softmax", [(4, 4)], (4, 4)),
    "layer norm": operator("LayerNormalization", [(4, 4), (4,), (4,)], (4, 4)),
    "sum": operator("ReduceSum", [(4, 4)], (4, 1), axes=(1,), keepdims=1),
    "mean": operator("ReduceMean", [(4, 4)], (4, 1), axes=(1,), keepdims=1),
    "reshape": operator("Reshape", [(4, 4, 2)], (4, 8)),
    "heads": operator("View", [(2, 4, 8)], (2, 4, 4, 2), does="heads"),
    "parts": operator("View", [(4, 8)], (4, 4), (4, 4), does="parts", axis=1),
    "concat": operator("Concat", [(4, 4), (4, 4)], (4, 8), axis=1),
}


def backward_of(op: Operator) -> tuple[Operator, Adjoint]:
    """The backward operator that reads one gradient of each result and all operands, and returns all gradients."""
    results, count = len(op.outputs), len(op.inputs)
    backward = Operator("op/backward", f"Gradient-{op.spec.family}", (*op.outputs, *op.inputs), op.inputs,
                        {"flops": 2 * op.flops, "reads": 8.0, "forward": op.kind})  # fmt: skip
    slots = (*range(results), *[-1] * count)
    return backward, Adjoint(op, slots, (*[-1] * results, *range(count)), tuple(range(count)))


def derivative(op: Operator, given: list[Array], operands: list[Array]) -> list[Array]:
    """Gradients of all operands by central differences."""

    def value(arrays: list[Array]) -> float:
        return sum(float((g * y).sum()) for g, y in zip(given, run(op, arrays), strict=True))

    result, step = [], 1e-5
    for k, array in enumerate(operands):
        gradient = np.zeros_like(array)
        for at in np.ndindex(array.shape):
            sides = []
            for sign in (1, -1):
                moved = [a.copy() if j == k else a for j, a in enumerate(operands)]
                moved[k][at] += sign * step
                sides.append(value(moved))
            gradient[at] = (sides[0] - sides[1]) / (2 * step)
        result.append(gradient)
    return result


@pytest.mark.parametrize("name", FORWARD)
def test_ranks_together_compute_the_gradients(name: str) -> None:
    op = FORWARD[name]
    backward, adjoint = backward_of(op)
    rng = np.random.default_rng(3)
    arrays = [rng.normal(size=t.shape) for t in backward.inputs]
    results = len(op.outputs)
    expected = derivative(op, arrays[:results], arrays[results:])
    forward = {s.options: s for s in strategies(op, MESHES[1])}
    for mesh in MESHES:
        found = strategies(backward, mesh, adjoint)
        labels = {s.label for s in found}
        assert len(labels) >= (2 if mesh.size == 2 else len(forward) // 4)
        rows = rng.permutation(len(found))[:6]  # a sample on larger meshes
        for strategy in [found[at] for at in (rows if mesh.size > 2 else range(len(found)))]:
            local = local_operator(backward, strategy, mesh)
            held = [cut(a, p, mesh, rng) for a, p in zip(arrays, strategy.operands, strict=True)]
            parts = []
            for rank in range(mesh.size):
                mine = [row[rank] for row in held]
                inner = Operator(
                    "op", op.kind, local.inputs[results:], local.inputs[:results], _scaled(op, local, mesh)
                )
                parts.append(derivative(inner, mine[:results], mine[results:]))
                assert [a.shape for a in parts[-1]] == [t.shape for t in local.outputs]
            for k, placement in enumerate(strategy.outputs):
                found_whole = whole([row[k] for row in parts], placement, mesh)
                assert np.allclose(found_whole, expected[k], rtol=1e-5, atol=1e-6), (name, strategy)


def _scaled(op: Operator, local: Operator, mesh: Mesh) -> dict:  # type: ignore[type-arg]
    """Attributes of a local operator: groups of a convolution are those that its channels leave."""
    attributes = dict(op.attributes)
    if "group" in attributes:
        attributes["group"] = local.inputs[1].shape[1] // local.inputs[2].shape[1]
    return attributes


def test_every_backward_operator_finds_its_forward_operator() -> None:
    """Operands of a training step are matched by role: also those of the same type, as in a square layer."""
    from hetgym.graph import DataflowGraph

    x, w = Tensor((4, 4)), [Tensor((4, 4), constant=True, name=f"w{k}") for k in range(2)]
    graph = training(
        DataflowGraph(
            [Operator(f"fc{k}", "MatMul", (x, w[k]), (x,)) for k in range(2)] + [Operator("add", "Add", (x, x), (x,))],
            [(0, 0, 1), (0, 0, 2), (1, 0, 2)],
        )
    )
    roles = Roles(graph)
    number = {op.name: i for i, op in enumerate(graph.operators)}
    first, second, add = (number[f"{name}/backward"] for name in ("fc0", "fc1", "add"))
    assert roles.adjoints[second].gradients == (0, -1, -1) and roles.adjoints[second].kept == (-1, 0, 1)
    assert roles.adjoints[second].wanted == (0, 1)
    # The gradient of fc1 comes from the sum's second result, its operand from fc0, its weight is a constant.
    assert roles.sources[second] == [(add, 1), (number["fc0"], 0), None]
    # fc0 has two readers, whose gradients come first; its own operand is an input of the graph without an edge.
    assert sorted(roles.sources[first], key=str) == sorted([(add, 0), (second, 0)], key=str)
    assert roles.adjoints[first].wanted == (1,)
    assert roles.sources[number["w1/update"]] == [(second, 1), None]
