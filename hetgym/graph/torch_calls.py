"""What a text may call: PyTorch's functions and methods by their names, and the arguments that they take.

This module does not import torch.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hetgym.graph.pt2_nodes import Node
from hetgym.graph.torch_functions import FUNCTIONS, Function
from hetgym.graph.torch_shapes import Dtype

SYNONYMS = {
    "true_divide": "div", "divide": "div", "multiply": "mul", "subtract": "sub", "swapdims": "transpose",
    "absolute": "abs", "greater": "gt", "less": "lt", "not_equal": "ne", "clip": "clamp", "concatenate": "cat",
    "moveaxis": "movedim", "T": "numpy_T", "H": "mT", "tensor": "scalar_tensor", "as_tensor": "scalar_tensor",
    "log_sigmoid": "logsigmoid", "invert": "bitwise_not", "negative": "neg", "fold": "col2im", "type": "to",
    "linalg_norm": "linalg_vector_norm", "dropout1d": "feature_dropout", "dropout2d": "feature_dropout",
    "dropout3d": "feature_dropout", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip
"""Another name of a function -> ATen's."""

CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64",
    "int": "int32", "short": "int16", "byte": "uint8", "char": "int8", "bool": "bool",
}  # fmt: skip
"""Methods that cast -> the dtype."""

SPACES = (
    "torch", "torch.nn.functional", "torch._C._nn", "torch.functional", "torch._C._linalg", "torch.linalg",
    "torch._C._special", "torch.special",
)  # fmt: skip
"""Modules whose functions have the names of :data:`FUNCTIONS`."""

_KEYWORDS = {"axis": "dim", "split_size_or_sections": "split_size", "input": "self", "size": "shape"}
"""A keyword of a call -> the parameter, of functions without a parameter of that name."""

_ORDERS = {"embedding": ("indices", "weight")}
"""Parameters of PyTorch's function, where ATen's have another order."""


def find(path: str) -> Function | None:
    """The function that a dotted name means; None if there is none.

    >>> find("torch._C._nn.gelu").name, find("torch.ops.aten.index.Tensor").name, find("os.system")
    ('gelu', 'index', None)
    """
    if path.startswith("torch.ops.aten."):
        return FUNCTIONS.get(path.split(".")[3])
    space, _, name = path.rpartition(".")
    if space in ("torch.fft", "torch._C._fft"):
        return FUNCTIONS.get(f"fft_{name.removeprefix('fft_')}")
    if path == "torch.nn.functional.unfold":
        return FUNCTIONS["im2col"]
    return FUNCTIONS.get(SYNONYMS.get(name, name)) if space in SPACES else None


def find_method(name: str) -> tuple[Function | None, bool]:
    """The function that a tensor's method means, and whether it writes to the tensor.

    >>> find_method("add_")[1], find_method("__eq__")[0].name, find_method("item")
    (True, 'eq', (None, False))
    """
    bare = name.strip("_")
    in_place = name.endswith("_") and not name.endswith("__")
    return FUNCTIONS.get(SYNONYMS.get(bare, bare)), in_place


def bound(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by the names of a function's parameters, in its order; a dtype is always ``dtype``.

    Raises:
        TypeError: a tensor is left over. Flags that are left over change nothing here and are dropped.
    """
    names = [name.removesuffix("*") for name in function.parameters]
    places = [*_ORDERS.get(function.name, ()), *names[len(_ORDERS.get(function.name, ())) :]]
    given = [value for value in args if not isinstance(value, Dtype)]
    dtypes = [value for value in args if isinstance(value, Dtype)]
    found: dict[str, Any] = {"dtype": dtypes[-1]} if dtypes else {}
    last = next((k for k, name in enumerate(function.parameters) if name.endswith("*")), len(given))
    if len(given) > last:
        rest = given[last:]
        given[last:] = [rest[0] if len(rest) == 1 and isinstance(rest[0], list | tuple) else rest]
    found |= dict(zip(places, given, strict=False))
    left = given[len(places) :]
    for key, value in kwargs.items():
        name = key if key in (*names, "dtype") else _KEYWORDS.get(key, key)
        if name == "self" and "self" not in names:
            name = places[0]
        if name in (*names, "dtype"):
            found[name] = value
        else:
            left.append(value)
    if any(isinstance(value, Node) for value in left):
        raise TypeError("a tensor is more than the function takes")
    return {name: found[name] for name in (*names, "dtype") if name in found}
