"""Mapping of PyTorch's ATen operators to hetgym's vocabulary.

It consists of a table and the few rules that the table cannot express: the order of operands that the FLOP formulas
expect, and the attributes. This module does not import torch.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hetgym.graph.ops import KINDS, Attribute

_NAMES = {
    "Conv": "conv1d conv2d conv3d convolution _convolution",
    "ConvTranspose": "conv_transpose1d conv_transpose2d conv_transpose3d",
    "Gemm": "linear addmm mm _addmm_activation",
    "MatMul": "matmul bmm baddbmm mv dot",
    "Einsum": "einsum", "GroupedMatMul": "_grouped_mm transformers::grouped_mm_fallback",
    "Attention": "scaled_dot_product_attention _scaled_dot_product_flash_attention "
    "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention",
    "LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh rnn_relu", "LSTMCell": "lstm_cell",
    "GRUCell": "gru_cell", "RNNCell": "rnn_tanh_cell rnn_relu_cell",
    "MaxPool": "max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d",
    "AveragePool": "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
    "_adaptive_avg_pool2d",
    "LayerNormalization": "layer_norm native_layer_norm", "GroupNormalization": "group_norm native_group_norm",
    "RMSNormalization": "rms_norm _fused_rms_norm", "InstanceNormalization": "instance_norm",
    "BatchNormalization": "batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training",
    "Softmax": "softmax _softmax _safe_softmax", "LogSoftmax": "log_softmax _log_softmax",
    "Relu": "relu", "LeakyRelu": "leaky_relu", "PRelu": "prelu _prelu_kernel", "Elu": "elu", "Selu": "selu",
    "HardSigmoid": "hardsigmoid", "HardSwish": "hardswish", "Clip": "clamp clamp_min clamp_max hardtanh relu6",
    "Abs": "abs", "Neg": "neg", "Floor": "floor", "Ceil": "ceil", "Round": "round trunc", "Sign": "sign sgn",
    "Not": "logical_not bitwise_not", "Reciprocal": "reciprocal", "Sqrt": "sqrt rsqrt", "Exp": "exp exp2 expm1",
    "Log": "log log2 log10 log1p", "Sin": "sin", "Cos": "cos", "Erf": "erf", "Tanh": "tanh", "Sigmoid": "sigmoid",
    "Softplus": "softplus", "Mish": "mish", "Swish": "silu", "Gelu": "gelu", "IsNaN": "isnan isinf",
    "Cast": "to _to_copy type_as",
    "Add": "add", "Sub": "sub rsub", "Mul": "mul square", "Div": "div true_divide floor_divide", "Pow": "pow",
    "Mod": "remainder fmod", "Max": "maximum max.other", "Min": "minimum min.other", "Where": "where masked_fill",
    "Equal": "eq ne", "Greater": "gt", "Less": "lt", "GreaterOrEqual": "ge", "LessOrEqual": "le",
    "And": "logical_and bitwise_and __and__", "Or": "logical_or bitwise_or __or__",
    "Xor": "logical_xor bitwise_xor __xor__",
    "Concat": "cat concat stack", "Pad": "pad constant_pad_nd reflection_pad2d replication_pad2d",
    "Tile": "repeat tile repeat_interleave", "DepthToSpace": "pixel_shuffle", "SpaceToDepth": "pixel_unshuffle",
    "Resize": "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_bicubic2d",
    "ScatterND": "index_put slice_scatter select_scatter index_copy index_add",
    "ScatterElements": "scatter scatter_add scatter_reduce", "Trilu": "tril triu", "OneHot": "one_hot",
    "CumSum": "cumsum", "Copy": "clone copy contiguous roll flip channel_shuffle native_channel_shuffle",
    "Identity": "alias detach",
    "Gather": "embedding index_select", "GatherND": "index", "GatherElements": "gather take_along_dim",
    "Reshape": "view reshape _unsafe_view unflatten view_as reshape_as", "Flatten": "flatten", "Squeeze": "squeeze",
    "Unsqueeze": "unsqueeze",
    "View": "transpose permute t numpy_T mT movedim swapaxes expand expand_as broadcast_to slice select narrow split "
    "split_with_sizes chunk tensor_split unbind diagonal unfold as_strided",
    "ReduceMean": "mean", "ReduceSum": "sum histc bincount", "ReduceMax": "amax max any", "ReduceMin": "amin min all",
    "ReduceProd": "prod", "ReduceL2": "norm linalg_vector_norm", "ReduceSumSquare": "var std var_mean",
    "ReduceLogSumExp": "logsumexp", "ArgMax": "argmax", "ArgMin": "argmin", "TopK": "topk sort",
}  # fmt: skip

ATEN: dict[str, str] = {name: kind for kind, names in _NAMES.items() for name in names.split()}
"""ATen operator (or ``operator.overload``, where overloads differ) -> kind."""

FACTORIES = {
    "arange", "zeros", "ones", "full", "empty", "eye", "linspace", "scalar_tensor", "zeros_like", "ones_like",
    "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty", "tril_indices", "triu_indices",
}  # fmt: skip
"""Operators whose result is a constant, whatever their operands."""

ALIASES = {"alias", "detach", "detach_", "lift_fresh", "lift_fresh_copy", "dropout", "feature_dropout", "alpha_dropout"}
"""Operators that return their operand unchanged in inference."""

TURNS = {
    "t", "transpose", "permute", "numpy_T", "mT", "movedim", "swapaxes", "view", "reshape", "_unsafe_view", "unflatten",
    "flatten", "squeeze", "unsqueeze", "contiguous",
}  # fmt: skip
"""Operators that return every number of their operand exactly once, in another shape."""

MAY_COPY = {"reshape", "flatten", "contiguous", "reshape_as"}
"""Operators that copy only if the operand's strides require it."""

_ORDERS = {
    "addmm _addmm_activation": ("mat1", "mat2", "self"),
    "baddbmm": ("batch1", "batch2", "self"),
    "lstm gru rnn_tanh rnn_relu": ("input", "data", "params", "hx"),
    "lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell": ("input", "w_ih", "w_hh", "b_ih", "b_hh", "hx"),
}
_ORDER = {name: order for names, order in _ORDERS.items() for name in names.split()}
"""Argument names in the order of the kind's operands, where ATen's order differs."""

_ATTRIBUTES = {
    "dim": "axis", "dims": "perm", "equation": "equation", "num_groups": "num_groups", "is_causal": "is_causal",
    "num_layers": "num_layers", "bidirectional": "bidirectional",
}  # fmt: skip
_INTERPOLATION = {"linear": "linear", "cubic": "cubic"}
"""Part of the name of an operator that resizes -> ONNX's mode; the others take the nearest number."""

_SPATIAL = {"stride": "strides", "dilation": "dilations", "kernel_size": "kernel_shape"}


def kind_of(namespace: str, name: str, overload: str) -> str:
    """The kind of an operator; an unknown operator keeps its own name.

    >>> kind_of("aten", "max", "other"), kind_of("aten", "max", "dim"), kind_of("vision", "nms", "default")
    ('Max', 'ReduceMax', 'vision::nms')
    """
    if namespace != "aten":
        return ATEN.get(f"{namespace}::{name}") or f"{namespace}::{name}"
    return ATEN.get(f"{name}.{overload}") or ATEN.get(name) or (f"aten::{name}" if name in KINDS else name)


def in_order(name: str, arguments: Mapping[str, Any]) -> list[Any]:
    """The arguments of a call, with the operands that the kind's formulas expect first."""
    first = _ORDER.get(name, ())
    return [arguments[key] for key in first if key in arguments] + [
        value for key, value in arguments.items() if key not in first
    ]


def attributes_of(
    name: str, kind: str, arguments: Mapping[str, Any], shapes: Sequence[tuple[int, ...]], result: tuple[int, ...]
) -> dict[str, Attribute]:
    """Attributes of an operator under ONNX's names, from ATen's name, its arguments by name, and its shapes."""
    kept: dict[str, Attribute] = {}
    for key, word in _ATTRIBUTES.items():
        value = arguments.get(key)
        if isinstance(value, int | str):
            kept[word] = int(value) if isinstance(value, int) else value
        elif isinstance(value, list | tuple) and all(isinstance(item, int) for item in value):
            kept["axes" if word == "axis" else word] = tuple(value)
    if kind in ("Conv", "ConvTranspose"):
        kept |= _spatial(arguments, len(shapes[1]) - 2)
        kept["kernel_shape"] = tuple(shapes[1][2:])
        kept["group"] = int(arguments.get("groups", 1))
    elif kind in ("MaxPool", "AveragePool"):
        kept |= _adaptive(shapes[0], result) if "adaptive" in name else _spatial(arguments, len(result) - 2)
    elif name == "linear":
        kept["transB"] = 1
    elif kind in ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell"):
        kept["hidden_size"] = shapes[2][-1]
    elif kind == "Resize":
        kept["mode"] = next((mode for word, mode in _INTERPOLATION.items() if word in name), "nearest")
        if arguments.get("align_corners"):
            kept["coordinate_transformation_mode"] = "align_corners"
    return kept


def _spatial(arguments: Mapping[str, Any], rank: int) -> dict[str, Attribute]:
    """Strides, dilations and the like with one number per axis; pads with two, one for each end."""
    kept: dict[str, Attribute] = {}
    for key, word in _SPATIAL.items():
        if arguments.get(key):
            kept[word] = _per_axis(arguments[key], rank)
    padding = arguments.get("padding", 0)
    if isinstance(padding, str):
        kept["auto_pad"] = "SAME_UPPER" if padding == "same" else "VALID"
    else:
        kept["pads"] = _per_axis(padding, rank) * 2
    return kept


def _per_axis(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * rank if len(numbers) == 1 else numbers


def _adaptive(source: tuple[int, ...], result: tuple[int, ...]) -> dict[str, Attribute]:
    """The window of adaptive pooling: the number of inputs per output along each axis."""
    window = zip(source[2:], result[2:], strict=True)
    return {"kernel_shape": tuple(math.ceil(before / max(1, after)) for before, after in window)}
