"""Steps and types of the operators in a graph that ``torch.export`` made, in memory or from a file.

This module does not import torch; callers pass the class of its tensors in. So reading a zoo model, or a saved program,
does not load torch.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hetgym.errors import GraphError
from hetgym.graph.assembly import Step, check_tensor
from hetgym.graph.ops import Tensor
from hetgym.graph.torch_ops import ALIASES, FACTORIES, MAY_COPY, TURNS, attributes_of, in_order, kind_of


class Walker:
    """Walks an exported graph and collects steps and types.

    Args:
        tensor: class of the values that are tensors.
        graph: the fx nodes, in order.
        weights: name of the weight of each placeholder that is one.
        holder: object whose attributes ``get_attr`` nodes name.
    """

    def __init__(self, tensor: type, graph: Iterable[Any], weights: Mapping[str, str], holder: object = None) -> None:
        self.steps: list[Step] = []  # one step per operator, in order
        self.nodes: list[Any] = []  # the fx node of each step
        self.values: dict[str, Tensor] = {}  # name -> type of every value that is read or written
        self.results: list[str] = []  # names of the values that the graph returns
        self._tensor = tensor
        self._graph = graph
        self._holder = holder
        self._slots: dict[str, list[str]] = {}  # fx node -> its values, one per output
        self._weights = weights

    def walk(self) -> None:
        """Visit all nodes in order."""
        for node in self._graph:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "get_attr":
                value = getattr(self._holder, str(node.target), None)
                if isinstance(value, self._tensor):
                    self._define(node.name, value, True, str(node.target))
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self.results = [value for item in _nodes(node.args) for value in self.names(item)]

    def _placeholder(self, node: Any) -> None:
        value = node.meta.get("val")
        if isinstance(value, self._tensor):
            self._define(node.name, value, node.name in self._weights, self._weights.get(node.name, ""))

    def _define(self, name: str, value: Any, constant: bool, weight: str) -> None:
        """Record a value's type and, for a constant, the name of the weight."""
        if not all(type(size) is int for size in value.shape):
            raise GraphError(f"the shape {list(value.shape)} of {name!r} depends on data, so its cost is unknown")
        dtype = str(value.dtype).removeprefix("torch.").removeprefix("q")
        dtype = "float8" if dtype.startswith("float8") else dtype
        tensor = Tensor(tuple(value.shape), dtype, constant, weight)
        self.values[name] = check_tensor(tensor, f"value {name!r}")

    def names(self, node: Any) -> list[str]:
        """Names of the values that an fx node stands for."""
        return [name for name in self._slots.get(node.name, [node.name]) if name in self.values]

    def _call(self, node: Any) -> None:
        namespace, name, overload = split_name(node.target)
        if name == "getitem":
            source, index = node.args
            self._slots[node.name] = [self._slots[source.name][index]] if source.name in self._slots else []
            return
        result = node.meta.get("val")
        outputs = list(result) if isinstance(result, list | tuple) else [result]
        if not any(isinstance(output, self._tensor) for output in outputs):
            return  # assertions and arithmetic on sizes take no time
        arguments = _arguments(node)
        operands = [value for item in _nodes(in_order(name, arguments)) for value in self.names(item)]
        if operands and (unchanged(node) or _no_copy(node, name, result)):
            self._slots[node.name] = operands[:1]
            return
        inputs = [self.values[value] for value in operands]
        constant = name in FACTORIES or (bool(inputs) and all(tensor.constant for tensor in inputs))
        made = self._define_outputs(node, outputs, inputs, constant)
        if not constant:
            shapes = [tensor.shape for tensor in inputs]
            result_shape = self.values[made[0]].shape
            kind = _refined(kind_of(namespace, name, overload), name, node, arguments, result_shape)
            attributes = attributes_of(name, kind, arguments, shapes, result_shape)
            self.steps.append(Step(_readable(node, name), kind, operands, made, attributes))
            self.nodes.append(node)

    def _define_outputs(self, node: Any, outputs: list[Any], inputs: list[Tensor], constant: bool) -> list[str]:
        """Record the outputs' types and return their names."""
        several = isinstance(node.meta["val"], list | tuple)
        names = [f"{node.name}:{i}" if several else node.name for i in range(len(outputs))]
        tensors = {name: value for name, value in zip(names, outputs, strict=True) if hasattr(value, "dtype")}
        # A weight that is only transposed or reshaped stays the same weight; a computed one gets its name later.
        turned = constant and len(inputs) == 1 and split_name(node.target)[1] in TURNS
        for name, value in tensors.items():
            self._define(name, value, constant, inputs[0].name if turned else "")
        self._slots[node.name] = [name if name in tensors else "" for name in names]
        return list(tensors)


def _refined(kind: str, name: str, node: Any, arguments: Mapping[str, Any], result: tuple[int, ...]) -> str:
    """Correct the table's kind where it depends on the arguments."""
    if name in MAY_COPY and not _viewable(node):
        return "Copy"
    if kind == "Conv" and arguments.get("transposed") is True:
        return "ConvTranspose"
    if "adaptive" in name and set(result[2:]) == {1}:
        return f"Global{kind}"
    return kind


def _viewable(node: Any) -> bool:
    """True if the operand's strides allow the result to be a view of it."""
    source, result = node.args[0].meta["val"], node.meta["val"]
    try:
        source.view(result.shape)
    except (RuntimeError, ValueError):
        return False
    return True


def _no_copy(node: Any, name: str, result: Any) -> bool:
    """True if a cast or ``contiguous`` returns its operand, which already has the requested dtype and layout."""
    if name not in ("to", "_to_copy", "type_as", "contiguous"):
        return False
    source = node.args[0].meta["val"]
    return bool(source.dtype == result.dtype and (name != "contiguous" or source.is_contiguous()))


def split_name(target: Any) -> tuple[str, str, str]:
    """Namespace, name and overload of an operator."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return "torch", str(getattr(target, "__name__", target)), ""
    namespace, _, name = schema.name.partition("::")
    return namespace, name, schema.overload_name or "default"


def _arguments(node: Any) -> dict[str, Any]:
    """Arguments of a call by the names of the operator's schema."""
    schema = getattr(node.target, "_schema", None)
    names = [str(i) for i in range(len(node.args))] if schema is None else [entry.name for entry in schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def unchanged(node: Any) -> bool:
    """True if an fx node returns its operand unchanged, always or in inference."""
    return split_name(node.target)[1] in ALIASES and _arguments(node).get("train") is not True


def _nodes(value: Any) -> Iterator[Any]:
    """All fx nodes in nested arguments."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _nodes(item)
    elif hasattr(value, "op") and hasattr(value, "meta"):
        yield value


def _readable(node: Any, name: str) -> str:
    """A readable name: the submodule's path and the operator, such as ``encoder.layer.0.output.dense.linear``."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = stack[-1][0] if stack else ""
    return f"{path}.{name}" if path else str(node.name)


def weight_names(program: Any, module: Any) -> dict[str, str]:
    """Placeholder -> name of its weight; tied weights all get the first of their names."""
    first: dict[int, str] = {}
    held = (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))
    names = {name: first.setdefault(id(value), name) for name, value in held}
    constants = [entry for entry in program.graph_signature.input_specs if entry.target is not None]
    return {entry.arg.name: names.get(entry.target, entry.target) for entry in constants}
