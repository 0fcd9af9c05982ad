"""Simulated meshes: tensors cut by placements, collectives on arrays, and operators in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym.graph.ops import Operator, Tensor, integer, integers
from hetgym.sharding import Mesh, Placement, R, S, ShardedGraph, Step, Strategy, local_operator, resharding

Array = npt.NDArray[Any]


def part(array: Array, placement: Placement, mesh: Mesh, rank: int) -> Array:
    """The part of an array that a rank holds; axes cut a dimension in their order. Partial sums are left whole."""
    for entry, size, at in zip(placement, mesh.shape, mesh.coordinates(rank), strict=True):
        if entry.kind == "S":
            array = np.split(array, size, axis=entry.dim)[at]
    return array


def cut(array: Array, placement: Placement, mesh: Mesh, rng: np.random.Generator) -> list[Array]:
    """The local array of every rank; partial sums have random summands."""
    partial = [axis for axis, entry in enumerate(placement) if entry.kind == "P"]
    if not partial:
        return [part(array, placement, mesh, rank) for rank in range(mesh.size)]
    axis = partial[0]
    summands = [rng.normal(size=array.shape) for _ in range(mesh.shape[axis] - 1)]
    summands.append(array - sum(summands))
    rest = tuple(e if at != axis else type(e)("R") for at, e in enumerate(placement))
    rows = [cut(summand, rest, mesh, rng) for summand in summands]
    return [rows[mesh.coordinates(rank)[axis]][rank] for rank in range(mesh.size)]


def whole(parts: Sequence[Array], placement: Placement, mesh: Mesh) -> Array:
    """The array whose parts the ranks hold; fails where ranks that should agree do not."""
    current = list(parts)
    for axis in reversed(range(len(placement))):  # inner axes cut the parts of outer ones
        entry, joined = placement[axis], list(current)
        for group in mesh.groups(axis):
            rows = [current[rank] for rank in group]
            if entry.kind == "S":
                found = np.concatenate(rows, axis=entry.dim)
            elif entry.kind == "P":
                found = np.sum(rows, axis=0)
            else:
                found = rows[0]
                assert all(np.allclose(found, row, rtol=1e-9, atol=1e-9) for row in rows)
            for rank in group:
                joined[rank] = found
        current = joined
    return current[0]


def run_step(parts: Sequence[Array], step: Step, mesh: Mesh) -> tuple[list[Array], int]:
    """A step of a resharding on the ranks' arrays, and the elements of the buffer as `Step.bytes` counts it."""
    result, counted = list(parts), 0
    for group in mesh.groups(step.axis):
        rows = [parts[rank] for rank in group]
        k = len(group)
        if step.kind == "slice":
            new = [np.split(row, k, step.after.dim)[at] for at, row in enumerate(rows)]
        elif step.kind == "all-gather":
            new = [np.concatenate(rows, step.before.dim)] * k
            counted = new[0].size
        elif step.kind == "all-reduce":
            new, counted = [np.sum(rows, axis=0)] * k, rows[0].size
        elif step.kind == "reduce-scatter":
            new, counted = np.split(np.sum(rows, axis=0), k, step.after.dim), rows[0].size
        else:
            pieces = [np.split(row, k, step.after.dim) for row in rows]
            new = [np.concatenate([piece[at] for piece in pieces], step.before.dim) for at in range(k)]
            counted = rows[0].size
        for rank, array in zip(group, new, strict=True):
            result[rank] = array
    return result, counted


def _channels(vector: Array, rank: int, axis: int = 1) -> Array:
    shape = [1] * rank
    shape[axis] = -1
    return vector.reshape(shape) if vector.ndim == 1 else vector


def _padded(op: Operator, x: Array, value: float = 0.0) -> Array:
    """An image with the rows and columns that the operator adds."""
    pads = integers(op, "pads") or (0, 0, 0, 0)
    return np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=value)


def _taps(op: Operator, x: Array, i: int, j: int) -> Array:
    """The numbers that all outputs read at one place of the window."""
    (down, right), (h, w) = integers(op, "strides") or (1, 1), op.outputs[0].shape[2:]
    return x[:, :, i : i + (h - 1) * down + 1 : down, j : j + (w - 1) * right + 1 : right]


def _convolution(op: Operator, x: Array, w: Array, *bias: Array) -> Array:
    group = integer(op, "group", 1)
    x, y = _padded(op, x), np.zeros((x.shape[0], w.shape[0], *op.outputs[0].shape[2:]))
    inner, outer = x.shape[1] // group, w.shape[0] // group
    assert inner == w.shape[1]
    for g in range(group):
        for i, j in np.ndindex(*w.shape[2:]):
            image = _taps(op, x[:, g * inner : (g + 1) * inner], i, j)
            kernel = w[g * outer : (g + 1) * outer, :, i, j]
            y[:, g * outer : (g + 1) * outer] += np.einsum("nchw,oc->nohw", image, kernel)
    return y + sum(_channels(b, 4) for b in bias)


def _transposed(op: Operator, x: Array, w: Array, *bias: Array) -> Array:
    group = integer(op, "group", 1)
    h, wide = x.shape[2] + w.shape[2] - 1, x.shape[3] + w.shape[3] - 1
    y = np.zeros((x.shape[0], w.shape[1] * group, h, wide))
    inner, outer = x.shape[1] // group, w.shape[1]
    assert x.shape[1] == w.shape[0]
    for g in range(group):
        for i, j in np.ndindex(*w.shape[2:]):
            kernel = w[g * inner : (g + 1) * inner, :, i, j]
            y[:, g * outer : (g + 1) * outer, i : i + x.shape[2], j : j + x.shape[3]] += np.einsum(
                "nchw,co->nohw", x[:, g * inner : (g + 1) * inner], kernel
            )
    return y + sum(_channels(b, 4) for b in bias)


def _product(op: Operator, a: Array, b: Array, *rest: Array) -> Array:
    a = np.swapaxes(a, -1, -2) if integer(op, "transA", 0) else a
    b = np.swapaxes(b, -1, -2) if integer(op, "transB", 0) else b
    return a @ b + sum(rest)


def _grouped(op: Operator, rows: Array, matrices: Array, *bias: Array) -> Array:
    """Equal groups of rows, each times its matrix."""
    groups = rows.reshape(len(matrices), -1, rows.shape[-1])
    result = groups @ (np.swapaxes(matrices, 1, 2) if integer(op, "transB", 0) else matrices)
    return (result + sum(b[:, None] for b in bias)).reshape(len(rows), -1)


def _softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _attention(op: Operator, q: Array, k: Array, v: Array, *mask: Array) -> Array:
    if q.ndim == 4:
        k, v = (np.repeat(t, q.shape[1] // t.shape[1], axis=1) for t in (k, v))
    scores = q @ np.swapaxes(k, -1, -2)
    for m in mask:
        scores = scores + (m[:, None, None] if m.ndim == 1 else m)
    if integer(op, "is_causal", 0):
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -1e30)
    return _softmax(scores, -1) @ v


def _layer_norm(op: Operator, x: Array, scale: Array, *bias: Array) -> Array:
    axes = tuple(range(integer(op, "axis", -1) % x.ndim, x.ndim))
    y = x - x.mean(axes, keepdims=True)
    return y / np.sqrt((y**2).mean(axes, keepdims=True) + 1e-5) * scale + sum(bias)


def _rms_norm(op: Operator, x: Array, scale: Array) -> Array:
    axes = tuple(range(integer(op, "axis", -1) % x.ndim, x.ndim))
    return x / np.sqrt((x**2).mean(axes, keepdims=True) + 1e-5) * scale


def _instance_norm(op: Operator, x: Array, scale: Array, bias: Array) -> Array:
    axes = tuple(range(2, x.ndim))
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    return y * _channels(scale, x.ndim) + _channels(bias, x.ndim)


def _lrn(op: Operator, x: Array) -> Array:
    square = np.pad(x**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    return x / (1 + square[:, :-2] + square[:, 1:-1] + square[:, 2:]) ** 0.75


def _batch_norm(op: Operator, x: Array, *rest: Array) -> Array:
    scale, bias, mean, var = (_channels(t, x.ndim) for t in rest)
    return (x - mean) / np.sqrt(np.abs(var) + 1e-5) * scale + bias


def _rotary(op: Operator, x: Array, cos: Array, sin: Array) -> Array:
    half = x.shape[-1] // 2
    return x * cos + np.concatenate([-x[..., half:], x[..., :half]], axis=-1) * sin


def _reduce(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(op: Operator, x: Array, *_: Array) -> Array:
        axes = integers(op, "axes") or integers(op, "axis") or tuple(range(x.ndim))
        return function(x, axis=tuple(axes), keepdims=bool(integer(op, "keepdims", 1)))

    return run


def _pool(function: Callable[..., Array], value: float) -> Callable[..., Array]:
    def run(op: Operator, x: Array) -> Array:
        x = _padded(op, x, value)
        return function([_taps(op, x, i, j) for i, j in np.ndindex(*integers(op, "kernel_shape"))], axis=0)

    return run


def _reshape(op: Operator, x: Array, *_: Array) -> Array:
    return x.reshape(op.outputs[0].shape)


def _view(op: Operator, x: Array) -> Array | list[Array]:
    """The view that a test names in the attribute `does`."""
    does = str(op.attributes["does"])
    if does == "heads":
        b, h, t, s = op.outputs[0].shape
        return x.reshape(b, t, h, s).transpose(0, 2, 1, 3)
    if does == "merge":
        b, h, t, s = x.shape
        return x.transpose(0, 2, 1, 3).reshape(b, t, h * s)
    if does == "swap":
        return np.swapaxes(x, *integers(op, "swapped"))
    if does == "last":
        return x[:, -1:]
    return np.split(x, len(op.outputs), axis=integer(op, "axis", 0))


def _lookup(op: Operator, table: Array, indices: Array) -> Array:
    table = table.reshape(-1, table.shape[-1]) if table.ndim > len(op.outputs[0].shape) else table
    return np.take(table, indices, axis=integer(op, "axis", 0))


def _unary(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda op, *arrays: function(*arrays)


NUMPY: dict[str, Callable[..., Any]] = {
    "MatMul": _product, "Gemm": _product, "Conv": _convolution, "ConvTranspose": _transposed,
    "Einsum": lambda op, *a: np.einsum(str(op.attributes["equation"]), *a),
    "GroupedMatMul": _grouped, "Attention": _attention, "LSTMCell": lambda op, x, h, w, r: np.tanh(x @ w.T + h @ r.T),
    "Relu": _unary(lambda x: np.maximum(x, 0)), "Gelu": _unary(lambda x: x * np.tanh(x)), "Neg": _unary(np.negative),
    "Copy": _unary(np.copy), "Add": _unary(np.add), "Sub": _unary(np.subtract), "Mul": _unary(np.multiply),
    "Div": _unary(np.divide), "Max": _unary(np.maximum), "Sum": lambda op, *a: sum(a),
    "Where": _unary(lambda c, a, b: np.where(c > 0, a, b)), "BatchNormalization": _batch_norm,
    "RotaryEmbedding": _rotary, "Softmax": lambda op, x: _softmax(x, integer(op, "axis", -1)),
    "LayerNormalization": _layer_norm, "RMSNormalization": _rms_norm, "InstanceNormalization": _instance_norm,
    "LRN": _lrn, "ReduceSum": _reduce(np.sum), "ReduceMean": _reduce(np.mean), "ReduceMax": _reduce(np.max),
    "ReduceSumSquare": _reduce(lambda x, **k: np.sum(x**2, **k)), "MaxPool": _pool(np.max, -np.inf),
    "AveragePool": _pool(np.mean, 0.0), "GlobalAveragePool": lambda op, x: x.mean((2, 3), keepdims=True),
    "CumSum": lambda op, x: np.cumsum(x, axis=integer(op, "axis", 0)), "Reshape": _reshape, "Flatten": _reshape,
    "Transpose": lambda op, x: x.transpose(integers(op, "perm") or None), "View": _view, "Split": _view,
    "Concat": lambda op, *a: (np.concatenate if a[0].ndim == len(op.outputs[0].shape) else np.stack)(
        a, integer(op, "axis", 0)),
    "Slice": lambda op, x: x[tuple(slice(0, size) if at in integers(op, "axes") else slice(None)
                                   for at, size in enumerate(op.outputs[0].shape))],
    "Expand": lambda op, x: np.broadcast_to(x, op.outputs[0].shape), "Gather": _lookup,
    "GatherElements": lambda op, x, i: np.take_along_axis(x, i, integer(op, "axis", 0)),
    "Trilu": lambda op, x: np.tril(x),
    "DepthToSpace": lambda op, x: x.reshape(x.shape[0], -1, 2, 2, *x.shape[2:]).transpose(0, 1, 4, 2, 5, 3).reshape(
        x.shape[0], -1, 2 * x.shape[2], 2 * x.shape[3]),
}  # fmt: skip
"""Kind -> the operator in NumPy, given the operator that the rank runs and its arrays."""


def run(op: Operator, arrays: Sequence[Array]) -> list[Array]:
    """The results of an operator."""
    found = NUMPY[op.kind](op, *arrays)
    results = found if isinstance(found, list) else [found]
    assert [r.shape for r in results] == [t.shape for t in op.outputs], (op.kind, [r.shape for r in results])
    return results


def masked_lookup(op: Operator, table: Array, indices: Array, first: int) -> list[Array]:
    """Rows of a part of a table that begins at row `first`, and zeros for those that other ranks have."""
    axis = integer(op, "axis", 0)
    if table.ndim > len(op.outputs[0].shape):  # rows of all leading dimensions
        return [table.reshape(-1, table.shape[-1])[indices]]
    mine = (indices >= first) & (indices < first + table.shape[axis])
    found = np.take(table, np.where(mine, indices - first, 0), axis=axis)
    shape = [1] * axis + list(indices.shape) + [1] * (table.ndim - axis - 1)
    return [found * mine.reshape(shape)]


def run_local(op: Operator, strategy: Strategy, mesh: Mesh, held: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """For each rank the results of its local operator; ``held`` has the local arrays of each operand by rank."""
    local, results = local_operator(op, strategy, mesh), []
    if any(option.label == "height" for option in strategy.options):
        return _run_rows(op, local, strategy, mesh, held)
    for rank in range(mesh.size):
        mine = [parts[rank] for parts in held]
        for option, at in zip(strategy.options, mesh.coordinates(rank), strict=True):
            for k in option.once if at else ():
                mine[k] = np.zeros_like(mine[k])
        assert [array.shape for array in mine] == [tensor.shape for tensor in local.inputs]
        if op.kind == "Gather":
            axis = integer(op, "axis", 0)
            rows = tuple(S(0) if entry == S(axis) else R for entry in strategy.operands[0])
            numbers = part(np.arange(op.inputs[0].shape[axis]), rows, mesh, rank)
            results.append(masked_lookup(local, mine[0], mine[1], int(numbers[0])))
        else:
            results.append(run(local, mine))
    return results


def _run_rows(
    op: Operator, local: Operator, strategy: Strategy, mesh: Mesh, held: Sequence[Sequence[Array]]
) -> list[list[Array]]:
    """As `run_local`, for images whose rows are sharded: ranks read the rows around their own from the whole image."""
    sizes, window = op.inputs[0].shape, (integers(op, "kernel_shape") or op.inputs[1].shape[2:])[0]
    pads, stride = list(integers(op, "pads") or (0, 0, 0, 0)), (integers(op, "strides") or (1,))[0]
    own = tuple(R if entry.kind == "S" and entry.dim != 2 else entry for entry in strategy.operands[0])
    results, below = [], window - stride - pads[0]
    for rank in range(mesh.size):
        rows = part(np.arange(sizes[2]), tuple(S(0) if e == S(2) else R for e in own), mesh, rank)
        image = _rows_of(held[0], strategy.operands[0], mesh, rank)
        value = -np.inf if op.kind == "MaxPool" else 0.0
        image = np.pad(image, ((0, 0), (0, 0), (pads[0], below), (0, 0)), constant_values=value)
        image = image[:, :, rows[0] : rows[-1] + 1 + pads[0] + below]
        inner = Operator("op", op.kind, local.inputs, local.outputs,
                         {**local.attributes, "pads": (0, pads[1], 0, pads[3])})  # fmt: skip
        mine = [image, *(parts[rank] for parts in held[1:])]
        for option, at in zip(strategy.options, mesh.coordinates(rank), strict=True):
            for k in option.once if at else ():
                mine[k] = np.zeros_like(mine[k])
        results.append(run(inner, mine))
    return results


def _rows_of(parts: Sequence[Array], placement: Placement, mesh: Mesh, rank: int) -> Array:
    """All rows of the images and channels that a rank has."""
    current = list(parts)
    for axis in reversed(range(len(placement))):
        if placement[axis] == S(2):
            joined = list(current)
            for group in mesh.groups(axis):
                for member in group:
                    joined[member] = np.concatenate([current[r] for r in group], axis=2)
            current = joined
    return current[rank]


def run_plan(sharded: ShardedGraph, choice: Sequence[int], rng: np.random.Generator) -> dict[str, tuple[Array, Array]]:
    """Each result of a graph as the ranks compute it under a plan, and without a mesh.

    Inputs of whole numbers are indices below 4.
    """
    mesh, whole_of, parts_of, found = sharded.mesh, dict[tuple[int, int], Array](), {}, {}
    incoming: dict[int, dict[int, tuple[int, int]]] = {}
    for source, target, at, slot in sharded.edges:
        incoming.setdefault(target, {})[at] = source, slot
    for v, node in enumerate(sharded.nodes):
        strategy = node.strategies[choice[v]]
        if node.kind in ("parameter", "input"):
            assert node.tensor is not None
            array = rng.normal(size=node.tensor.shape)
            array = rng.integers(0, 4, node.tensor.shape) if "int" in node.tensor.dtype else array
            whole_of[v, 0], parts_of[v, 0] = array, cut(array, strategy.outputs[0], mesh, rng)
        elif node.kind == "result":
            ((source, slot),) = incoming[v].values()
            tensor = sharded.graph.operators[node.operator].outputs[slot]
            parts = _resharded(sharded, choice, source, slot, tensor, strategy.outputs[0], parts_of)
            found[node.name] = whole(parts, strategy.outputs[0], mesh), whole_of[source, slot]
        elif node.kind == "layout":
            ((source, slot),) = incoming[v].values()
            assert node.tensor is not None
            whole_of[v, 0] = whole_of[source, slot]
            target = strategy.outputs[0]
            parts_of[v, 0] = _resharded(sharded, choice, source, slot, node.tensor, target, parts_of)
        elif node.kind == "operator":
            op = sharded.graph.operators[node.operator]
            sources = [incoming[v][at] for at in range(len(op.inputs))]
            held = [
                _resharded(sharded, choice, *source, op.inputs[at], strategy.operands[at], parts_of)
                for at, source in enumerate(sources)
            ]
            local = run_local(op, strategy, mesh, held)
            for slot, array in enumerate(run(op, [whole_of[source] for source in sources])):
                whole_of[v, slot], parts_of[v, slot] = array, [row[slot] for row in local]
    return found


def _resharded(
    sharded: ShardedGraph, choice: Sequence[int], source: int, slot: int, tensor: Tensor, target: Placement,
    parts_of: dict[tuple[int, int], list[Array]],
) -> list[Array]:  # fmt: skip
    """The local arrays of a value after its resharding."""
    before = sharded.nodes[source].strategies[choice[source]].outputs[slot]
    steps = resharding(tensor, before, target, sharded.mesh)
    assert steps is not None
    parts = parts_of[source, slot]
    for step in steps:
        parts, _ = run_step(parts, step, sharded.mesh)
    return parts
