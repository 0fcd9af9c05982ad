"""Arithmetic on the numbers of a GraphNet model, within bounds; a number that depends on data stays unknown."""

import ast
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from hetgym._sums import summed
from hetgym.graph.torch_shapes import UNKNOWN, Unknown

LARGEST = 1 << 63  # Bound of whole numbers

BINARY: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("add", operator.add), ast.Sub: ("sub", operator.sub), ast.Mult: ("mul", operator.mul),
    ast.Div: ("div", operator.truediv), ast.FloorDiv: ("floor_divide", operator.floordiv),
    ast.Mod: ("remainder", operator.mod), ast.Pow: ("pow", operator.pow), ast.MatMult: ("matmul", operator.matmul),
    ast.BitAnd: ("bitwise_and", operator.and_), ast.BitOr: ("bitwise_or", operator.or_),
    ast.BitXor: ("bitwise_xor", operator.xor), ast.LShift: ("bitwise_left_shift", operator.lshift),
    ast.RShift: ("bitwise_right_shift", operator.rshift),
}  # fmt: skip
"""Operator between two values -> ATen's name, and the function for two numbers."""

UNARY: dict[type[ast.unaryop], tuple[str, Callable[[Any], Any]]] = {
    ast.USub: ("neg", operator.neg), ast.UAdd: ("alias", operator.pos), ast.Invert: ("bitwise_not", operator.invert),
    ast.Not: ("logical_not", operator.not_),
}  # fmt: skip
"""Operator before a value -> the same."""

COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("eq", operator.eq), ast.NotEq: ("ne", operator.ne), ast.Lt: ("lt", operator.lt),
    ast.LtE: ("le", operator.le), ast.Gt: ("gt", operator.gt), ast.GtE: ("ge", operator.ge),
}  # fmt: skip
"""Comparison -> the same."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "torch.sym_sum": lambda items: summed(items), "torch.sym_int": math.trunc, "torch.sym_float": float,
    "torch.sym_max": max, "torch.sym_min": min, "torch.sym_not": operator.not_, "float": float, "int": int,
    "bool": bool, "torch.sym_sqrt": math.sqrt, "math.sqrt": math.sqrt, "math.ceil": math.ceil, "math.floor": math.floor,
}  # fmt: skip
"""Functions of numbers."""


def is_number(value: object) -> bool:
    """Whether a value is a number, known or not."""
    return isinstance(value, int | float | Unknown)


def checked(value: object) -> Any:
    """A number within bounds.

    Raises:
        ValueError: it is not a real number, or too large.
    """
    if isinstance(value, Unknown):
        return value
    if not isinstance(value, int | float) or (isinstance(value, int) and abs(value) >= LARGEST):
        raise ValueError("the result is not a real number below 2**63")
    return value


def computed(function: Callable[..., Any], values: Sequence[Any]) -> Any:
    """A function of numbers; unknown if one of them is.

    Raises:
        ArithmeticError, TypeError, ValueError: it has no value, or one out of bounds.
    """
    items = [item for value in values for item in (value if isinstance(value, list | tuple) else [value])]
    if any(isinstance(item, Unknown) for item in items):
        return UNKNOWN
    if function in (operator.pow, operator.lshift) and isinstance(values[1], int) and abs(values[1]) > 64:
        values = [float(values[0]), float(values[1])] if function is operator.pow else [1, LARGEST]
    return checked(function(*values))
