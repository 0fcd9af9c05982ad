"""Nodes of a GraphNet model: its statements are followed with types in place of tensors, and nothing is executed."""

import ast
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hetgym.errors import GraphError, shown
from hetgym.graph.graphnet_composites import COMPOSITES
from hetgym.graph.graphnet_graph import DEEPEST, MOST_ITEMS, Nodes, leaves, type_of
from hetgym.graph.graphnet_indices import indexed, scattered
from hetgym.graph.graphnet_numbers import BINARY, COMPARISONS, FUNCTIONS, UNARY, computed, is_number
from hetgym.graph.graphnet_text import Statement
from hetgym.graph.pt2_nodes import Node
from hetgym.graph.torch_calls import CASTS, bound, find, find_method
from hetgym.graph.torch_functions import MAX_ALONG, MAX_OF_ALL, MIN_ALONG, MIN_OF_ALL
from hetgym.graph.torch_layouts import ORDER, sizes_of
from hetgym.graph.torch_shapes import MISFITS, UNKNOWN, Dtype

_DTYPES = {name: name for name in ORDER} | {
    "float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32", "short": "int16",
    "cfloat": "complex64", "float8_e4m3fn": "float8", "float8_e5m2": "float8",
}  # fmt: skip
_NO_EFFECT = {
    "torch._C._log_api_usage_once", "torch._C._set_grad_enabled", "torch.amp.autocast_mode._enter_autocast",
    "torch.amp.autocast_mode._exit_autocast", "torch._check_is_size", "torch._check",
    "torch.ops.aten._assert_scalar.default", "torch._assert_async", "torch.autograd.function.FunctionCtx",
    *(f"torch.{space}.{name}" for space in ("_functorch.predispatch", "_C._functorch", "_functorch.vmap")
      for name in ("lazy_load_decompositions", "_vmap_increment_nesting", "_vmap_decrement_nesting")),
}  # fmt: skip
"""Functions that compute nothing."""

_METHODS = {
    "torch.ops.aten.sym_size.int": "size", "torch.ops.aten._local_scalar_dense": "item", "torch.max": "max",
    "torch.min": "min",
}  # fmt: skip
"""Functions that are read as methods of their first argument."""

_WORDS = {"inf": math.inf, "Ellipsis": ...}  # Names that have a value of their own


class Word(str):
    """A device, a memory format, or another word of PyTorch that changes no shape."""


class Tracer:
    """Follows statements.

    Args:
        where: the file, for messages.
        nodes: the nodes so far, and the values of the arguments.
    """

    def __init__(self, where: str, nodes: Nodes) -> None:
        self._where = where
        self._nodes = nodes
        self._done = False

    def follow(self, statements: Iterable[Statement]) -> list[Node]:
        """All nodes, the arguments first and the output last.

        Raises:
            GraphError: a statement is not one of GraphNet, or its arguments do not fit.
        """
        for line, text, tree in statements:
            try:
                if self._done:
                    raise ValueError("a statement follows the return")
                self._statement(tree)
            except MISFITS as cause:
                raise GraphError(f"{self._where}: line {line}: {shown(text)}: {_reason(cause)}") from cause
        if not self._done:
            raise GraphError(f"{self._where}: forward returns nothing")
        return self._nodes.made

    def _statement(self, tree: ast.stmt) -> None:
        self._nodes.target = ""
        if isinstance(tree, ast.Assign):
            self._assign(tree)
        elif isinstance(tree, ast.AugAssign) and isinstance(tree.target, ast.Name):
            self._nodes.target = tree.target.id
            before, other = self._name(tree.target), self._value(tree.value)
            after = self._arithmetic(tree.op, before, other)
            if isinstance(before, Node) and isinstance(after, Node):
                self._nodes.write(before, after)
            self._nodes.assign(tree.target.id, after)
        elif isinstance(tree, ast.Expr):
            self._value(tree.value)
        elif isinstance(tree, ast.Return) and tree.value is not None:
            result = self._value(tree.value)
            self._nodes.made.append(Node("output", "output", args=(result,)))
            self._done = True
        else:
            raise TypeError("not a statement of a GraphNet model, which assigns the results of calls and returns some")

    def _assign(self, tree: ast.Assign) -> None:
        first = tree.targets[0]
        self._nodes.target = first.id if isinstance(first, ast.Name) else ""
        value = self._value(tree.value)
        for target in tree.targets:
            if isinstance(target, ast.Name):
                if isinstance(tree.value, ast.Constant) and value is None:
                    self._nodes.forget(target.id)
                else:
                    self._nodes.assign(target.id, value)
            elif isinstance(target, ast.Subscript):
                owner = self._value(target.value)
                if not isinstance(owner, Node):
                    raise TypeError("only elements of a tensor can be assigned")
                self._nodes.write(owner, scattered(self._nodes.make, owner, self._value(target.slice), value))
            else:
                raise TypeError("only names and elements of tensors can be assigned")

    # Expressions

    def _value(self, tree: ast.expr, depth: int = 0) -> Any:
        if depth > DEEPEST:
            raise ValueError("an expression is nested too deeply")
        self._nodes.spend(1)
        handler = _EXPRESSIONS.get(type(tree))
        if handler is None:
            raise TypeError(f"an expression of the kind {type(tree).__name__} is not one of a GraphNet model")
        return handler(self, tree, depth + 1)

    def _constant(self, tree: ast.Constant, depth: int) -> Any:
        value = tree.value
        if isinstance(value, bytes | complex) or (isinstance(value, int) and abs(value) >= 1 << 64):
            raise TypeError(f"{shown(value)} is not a number or a text of a GraphNet model")
        return value

    def _name(self, tree: ast.Name, depth: int = 0) -> Any:
        try:
            return self._nodes.value(tree.id)
        except KeyError:
            if tree.id in _WORDS:
                return _WORDS[tree.id]
            raise ValueError(f"{shown(tree.id)} has no value here") from None

    def _sequence(self, tree: ast.Tuple | ast.List, depth: int) -> Any:
        found = self._counted([self._value(item, depth) for item in tree.elts])
        return tuple(found) if isinstance(tree, ast.Tuple) else found

    def _counted(self, found: Any) -> Any:
        """A list that is not too long."""
        count = leaves(found)
        if count > MOST_ITEMS:
            raise ValueError(f"a list has more than {MOST_ITEMS} values")
        self._nodes.spend(count)
        return found

    def _binary(self, tree: ast.BinOp, depth: int) -> Any:
        return self._arithmetic(tree.op, self._value(tree.left, depth), self._value(tree.right, depth))

    def _arithmetic(self, kind: ast.operator, left: Any, right: Any) -> Any:
        name, function = BINARY[type(kind)]
        if is_number(left) and is_number(right):
            return computed(function, [left, right])
        if isinstance(left, list | tuple) and isinstance(right, int) and name == "mul":
            if leaves(left) * right > MOST_ITEMS:
                raise ValueError(f"a list has more than {MOST_ITEMS} values")
            return self._counted(left * right)
        if name == "sub" and is_number(left):
            return self._nodes.make("rsub", right, left)
        return self._nodes.make(name, left, right)

    def _unary(self, tree: ast.UnaryOp, depth: int) -> Any:
        value = self._value(tree.operand, depth)
        name, function = UNARY[type(tree.op)]
        return computed(function, [value]) if is_number(value) else self._nodes.make(name, value)

    def _compare(self, tree: ast.Compare, depth: int) -> Any:
        pair = COMPARISONS.get(type(tree.ops[0]))
        if len(tree.ops) > 1 or pair is None:
            raise TypeError("a GraphNet model compares two values by ==, !=, <, <=, > or >=")
        values = [self._value(tree.left, depth), self._value(tree.comparators[0], depth)]
        return computed(pair[1], values) if all(map(is_number, values)) else self._nodes.make(pair[0], *values)

    def _attribute(self, tree: ast.Attribute, depth: int) -> Any:
        path = _path(tree)
        if path.startswith("torch."):
            name = path.removeprefix("torch.")
            return Dtype(_DTYPES[name]) if name in _DTYPES else Word(path)
        owner = self._value(tree.value, depth)
        if isinstance(owner, list) and len(owner) == 2 and tree.attr in ("values", "indices"):
            return owner[tree.attr == "indices"]
        if not isinstance(owner, Node):
            raise TypeError(f"only a tensor has the attribute {shown(tree.attr)}")
        if tree.attr in ("T", "mT", "H", "real"):
            return self._nodes.make({"T": "numpy_T", "H": "mT"}.get(tree.attr, tree.attr), owner)
        held = type_of(owner)
        known = {"shape": sizes_of(held), "dtype": Dtype(held.dtype), "device": Word("device"), "data": owner}
        if tree.attr not in known:
            raise TypeError(f"hetgym does not know a tensor's attribute {shown(tree.attr)}")
        return known[tree.attr]

    def _subscript(self, tree: ast.Subscript, depth: int) -> Any:
        owner, index = self._value(tree.value, depth), self._value(tree.slice, depth)
        if isinstance(owner, Node):
            return indexed(self._nodes.make, owner, index)
        if isinstance(owner, list | tuple) and isinstance(index, int | slice):
            return owner[index]
        raise TypeError("only tensors and lists have elements")

    def _slice(self, tree: ast.Slice, depth: int) -> slice:
        return slice(*(None if end is None else self._value(end, depth) for end in (tree.lower, tree.upper, tree.step)))

    # Calls

    def _calling(self, tree: ast.Call, depth: int) -> Any:
        args = [self._value(item, depth) for item in tree.args]
        if any(item.arg is None for item in tree.keywords):
            raise TypeError("a GraphNet model names its arguments; it has no **")
        kwargs = {str(item.arg): self._value(item.value, depth) for item in tree.keywords}
        path = _path(tree.func)
        if path in ("device", "torch.device"):
            return Word("device")
        if path == "slice":
            return slice(*args)
        if path in FUNCTIONS:
            return computed(FUNCTIONS[path], args)
        if path.startswith("torch."):
            return self._function(path, args, kwargs)
        if not isinstance(tree.func, ast.Attribute):
            raise TypeError(f"{shown(path)} is not a function of PyTorch")
        owner = self._value(tree.func.value, depth)
        if not isinstance(owner, Node):
            raise TypeError(f"only a tensor has the method {shown(tree.func.attr)}")
        return self._method(owner, tree.func.attr, args, kwargs)

    def _function(self, path: str, args: list[Any], kwargs: Mapping[str, Any]) -> Any:
        if path in _NO_EFFECT:
            return None
        if path == "torch.Size":
            return tuple(args[0])
        if path in _METHODS and args and isinstance(args[0], Node):
            return self._method(args[0], _METHODS[path], args[1:], kwargs)
        if path in COMPOSITES:
            return COMPOSITES[path](self._nodes.make, *args, **kwargs)
        function = find(path)
        if function is None and path.endswith("_"):
            function, kwargs = find(path.removesuffix("_")), {**kwargs, "inplace": True}
        if function is None:
            raise TypeError(f"hetgym does not know the function {path}")
        if function.name == "interpolate":
            given = bound(function, args, kwargs)
            mode, rank = str(given.get("mode", "nearest")), len(type_of(given["self"]).shape) - 2
            name = "adaptive_avg_pool" if mode == "area" else f"upsample_{mode.removesuffix('-exact')}"
            function = function._replace(name=f"{name}{rank}d")
        return self._nodes.call(function, args, kwargs)

    def _method(self, owner: Node, name: str, args: list[Any], kwargs: Mapping[str, Any]) -> Any:
        shape = sizes_of(type_of(owner))
        known = {"dim": len(shape), "numel": math.prod(shape), "item": owner.meta.get("number", UNKNOWN)}
        if name == "size":
            return shape[(*args, *kwargs.values())[0]] if args or kwargs else shape
        if name in known:
            return known[name]
        if name in CASTS and not args:
            return self._nodes.make("to", owner, Dtype(CASTS[name]))
        if name in ("cuda", "cpu", "requires_grad_"):
            return owner
        if name in ("max", "min"):
            return self._extreme(owner, name, args, kwargs)
        function, in_place = find_method(name)
        if function is None:
            raise TypeError(f"hetgym does not know a tensor's method {shown(name)}")
        return self._nodes.call(function, [owner, *args], {**kwargs, "inplace": True} if in_place else kwargs)

    def _extreme(self, owner: Node, name: str, args: list[Any], kwargs: Mapping[str, Any]) -> Any:
        """``max`` and ``min``: of two tensors, along an axis, or of all elements."""
        other = next((value for value in (*args, *kwargs.values()) if isinstance(value, Node)), None)
        if other is not None:
            return self._nodes.make(f"{name}imum", owner, other)
        along, of_all = (MAX_ALONG, MAX_OF_ALL) if name == "max" else (MIN_ALONG, MIN_OF_ALL)
        return self._nodes.call(along if args or kwargs else of_all, [owner, *args], kwargs)


def _path(tree: ast.expr) -> str:
    """The dotted name that an expression is; empty if it is something else."""
    parts: list[str] = []
    while isinstance(tree, ast.Attribute):
        parts.append(tree.attr)
        tree = tree.value
    return ".".join([tree.id, *reversed(parts)]) if isinstance(tree, ast.Name) else ""


def _reason(cause: Exception) -> str:
    """Why arguments do not fit."""
    if isinstance(cause, OverflowError):
        return "a number is too large"
    return f"the argument {cause} is missing" if isinstance(cause, KeyError) else str(cause) or type(cause).__name__


_EXPRESSIONS: dict[type[ast.expr], Callable[..., Any]] = {
    ast.Constant: Tracer._constant, ast.Name: Tracer._name, ast.Tuple: Tracer._sequence, ast.List: Tracer._sequence,
    ast.BinOp: Tracer._binary, ast.UnaryOp: Tracer._unary, ast.Compare: Tracer._compare,
    ast.Attribute: Tracer._attribute, ast.Subscript: Tracer._subscript, ast.Slice: Tracer._slice,
    ast.Call: Tracer._calling,
}  # fmt: skip
"""Type of an expression -> the method that follows it."""
