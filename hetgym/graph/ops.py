"""The operator vocabulary: FLOPs, bytes and fusion class of each kind of operator.

Kinds have ONNX's names; every importer maps its own operators to them. A kind that is not in :data:`KINDS` is legal: it
is priced as a memory-bound operator that reads its inputs and writes its outputs once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from hetgym._sums import summed
from hetgym.graph.formats import FORMATS, bytes_of

Attribute = int | float | str | tuple[int, ...]

DTYPE_BYTES: dict[str, float] = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8": 1, "int64": 8, "int32": 4, "int16": 2, "int8": 1,
    "int4": 0.5, "uint64": 8, "uint32": 4, "uint16": 2, "uint8": 1, "bool": 1, "complex64": 8, "complex128": 16,
    **{name: bytes_of(name) for name in FORMATS},
}  # fmt: skip
"""Dtype -> bytes of one number; quantised formats take whole blocks, see :data:`~hetgym.graph.formats.FORMATS`."""


class FusionClass(IntEnum):
    """Classes of operators for fusion, in TVM's order (Chen et al., OSDI 2018, section 4.1)."""

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    OUT_FUSABLE = 4
    OPAQUE = 5


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's type: shape, dtype, and a mark for constants (weights).

    Args:
        shape: concrete sizes; ``()`` is a scalar.
        dtype: a key of :data:`DTYPE_BYTES`.
        constant: True for weights and folded constants, which stay on the device.
        name: identity of a constant: constants of the same name are the same weight.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    constant: bool = False
    name: str = ""

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> float:
        """Size in bytes."""
        return self.size * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Operator:
    """One node of a dataflow graph.

    Args:
        name: unique within the graph.
        kind: a key of :data:`KINDS`, or any other word for a generic memory-bound operator.
        inputs: all operands, constants included, in the kind's order.
        outputs: one tensor or more; an edge carries one of them.
        attributes: the attributes that the FLOP formula needs (``kernel_shape``, ``group``, ``transA``, …); a
            read-only copy is kept.
    """

    name: str
    kind: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict, hash=False)
    _known: tuple[float, float, float] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))

    def __deepcopy__(self, memo: object) -> Operator:
        """Return the operator itself: it is immutable."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the constructor's arguments: a read-only view of a dictionary cannot be pickled."""
        return Operator, (self.name, self.kind, self.inputs, self.outputs, dict(self.attributes))

    @property
    def spec(self) -> OpKind:
        """The vocabulary's entry for this operator's kind."""
        return KINDS.get(self.kind) or (BODIES if "reads" in self.attributes else GENERIC)

    @property
    def flops(self) -> float:
        """Floating-point operations of one execution [FLOP]; a multiply-add counts as two."""
        return self._work()[0]

    @property
    def bytes_read(self) -> float:
        """Bytes read from memory, each operand once [byte]."""
        return self._work()[1]

    @property
    def bytes_written(self) -> float:
        """Bytes written to memory [byte]; views write nothing."""
        return self._work()[2]

    def _work(self) -> tuple[float, float, float]:
        """FLOPs, bytes read and bytes written, computed once: every device's price asks for them."""
        if self._known is None:
            spec = self.spec
            written = 0.0 if spec.reads is _nothing else self.output_bytes
            object.__setattr__(self, "_known", (float(spec.flops(self)), float(spec.reads(self)), written))
        assert self._known is not None
        return self._known

    @property
    def output_bytes(self) -> float:
        """Bytes of all outputs [byte]."""
        return float(summed(t.bytes for t in self.outputs))

    @property
    def weight_bytes(self) -> float:
        """Bytes of all constant operands [byte]."""
        return float(summed(t.bytes for t in self.inputs if t.constant))

    @property
    def dtype(self) -> str:
        """The dtype of the arithmetic: that of the first output, or of the first input if there is no output."""
        tensors = self.outputs or self.inputs
        return tensors[0].dtype if tensors else "float32"


@dataclass(frozen=True, slots=True)
class OpKind:
    """An entry of the vocabulary: the properties of one kind of operator."""

    family: str  # group of kinds with the same efficiency on a device: `conv`, `matmul`, …
    fusion: FusionClass  # TVM's operator class
    flops: Callable[[Operator], float]  # function from an operator to its FLOPs [FLOP]
    reads: Callable[[Operator], float]  # function from an operator to the bytes that it reads [byte]


def _out(op: Operator) -> int:
    return summed(t.size for t in op.outputs)


def _in(op: Operator) -> int:
    return op.inputs[0].size if op.inputs else 0


def _nothing(op: Operator) -> float:
    return 0.0


def _all_inputs(op: Operator) -> float:
    return summed(t.bytes for t in op.inputs)


def _as_written(op: Operator) -> float:
    """Bytes read by a movement that touches only what it returns: a slice, or a gather from a large table."""
    return summed(t.bytes for t in op.outputs) + summed(t.bytes for t in op.inputs[1:] if not t.constant)


def _per_output(count: float) -> Callable[[Operator], float]:
    return lambda op: count * _out(op)


def _per_input(count: float) -> Callable[[Operator], float]:
    return lambda op: count * _in(op)


def integers(op: Operator, key: str) -> tuple[int, ...]:
    """An attribute that is a list of whole numbers, or one of them; empty if it is missing."""
    value = op.attributes.get(key, ())
    return value if isinstance(value, tuple) else (int(value),)


def integer(op: Operator, key: str, default: int) -> int:
    """An attribute that is a whole number; the default if it is missing, a list or text."""
    value = op.attributes.get(key, default)
    return default if isinstance(value, str | tuple) else int(value)


def _bias(op: Operator, at: int) -> float:
    return float(_out(op)) if len(op.inputs) > at else 0.0


def _conv(op: Operator) -> float:
    """FLOPs of a convolution, or of a transposed one, whose input takes the place of the output."""
    each = op.inputs[0] if op.kind == "ConvTranspose" else op.outputs[0]
    return 2.0 * each.size * math.prod(op.inputs[1].shape[1:]) + _bias(op, 2)  # channels / group x kernel volume


def _matmul(op: Operator) -> float:
    left = op.inputs[0].shape
    inner = left[-2] if integer(op, "transA", 0) and len(left) > 1 else (left[-1] if left else 1)
    return 2.0 * op.outputs[0].size * inner + _bias(op, 2)


def _pool(op: Operator) -> float:
    return float(op.outputs[0].size * math.prod(integers(op, "kernel_shape")))


def _recurrent(op: Operator) -> float:
    """FLOPs of the gate products of all steps, layers and directions, and about 10 operations per gate and unit."""
    rows = math.prod(op.inputs[0].shape[:-1])
    weights = [t for t in op.inputs[1:] if t.constant and len(t.shape) >= 2]
    matrices = [t for t in weights if t.shape[-2] == weights[0].shape[-2]]  # neither biases nor initial states
    gates = summed(math.prod(t.shape[:-1]) for t in matrices) / 2  # an input and a recurrent matrix share the gates
    return 2.0 * rows * summed(t.size for t in matrices) + 10.0 * rows * gates


def _grouped(op: Operator) -> float:
    """FLOPs of the products of groups of rows, each with a matrix of its own; either operand may be cut in groups."""
    left, result = op.inputs[0], op.outputs[0]
    return 2.0 * min(left.size * result.shape[-1], result.size * left.shape[-1])


def _grouped_reads(op: Operator) -> float:
    """All operands, but of the matrices at most one for each row."""
    rows, matrices = op.inputs[0], op.inputs[1]
    skipped = max(0, matrices.shape[0] - rows.shape[0]) if len(rows.shape) == 2 and len(matrices.shape) == 3 else 0
    return _all_inputs(op) - matrices.bytes * skipped / max(1, matrices.shape[0])


def _in_place(op: Operator) -> float:
    """Bytes of an operand that is read and written to a part of the tensor that follows it."""
    return 2.0 * summed(t.bytes for t in op.inputs if not t.constant)


WRITERS = ("TensorScatter",)
"""Kinds that write to constants, such as caches of keys and values: whoever reads their results reads these, too."""


def _einsum(op: Operator) -> float:
    """FLOPs of an einsum: a multiply-add for each combination of all indices and each operand after the first."""
    terms = str(op.attributes.get("equation", "")).replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, op.inputs, strict=False):
        head, dots, tail = term.partition("...")
        sizes.update(zip(head, tensor.shape, strict=False))
        sizes.update(zip(reversed(tail), reversed(tensor.shape), strict=False))
        middle = tensor.shape[len(head) : len(tensor.shape) - len(tail)] if dots else ()
        sizes["..."] = max(sizes.get("...", 1), math.prod(middle))
    return 2.0 * math.prod(sizes.values()) * max(0, len(op.inputs) - 1)


def _attention(op: Operator) -> float:
    """FLOPs of scores, softmax and the sums over values, of all pairs of queries and keys within the window."""
    query, key = op.inputs[0], op.inputs[1]
    keys = min(key.shape[-2], integer(op, "window", 0) or key.shape[-2])
    scores = query.size // max(1, query.shape[-1]) * keys
    result = op.outputs[0].shape if op.outputs else ()
    width = result[-1] if len(result) == len(query.shape) > 0 else query.shape[-1]
    return 2.0 * scores * (query.shape[-1] + width) + 5.0 * scores


def _task(op: Operator) -> float:
    value = op.attributes.get("flops", 0.0)
    return 0.0 if isinstance(value, tuple) else float(value)


def _stated(key: str) -> Callable[[Operator], float]:
    """Make a formula that returns an attribute of the operator, as fused operators state their own figures."""

    def read(op: Operator) -> float:
        value = op.attributes.get(key, 0.0)
        return 0.0 if isinstance(value, str | tuple) else float(value)

    return read


def _kinds(
    family: str,
    fusion: FusionClass,
    flops: Callable[[float], Callable[[Operator], float]],
    reads: Callable[[Operator], float],
    counts: Mapping[str, float],
) -> dict[str, OpKind]:
    return {kind: OpKind(family, fusion, flops(count), reads) for kind, count in counts.items()}


# FLOPs per element: 1 for arithmetic, 2 to 4 for a division or square root, 4 to 10 for a transcendental function.
_UNARY = {
    "Relu": 1, "LeakyRelu": 2, "PRelu": 2, "Elu": 6, "Selu": 6, "HardSigmoid": 3, "HardSwish": 4,
    "Clip": 2, "Abs": 1, "Neg": 1, "Floor": 1, "Ceil": 1, "Round": 1, "Sign": 1, "Not": 1,
    "Reciprocal": 2, "Sqrt": 2, "Exp": 4, "Log": 4, "Sin": 6, "Cos": 6, "Erf": 8, "Tanh": 6,
    "Sigmoid": 5, "Softplus": 8, "Mish": 14, "Swish": 6, "Gelu": 10, "Cast": 1, "IsNaN": 1,
    "Celu": 6, "Softsign": 3, "ThresholdedRelu": 1, "QuantizeLinear": 4, "DequantizeLinear": 2,
}  # fmt: skip
_BINARY = {
    "Add": 1, "Sub": 1, "Mul": 1, "Div": 2, "Pow": 8, "Mod": 2, "Max": 1, "Min": 1, "Sum": 1,
    "Mean": 1, "Where": 1, "Equal": 1, "Greater": 1, "Less": 1, "GreaterOrEqual": 1,
    "LessOrEqual": 1, "And": 1, "Or": 1, "Xor": 1, "BatchNormalization": 2,
}  # fmt: skip
_MOVES = ("Concat", "Transpose", "Pad", "Expand", "Tile", "Resize", "DepthToSpace", "SpaceToDepth",
          "Range", "ConstantOfShape", "ScatterND", "ScatterElements", "Trilu", "OneHot", "Copy",
          "CumSum")  # fmt: skip
_RECURRENT = ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell")
_SELECTS = ("Slice", "Split", "Gather", "GatherElements", "GatherND")
_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Shape", "View", "SplitView")
_COLLECTIVE_VIEWS = ("Bucket", "Recv", "Unbucket")  # pinned to a rank, so never fused; see transforms.collective
_REDUCE = {
    "ReduceMean": 1, "ReduceSum": 1, "ReduceMax": 1, "ReduceMin": 1, "ReduceProd": 1, "ReduceL1": 2, "ReduceL2": 2,
    "ReduceSumSquare": 2, "ReduceLogSumExp": 5, "ArgMax": 1, "ArgMin": 1, "TopK": 4,
}  # fmt: skip
_NORMALISE = {
    "Softmax": 8, "LogSoftmax": 8, "LayerNormalization": 8, "InstanceNormalization": 8, "GroupNormalization": 8,
    "RMSNormalization": 6, "LRN": 12, "LpNormalization": 4, "MeanVarianceNormalization": 8,
}  # fmt: skip

_F = FusionClass
KINDS: dict[str, OpKind] = {
    "Conv": OpKind("conv", _F.OUT_FUSABLE, _conv, _all_inputs),
    "ConvTranspose": OpKind("conv", _F.OUT_FUSABLE, _conv, _all_inputs),
    "MatMul": OpKind("matmul", _F.OUT_FUSABLE, _matmul, _all_inputs),
    "Gemm": OpKind("matmul", _F.OUT_FUSABLE, _matmul, _all_inputs),
    "Einsum": OpKind("matmul", _F.OUT_FUSABLE, _einsum, _all_inputs),
    "GroupedMatMul": OpKind("matmul", _F.OPAQUE, _grouped, _grouped_reads),
    "Attention": OpKind("matmul", _F.OPAQUE, _attention, _all_inputs),
    **dict.fromkeys(_RECURRENT, OpKind("recurrent", _F.OPAQUE, _recurrent, _all_inputs)),
    "MaxPool": OpKind("pool", _F.OUT_FUSABLE, _pool, _all_inputs),
    "AveragePool": OpKind("pool", _F.OUT_FUSABLE, _pool, _all_inputs),
    "Task": OpKind("generic", _F.OPAQUE, _task, _all_inputs),
    **_kinds("elementwise", _F.ELEMENTWISE, _per_output, _all_inputs, _UNARY),
    **_kinds("elementwise", _F.BROADCAST, _per_output, _all_inputs, _BINARY),
    **_kinds("move", _F.INJECTIVE, _per_output, _all_inputs, dict.fromkeys(_MOVES, 0)),
    **_kinds("move", _F.INJECTIVE, _per_output, _as_written, dict.fromkeys(_SELECTS, 0)),
    **_kinds("view", _F.INJECTIVE, _per_output, _nothing, dict.fromkeys(_VIEWS, 0)),
    **_kinds("elementwise", _F.OPAQUE, _per_output, _all_inputs, {"RecvReduce": 1}),
    **_kinds("view", _F.OPAQUE, _per_output, _nothing, dict.fromkeys(_COLLECTIVE_VIEWS, 0)),
    **_kinds("elementwise", _F.INJECTIVE, _per_output, _all_inputs, {"RotaryEmbedding": 3}),
    **_kinds("move", _F.OPAQUE, _per_output, _in_place, dict.fromkeys(WRITERS, 0)),
    **_kinds("reduce", _F.REDUCTION, _per_input, _all_inputs, _REDUCE),
    **_kinds("reduce", _F.OUT_FUSABLE, _per_input, _all_inputs, {"GlobalAveragePool": 1, "GlobalMaxPool": 1}),
    **_kinds("normalise", _F.OPAQUE, _per_output, _all_inputs, _NORMALISE),
}
"""Kind -> its entry. A kind that is added here is known to every importer and cost model."""

KINDS |= {  # fused operators, see transforms.fuse; backward operators and updates, see transforms.training
    f"{what}-{family}": OpKind(family, _F.OPAQUE, _stated("flops"), _nothing if family == "view" else _stated("reads"))
    for what in ("Fused", "Gradient")
    for family in sorted({kind.family for kind in KINDS.values()})
}

GENERIC = OpKind("generic", FusionClass.OPAQUE, _nothing, _all_inputs)
"""The entry for kinds that are not in the vocabulary: memory-bound, never fused."""

BODIES = OpKind("generic", FusionClass.OPAQUE, _task, _stated("reads"))
"""The entry for such operators whose body was counted, in their attributes ``flops`` and ``reads``."""

FAMILIES: tuple[str, ...] = tuple(sorted({k.family for k in KINDS.values()}))
"""All operator families, in alphabetical order."""
