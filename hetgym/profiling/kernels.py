"""Kernels: for each kind of the vocabulary the torch call that computes it.

The call has the operator's shapes, dtypes and attributes; the values of its weights are random. It therefore takes the
time of the operator, and graphs of such calls move the same amounts of data.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

from hetgym.errors import UnsupportedOperator, require
from hetgym.graph.ops import Operator, Tensor, integer, integers

Call = Callable[[Sequence[Any]], Any]  # Function from all operands, in the operator's order, to its output or outputs

TORCH_DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
"""Dtypes that torch computes in, under the same names."""


class Kernel:
    """One operator, ready to run on a device.

    Attributes:
        operator: the operator that it computes.
        device: torch's name of the device.
        constants: tensors that it allocated (weights and tables), in operand order.
    """

    def __init__(self, operator: Operator, call: Call, constants: dict[int, Any], device: str) -> None:
        self.operator = operator
        self.device = device
        self.constants: tuple[Any, ...] = tuple(constants.values())
        self._call = call
        self._operands: list[Any] = [constants.get(i) for i in range(len(operator.inputs))]
        self._free = [i for i in range(len(operator.inputs)) if i not in constants]

    def __call__(self, *activations: Any) -> tuple[Any, ...]:
        """New tensors, or views of the operands for kinds that move no data, of activations in operand order."""
        operands = self._operands.copy()
        for at, tensor in zip(self._free, activations, strict=True):
            operands[at] = tensor
        result = self._call(operands)
        return result if isinstance(result, tuple) else (result,)


class Weights:
    """The constants of one graph: constants of the same name are one tensor, shared by all operators that read it.

    Steps of an unrolled recurrence thus share their weights, which matters for the content of the caches. A tensor
    depends only on the seed, its name and its type, so if it is drawn on the CPU it is the same in every process. A GPU
    draws them faster, but has other random numbers.
    """

    def __init__(self, seed: int = 0, source: str = "cpu") -> None:
        self._torch = require("torch", "torch", "running operators")
        self._seed = seed
        self._source = source
        self._made: dict[tuple[Any, ...], Any] = {}

    def of(self, operator: Operator, at: int, device: str, rng: Any) -> Any:
        """The tensor for a constant operand; for a constant without a name, a new one is drawn from ``rng``."""
        tensor = operator.inputs[at]
        if not tensor.name:
            return values_of(operator, at, device, rng)
        key = (tensor.name, tensor.shape, tensor.dtype, _positive(operator, at), _bound(operator, at), device)
        if key not in self._made:
            digest = hashlib.sha256(f"{self._seed} {key}".encode()).digest()
            own = self._torch.Generator(self._source).manual_seed(int.from_bytes(digest[:8], "big", signed=True))
            self._made[key] = values_of(operator, at, device, own)
        return self._made[key]


def make_kernel(operator: Operator, device: str = "cpu", rng: Any = None, weights: Weights | None = None) -> Kernel:
    """The kernel of an operator, whose trial run on the meta device has given the shapes of the operator's outputs.

    The weights are random by ``rng``, a ``torch.Generator`` (the CPU's with seed 0 by default), or those of the
    operator's graph.

    Raises:
        UnsupportedOperator: torch cannot compute it, or not with these shapes.
        MissingExtra: torch is not installed.
    """
    torch = require("torch", "torch", "running operators")
    build = BUILDERS.get(operator.kind)
    if build is None:
        raise UnsupportedOperator(f"operator {operator.name!r}: kind {operator.kind!r} has no torch kernel")
    try:
        call = build(torch, operator)
        _try_on_meta(torch, operator, call)
    except UnsupportedOperator:
        raise
    except Exception as cause:  # torch raises many types for shapes that do not fit
        reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        raise UnsupportedOperator(
            f"operator {operator.name!r} ({operator.kind}): torch cannot run it ({reason})"
        ) from cause
    rng = rng if rng is not None else torch.Generator().manual_seed(0)
    values = values_of if weights is None else weights.of
    constants = {at: values(operator, at, device, rng) for at, tensor in enumerate(operator.inputs) if tensor.constant}
    return Kernel(operator, call, constants, device)


def activations(operator: Operator, device: str = "cpu", rng: Any = None) -> tuple[Any, ...]:
    """Random operands for a kernel: those that are not constants, in operand order.

    ``rng`` is a ``torch.Generator``; the CPU's with seed 1 by default. Errors as for :func:`make_kernel`.
    """
    torch = require("torch", "torch", "running operators")
    rng = rng if rng is not None else torch.Generator().manual_seed(1)
    free = [at for at, tensor in enumerate(operator.inputs) if not tensor.constant]
    return tuple(values_of(operator, at, device, rng) for at in free)


def dtype_of(tensor: Tensor) -> Any:
    """The torch dtype of a tensor; UnsupportedOperator if torch does not have it, or cannot compute in it."""
    torch = require("torch", "torch", "running operators")
    if tensor.dtype not in TORCH_DTYPES:
        raise UnsupportedOperator(f"torch does not compute in {tensor.dtype}")
    return getattr(torch, tensor.dtype)


def values_of(operator: Operator, at: int, device: str, rng: Any) -> Any:
    """Random values for operand ``at``: weights scaled so that activations stay near one, indices within their table.

    ``rng`` is a ``torch.Generator``; values are drawn on its device.
    """
    torch = require("torch", "torch", "running operators")
    tensor, dtype = operator.inputs[at], dtype_of(operator.inputs[at])
    if dtype.is_floating_point:
        values = torch.randn(tensor.shape, generator=rng, device=rng.device)
        if tensor.constant and len(tensor.shape) >= 2:
            values /= math.sqrt(max(1, math.prod(tensor.shape[1:])))
        if _positive(operator, at):
            values = values.abs_().add_(0.5)
        values = values.to(dtype)
    elif dtype is torch.bool:
        values = torch.ones(tensor.shape, dtype=dtype)  # a mask that hides everything would give NaN
    else:
        shape, bound = tensor.shape, _bound(operator, at)
        values = torch.randint(0, bound, shape, generator=rng, device=rng.device, dtype=torch.int64).to(dtype)
    return values.to(device)


def _positive(operator: Operator, at: int) -> bool:
    """True if an operand must not be negative: a variance, or the operand of a root."""
    return operator.kind in ("Pow", "Log", "Sqrt", "Reciprocal") or operator.kind == "BatchNormalization" and at == 4


def _bound(operator: Operator, at: int) -> int:
    """Upper bound, exclusive, of the integers in an operand."""
    return max(1, _rows(operator)) if operator.kind in _INDEXED and at > 0 else 2


_INDEXED = ("Gather", "GatherElements", "GatherND", "ScatterND", "ScatterElements")


def _rows(operator: Operator) -> int:
    shape = operator.inputs[0].shape
    return shape[_axis(operator, len(shape), 0)] if shape else 1


def _try_on_meta(torch: Any, operator: Operator, call: Call) -> None:
    """Run a call on the meta device and compare its outputs with the operator's shapes and dtypes."""
    operands = [torch.empty(t.shape, dtype=dtype_of(t), device="meta") for t in operator.inputs]
    with torch.no_grad():
        result = call(operands)
    found = [tuple(value.shape) for value in (result if isinstance(result, tuple) else (result,))]
    wanted = [t.shape for t in operator.outputs]
    if found != wanted:
        raise UnsupportedOperator(
            f"operator {operator.name!r} ({operator.kind}): torch gives shapes {found}, the graph says {wanted}"
        )


# --- attributes ------------------------------------------------------------------------------------------------


def _axis(op: Operator, rank: int, default: int) -> int:
    axis = integer(op, "axis", default)
    return min(max(axis + rank if axis < 0 else axis, 0), max(rank - 1, 0))


def _shape(op: Operator) -> tuple[int, ...]:
    return op.outputs[0].shape


class _Window:
    """Kernel, strides, dilations and padding of a convolution or pooling; the padding follows from its output."""

    def __init__(self, op: Operator, kernel: tuple[int, ...]) -> None:
        self.kernel = kernel
        rank = len(kernel)
        self.strides = integers(op, "strides") or (1,) * rank
        self.dilations = integers(op, "dilations") or (1,) * rank
        pads = integers(op, "pads") or (0,) * (2 * rank)
        before, after = list(pads[:rank]), list(pads[rank:])
        sizes = op.inputs[0].shape[2:], op.outputs[0].shape[2:]
        for d, (size, out) in enumerate(zip(*sizes, strict=True)):
            reach = (out - 1) * self.strides[d] + self.dilations[d] * (kernel[d] - 1) + 1
            lacking = reach - size - before[d] - after[d]
            if lacking > 0:  # ceil mode, or automatic padding
                automatic = str(op.attributes.get("auto_pad", "NOTSET")) in ("SAME_UPPER", "SAME_LOWER")
                before[d] += lacking // 2 if automatic else 0
                after[d] += lacking - (lacking // 2 if automatic else 0)
        self.even = before == after
        self.before = tuple(before)
        self.around = tuple(side for d in reversed(range(rank)) for side in (before[d], after[d]))  # F.pad's order

    def largest(self) -> bool:
        """True if torch's pooling supports the padding itself."""
        return self.even and all(2 * pad <= size for pad, size in zip(self.before, self.kernel, strict=True))


# --- one builder a family --------------------------------------------------------------------------------------


def _conv(torch: Any, op: Operator) -> Call:
    window, groups = _Window(op, op.inputs[1].shape[2:]), integer(op, "group", 1)
    strides, dilations, functional = window.strides, window.dilations, torch.nn.functional
    run = (functional.conv1d, functional.conv2d, functional.conv3d)[len(window.kernel) - 1]
    bias = len(op.inputs) > 2
    if window.even:
        pads = window.before
        return lambda x: run(x[0], x[1], x[2] if bias else None, strides, pads, dilations, groups)
    around = window.around
    return lambda x: run(functional.pad(x[0], around), x[1], x[2] if bias else None, strides, 0, dilations, groups)


def _conv_transpose(torch: Any, op: Operator) -> Call:
    rank, functional = len(op.inputs[1].shape) - 2, torch.nn.functional
    run = (functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)[rank - 1]
    strides = integers(op, "strides") or (1,) * rank
    pads = (integers(op, "pads") or (0,) * rank)[:rank]
    dilations = integers(op, "dilations") or (1,) * rank
    groups = integer(op, "group", 1)
    sizes = zip(op.inputs[0].shape[2:], op.inputs[1].shape[2:], strides, pads, dilations, _shape(op)[2:], strict=True)
    extra = tuple(out - ((size - 1) * s - 2 * p + d * (k - 1) + 1) for size, k, s, p, d, out in sizes)
    bias = len(op.inputs) > 2
    return lambda x: run(x[0], x[1], x[2] if bias else None, strides, pads, extra, groups, dilations)


def _gemm(torch: Any, op: Operator) -> Call:
    """ONNX's Gemm (2-D, C + A B) and torch's linear (any rank, transposed weight)."""
    transposed_a, transposed_b, bias = integer(op, "transA", 0), integer(op, "transB", 0), len(op.inputs) > 2
    linear = torch.nn.functional.linear
    if transposed_b and not transposed_a and (not bias or len(op.inputs[2].shape) == 1):
        return lambda x: linear(x[0], x[1], x[2] if bias else None)
    if len(op.inputs[0].shape) == 2 and bias:
        return lambda x: torch.addmm(x[2], x[0].mT if transposed_a else x[0], x[1].mT if transposed_b else x[1])
    return _matmul(torch, op)


def _matmul(torch: Any, op: Operator) -> Call:
    transposed_a, transposed_b, bias = integer(op, "transA", 0), integer(op, "transB", 0), len(op.inputs) > 2
    if not (transposed_a or transposed_b or bias):
        return lambda x: torch.matmul(x[0], x[1])

    def run(x: Sequence[Any]) -> Any:
        product = torch.matmul(x[0].mT if transposed_a else x[0], x[1].mT if transposed_b else x[1])
        return product + x[2] if bias else product

    return run


def _einsum(torch: Any, op: Operator) -> Call:
    equation = str(op.attributes.get("equation", ""))
    return lambda x: torch.einsum(equation, *x)


def _attention(torch: Any, op: Operator) -> Call:
    run, causal = torch.nn.functional.scaled_dot_product_attention, bool(integer(op, "is_causal", 0))
    query, key = op.inputs[0].shape, op.inputs[1].shape
    grouped = len(query) == 4 == len(key) and query[1] != key[1]  # several heads of queries to one of keys
    if len(op.inputs) > 3 and op.inputs[3].size > 1:
        return lambda x: run(x[0], x[1], x[2], attn_mask=x[3], enable_gqa=grouped)
    return lambda x: run(x[0], x[1], x[2], is_causal=causal, enable_gqa=grouped)


def _rotary(torch: Any, op: Operator) -> Call:
    """Rotary embedding as models in PyTorch compute it, each half of a head turned by the other."""

    def run(x: Sequence[Any]) -> Any:
        first, second = x[0].chunk(2, -1)
        return x[0] * x[1] + torch.cat((-second, first), -1) * x[2]

    return run


def _write_cache(torch: Any, op: Operator) -> Call:
    """New keys and values written into their caches, behind which the output only marks that they are there."""
    if len(op.inputs) < 4 or op.outputs[0].size:
        raise UnsupportedOperator(f"operator {op.name!r}: expected two caches and the keys and values to write")
    tokens = op.inputs[2].shape[2]

    def run(x: Sequence[Any]) -> Any:
        for cache, new in ((x[0], x[2]), (x[1], x[3])):
            cache.narrow(2, cache.shape[2] - tokens, tokens).copy_(new)
        return x[2].new_empty(0)

    return run


def _cell(torch: Any, op: Operator) -> Call:
    """A recurrent cell; its operands are identified by their shapes, since importers order them differently."""
    gates = {"LSTMCell": 4, "GRUCell": 3, "RNNCell": 1}[op.kind]
    hidden = integer(op, "hidden_size", _shape(op)[-1])
    rows = _shape(op)[:-1]
    weights = [
        i for i, t in enumerate(op.inputs) if t.constant and t.shape[:1] == (gates * hidden,) and len(t.shape) == 2
    ]
    biases = [i for i, t in enumerate(op.inputs) if t.constant and t.shape == (gates * hidden,)]
    both = [i for i, t in enumerate(op.inputs) if t.constant and t.shape == (2 * gates * hidden,)]
    states = [i for i, t in enumerate(op.inputs) if i > 0 and i not in weights and t.shape == (*rows, hidden)]
    if (
        len(weights) != 2
        or len(biases) + 2 * len(both) not in (0, 2)
        or len(states) != (2 if op.kind == "LSTMCell" else 1)
    ):
        raise UnsupportedOperator(f"operator {op.name!r}: the operands do not fit its kind, {op.kind}")
    run = {"LSTMCell": torch.lstm_cell, "GRUCell": torch.gru_cell, "RNNCell": torch.rnn_tanh_cell}[op.kind]
    first, second = weights

    def bias(x: Sequence[Any]) -> Sequence[Any]:
        return x[both[0]].chunk(2) if both else [x[b] for b in biases]

    if op.kind == "LSTMCell":
        hidden_at, cell_at = states
        single = len(op.outputs) == 1

        def lstm(x: Sequence[Any]) -> Any:
            result = run(x[0], (x[hidden_at], x[cell_at]), x[first], x[second], *bias(x))
            return result[0] if single else result

        return lstm
    (state,) = states
    return lambda x: run(x[0], x[state], x[first], x[second], *bias(x))


def _pool(torch: Any, op: Operator) -> Call:
    window, functional, largest = _Window(op, integers(op, "kernel_shape")), torch.nn.functional, op.kind == "MaxPool"
    rank = len(window.kernel)
    if op.attributes.get("strides") is None and op.attributes.get("pads") is None:  # adaptive
        out = _shape(op)[2:]
        adaptive = getattr(functional, f"adaptive_{'max' if largest else 'avg'}_pool{rank}d")
        return lambda x: adaptive(x[0], out)
    kernel, strides, around, pads = window.kernel, window.strides, window.around, window.before
    run = getattr(functional, f"{'max' if largest else 'avg'}_pool{rank}d")
    dilations = {"dilation": window.dilations} if largest else {}
    if window.largest():
        return lambda x: run(x[0], kernel, strides, pads, **dilations)
    fill = -math.inf if largest else 0.0
    return lambda x: run(functional.pad(x[0], around, value=fill), kernel, strides, **dilations)


def _global_pool(torch: Any, op: Operator) -> Call:
    dims = tuple(range(2, len(op.inputs[0].shape)))
    run = torch.amax if op.kind == "GlobalMaxPool" else torch.mean
    return lambda x: run(x[0], dims, True)


def _unary(name: str, *arguments: Any) -> Callable[[Any, Operator], Call]:
    def build(torch: Any, op: Operator) -> Call:
        run = getattr(torch, name, None) or getattr(torch.nn.functional, name)
        return lambda x: run(x[0], *arguments)

    return build


def _by_number(name: str, attribute: str, default: int, *before: Any) -> Callable[[Any, Operator], Call]:
    """A call whose last argument is a whole number of the operator's attributes."""

    def build(torch: Any, op: Operator) -> Call:
        return _unary(name, *before, integer(op, attribute, default))(torch, op)

    return build


def _prelu(torch: Any, op: Operator) -> Call:
    return lambda x: torch.where(x[0] > 0, x[0], x[0] * x[1])


def _cast(torch: Any, op: Operator) -> Call:
    dtype = dtype_of(op.outputs[0])
    return lambda x: x[0].to(dtype, copy=True)


def _binary(name: str) -> Callable[[Any, Operator], Call]:
    def build(torch: Any, op: Operator) -> Call:
        run, count = getattr(torch, name), len(op.inputs)
        if count == 1:  # the other operand is a number
            return (lambda x: run(x[0], 2)) if name != "logical_and" else (lambda x: x[0].clone())
        if count == 2:
            return lambda x: run(x[0], x[1])

        def several(x: Sequence[Any]) -> Any:
            total = run(x[0], x[1])
            for other in x[2:]:
                total = run(total, other)
            return total

        return several

    return build


def _mean(torch: Any, op: Operator) -> Call:
    total, count = _binary("add")(torch, op), len(op.inputs)
    return lambda x: total(x) / count


def _where(torch: Any, op: Operator) -> Call:
    if len(op.inputs) == 2:  # masked_fill: the value is a number
        return lambda x: torch.where(x[1], 0.0, x[0])
    return lambda x: torch.where(x[0], x[1], x[2])


def _batch_norm(torch: Any, op: Operator) -> Call:
    run = torch.nn.functional.batch_norm
    return lambda x: run(x[0], x[3], x[4], x[1], x[2])


def _layer_norm(torch: Any, op: Operator) -> Call:
    shape = op.inputs[1].shape if len(op.inputs) > 1 else op.inputs[0].shape[integer(op, "axis", -1) :]
    run = torch.nn.functional.layer_norm
    return lambda x: run(x[0], shape, *x[1:3])


def _rms_norm(torch: Any, op: Operator) -> Call:
    shape = op.inputs[1].shape if len(op.inputs) > 1 else op.inputs[0].shape[-1:]
    run = torch.nn.functional.rms_norm
    return lambda x: run(x[0], shape, *x[1:2])


def _group_norm(torch: Any, op: Operator) -> Call:
    channels = op.inputs[0].shape[1]
    groups = channels if op.kind == "InstanceNormalization" else integer(op, "num_groups", 1)
    run = torch.nn.functional.group_norm
    return lambda x: run(x[0], groups, *x[1:3])


def _variance_norm(torch: Any, op: Operator) -> Call:
    run, shape = torch.nn.functional.layer_norm, op.inputs[0].shape[1:]
    return lambda x: run(x[0], shape)


def _reduce(name: str) -> Callable[[Any, Operator], Call]:
    """A reduction over the axes given, or those in which input and output differ."""

    def build(torch: Any, op: Operator) -> Call:
        source, result = op.inputs[0].shape, _shape(op)
        named = integers(op, "axes") or integers(op, "axis")
        axes = tuple(a % len(source) for a in named) or _lost_axes(source, result)
        keep = len(result) == len(source)
        if name == "square":
            return lambda x: torch.sum(x[0] * x[0], axes, keep)
        if name in ("l1", "l2"):
            return lambda x: torch.linalg.vector_norm(x[0], int(name[1]), axes, keep)
        run, along = getattr(torch, name), axes[0] if name in ("prod", "argmax", "argmin") else axes
        return lambda x: run(x[0], along, keep)

    return build


def _lost_axes(source: tuple[int, ...], result: tuple[int, ...]) -> tuple[int, ...]:
    if len(source) == len(result):
        return tuple(a for a, (before, after) in enumerate(zip(source, result, strict=True)) if before != after)
    kept, lost = list(result), []
    for axis, size in enumerate(source):
        if kept and kept[0] == size:
            kept.pop(0)
        else:
            lost.append(axis)
    return tuple(lost)


def _top_k(torch: Any, op: Operator) -> Call:
    axis = integer(op, "axis", -1)
    k, count = _shape(op)[axis], len(op.outputs)
    return lambda x: tuple(torch.topk(x[0], k, axis))[:count]


def _concat(torch: Any, op: Operator) -> Call:
    axis, shape = _axis(op, len(_shape(op)), 0), _shape(op)
    if len(op.inputs[0].shape) < len(shape):
        return lambda x: torch.stack(tuple(x), axis)
    return lambda x: torch.cat(tuple(x), axis)


def _transpose(torch: Any, op: Operator) -> Call:
    rank = len(op.inputs[0].shape)
    perm = integers(op, "perm") or tuple(reversed(range(rank)))
    return lambda x: x[0].permute(perm).clone(memory_format=torch.contiguous_format)


def _copy(torch: Any, op: Operator) -> Call:
    shape = _shape(op)
    return lambda x: x[0].clone(memory_format=torch.contiguous_format).view(shape)


def _pad(torch: Any, op: Operator) -> Call:
    shapes = zip(reversed(op.inputs[0].shape), reversed(_shape(op)), strict=True)
    around = tuple(side for before, after in shapes for side in (0, after - before))
    return lambda x: torch.nn.functional.pad(x[0], around)


def _repeated(torch: Any, op: Operator) -> Call:
    source, result = op.inputs[0].shape, _shape(op)
    padded = (1,) * (len(result) - len(source)) + source
    times = tuple(after // max(before, 1) for before, after in zip(padded, result, strict=True))
    return lambda x: x[0].repeat(times)


def _resize(torch: Any, op: Operator) -> Call:
    mode, sizes = str(op.attributes.get("mode", "nearest")), _shape(op)[2:]
    word = {"linear": {1: "linear", 2: "bilinear", 3: "trilinear"}.get(len(sizes), "nearest"), "cubic": "bicubic"}
    run, how = torch.nn.functional.interpolate, word.get(mode, "nearest")
    return lambda x: run(x[0], sizes, mode=how)


def _depth_space(torch: Any, op: Operator) -> Call:
    wider, narrower = (op.outputs[0], op.inputs[0]) if op.kind == "DepthToSpace" else (op.inputs[0], op.outputs[0])
    block = wider.shape[-1] // narrower.shape[-1]
    run = torch.nn.functional.pixel_shuffle if op.kind == "DepthToSpace" else torch.nn.functional.pixel_unshuffle
    return lambda x: run(x[0], block)


def _filled(torch: Any, op: Operator) -> Call:
    shape, dtype = _shape(op), dtype_of(op.outputs[0])
    return lambda x: torch.zeros(shape, dtype=dtype, device=x[0].device if x else "cpu")


def _one_hot(torch: Any, op: Operator) -> Call:
    depth, dtype = _shape(op)[-1], dtype_of(op.outputs[0])
    return lambda x: torch.eye(depth, dtype=dtype, device=x[0].device)[x[0].long()]


def _gather(torch: Any, op: Operator) -> Call:
    rank, shape = len(op.inputs[0].shape), _shape(op)
    axis = _axis(op, rank, 0)
    if rank == 2 and axis == 0 and len(op.inputs) > 1 and op.inputs[1].shape:
        return lambda x: torch.nn.functional.embedding(x[1], x[0])
    return lambda x: torch.index_select(x[0], axis, x[1].reshape(-1)).view(shape)


def _gather_elements(torch: Any, op: Operator) -> Call:
    axis = _axis(op, len(op.inputs[0].shape), 0)
    return lambda x: torch.gather(x[0], axis, x[1])


def _slices(torch: Any, op: Operator) -> Call:
    """A copied slice of the operand; its position does not affect the run time."""
    shape = _shape(op)

    def run(x: Sequence[Any]) -> Any:
        part = x[0]
        for axis, size in enumerate(shape):
            step = max(1, part.shape[axis] // max(size, 1)) if part.shape[axis] > size else 1
            part = (
                part[(slice(None),) * axis + (slice(0, step * size, step),)]
                if step > 1 and axis
                else part.narrow(axis, 0, size)
            )
        return part.clone(memory_format=torch.contiguous_format)

    return run


def _split(torch: Any, op: Operator) -> Call:
    axis, copies = _axis(op, len(op.inputs[0].shape), 0), op.kind == "Split"
    sizes = [t.shape[axis] for t in op.outputs]

    def run(x: Sequence[Any]) -> Any:
        parts = torch.split(x[0], sizes, axis)
        return tuple(part.clone(memory_format=torch.contiguous_format) for part in parts) if copies else tuple(parts)

    return run


def _view(torch: Any, op: Operator) -> Call:
    """A view of the same memory: a permutation, a reshape, parts, or a repetition without copies."""
    source, results = op.inputs[0].shape, [t.shape for t in op.outputs]
    if len(results) > 1:
        axis = _axis(op, len(source), 0)
        if all(len(shape) == len(source) for shape in results):
            return _split(torch, op)
        if len(source) == 3 and all(len(shape) == 4 and shape[::2] == source[:2] for shape in results):
            return _heads(torch, results)
        return lambda x: tuple(torch.unbind(x[0], axis))
    (result,) = results
    if result == source:
        return lambda x: x[0].view(result) if x[0].is_contiguous() else x[0].view_as(x[0])
    turned = _turned(op, source, result)
    if turned:
        return lambda x: x[0].permute(turned)
    if math.prod(result) == math.prod(source):
        return lambda x: x[0].reshape(result)
    if len(result) == len(source) and all(after <= before for before, after in zip(source, result, strict=True)):
        return lambda x: x[0].as_strided(result, x[0].stride())
    if math.prod(result) < math.prod(source):
        axis, rest = _axis(op, len(source), 0), math.prod(result)
        if source[:axis] + source[axis + 1 :] == result:
            return lambda x: x[0].select(axis, 0)
        return lambda x: x[0].reshape(-1)[:rest].view(result)
    return lambda x: x[0].expand(result)


def _heads(torch: Any, results: Sequence[tuple[int, ...]]) -> Call:
    """Parts of [batch, tokens, n] as [batch, heads, tokens, size] each: queries, keys and values of one product."""
    widths = [shape[1] * shape[3] for shape in results]

    def run(x: Sequence[Any]) -> tuple[Any, ...]:
        parts = torch.split(x[0], widths, 2)
        return tuple(y.unflatten(2, shape[1::2]).transpose(1, 2) for y, shape in zip(parts, results, strict=True))

    return run


def _turned(op: Operator, source: tuple[int, ...], result: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation of axes that a view stands for; empty if it is not a permutation."""
    perm = integers(op, "perm")
    if perm and tuple(source[p] for p in perm) == result:
        return perm
    if op.kind != "View" or sorted(source) != sorted(result):
        return ()
    left = list(range(len(source)))
    found = []
    for size in result:
        axis = next(a for a in left if source[a] == size)
        left.remove(axis)
        found.append(axis)
    return tuple(found)


def _scatter(torch: Any, op: Operator) -> Call:
    axis = _axis(op, len(op.inputs[0].shape), 0)
    if op.kind == "ScatterElements" and len(op.inputs) > 2:
        return lambda x: torch.scatter(x[0], axis, x[1], x[2])
    return lambda x: x[0].clone()


BUILDERS: dict[str, Callable[[Any, Operator], Call]] = {
    "Conv": _conv, "ConvTranspose": _conv_transpose, "Gemm": _gemm, "MatMul": _matmul, "Einsum": _einsum,
    "Attention": _attention, "LSTMCell": _cell, "GRUCell": _cell, "RNNCell": _cell, "MaxPool": _pool,
    "AveragePool": _pool, "GlobalAveragePool": _global_pool, "GlobalMaxPool": _global_pool,
    "Relu": _unary("relu"), "LeakyRelu": _unary("leaky_relu"), "Elu": _unary("elu"), "Selu": _unary("selu"),
    "Celu": _unary("celu"), "HardSigmoid": _unary("hardsigmoid"), "HardSwish": _unary("hardswish"),
    "ThresholdedRelu": _unary("threshold", 1.0, 0.0), "Softsign": _unary("softsign"), "Softplus": _unary("softplus"),
    "Mish": _unary("mish"), "Swish": _unary("silu"), "Gelu": _unary("gelu"), "Abs": _unary("abs"),
    "Neg": _unary("neg"), "Floor": _unary("floor"), "Ceil": _unary("ceil"), "Round": _unary("round"),
    "Sign": _unary("sign"), "Not": _unary("logical_not"), "Reciprocal": _unary("reciprocal"), "Sqrt": _unary("sqrt"),
    "Exp": _unary("exp"), "Log": _unary("log"), "Sin": _unary("sin"), "Cos": _unary("cos"), "Erf": _unary("erf"),
    "Tanh": _unary("tanh"), "Sigmoid": _unary("sigmoid"), "IsNaN": _unary("isnan"),
    "Clip": _unary("clamp", 0.0, 6.0), "PRelu": _prelu, "Cast": _cast, "Add": _binary("add"), "Sub": _binary("sub"),
    "Mul": _binary("mul"), "Div": _binary("div"), "Pow": _binary("pow"), "Mod": _binary("remainder"),
    "Max": _binary("maximum"), "Min": _binary("minimum"), "Sum": _binary("add"), "Mean": _mean,
    "Where": _where, "Equal": _binary("eq"), "Greater": _binary("gt"),
    "Less": _binary("lt"), "GreaterOrEqual": _binary("ge"), "LessOrEqual": _binary("le"),
    "And": _binary("logical_and"), "Or": _binary("logical_or"), "Xor": _binary("logical_xor"),
    "BatchNormalization": _batch_norm, "Softmax": _by_number("softmax", "axis", -1),
    "LogSoftmax": _by_number("log_softmax", "axis", -1), "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm, "GroupNormalization": _group_norm, "InstanceNormalization": _group_norm,
    "LRN": _by_number("local_response_norm", "size", 5), "LpNormalization": _by_number("normalize", "axis", -1, 2.0),
    "MeanVarianceNormalization": _variance_norm,
    "ReduceMean": _reduce("mean"), "ReduceSum": _reduce("sum"), "ReduceMax": _reduce("amax"),
    "ReduceMin": _reduce("amin"), "ReduceProd": _reduce("prod"), "ReduceL1": _reduce("l1"), "ReduceL2": _reduce("l2"),
    "ReduceSumSquare": _reduce("square"), "ReduceLogSumExp": _reduce("logsumexp"), "ArgMax": _reduce("argmax"),
    "ArgMin": _reduce("argmin"), "TopK": _top_k, "Concat": _concat, "Transpose": _transpose, "Copy": _copy,
    "Pad": _pad, "Expand": _repeated, "Tile": _repeated, "Resize": _resize, "DepthToSpace": _depth_space,
    "SpaceToDepth": _depth_space, "Range": _filled, "ConstantOfShape": _filled, "ScatterND": _scatter,
    "ScatterElements": _scatter, "Trilu": _unary("tril"), "OneHot": _one_hot,
    "CumSum": _by_number("cumsum", "axis", 0), "Slice": _slices,
    "Split": _split, "Gather": _gather, "GatherElements": _gather_elements, "Reshape": _view, "Flatten": _view,
    "Squeeze": _view, "Unsqueeze": _view, "Identity": _view, "Dropout": _view, "View": _view, "SplitView": _split,
    "RecvReduce": _binary("add"), "RotaryEmbedding": _rotary, "TensorScatter": _write_cache,
}  # fmt: skip
"""Kind -> builder of its torch call."""
