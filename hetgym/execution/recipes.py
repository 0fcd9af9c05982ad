"""Recipes: the operators of an exported module as plain values, which workers convert back to calls.

A recipe names an ATen operator and its arguments; an argument that is a tensor is given by its number.
Weights, and all values that depend only on weights, are computed once in the parent and put into shared memory.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hetgym.errors import ExecutionError, require
from hetgym.execution.steps import CONSTANT, INPUT, Flow, Task
from hetgym.execution.work import Work
from hetgym.graph.assembly import living
from hetgym.graph.from_torch import Traced
from hetgym.graph.ops import Tensor


class Recipes(NamedTuple):
    """A module ready to be executed."""

    work: Work  # the work for the worker processes
    constants: Mapping[int, Any]  # tensor -> its value, to be written to its slot before the first run
    inputs: tuple[int, ...]  # for each user input the number of its tensor, or -1 if no operator reads it
    # for each user output the number of its tensor, or a value that is not a tensor
    outputs: tuple[int | tuple[Any], ...]


def recipes_of(traced: Traced) -> Recipes:
    """The recipes of a traced module; ExecutionError about weights without values or unregistered operators."""
    return _Writer(traced).recipes()


class _Writer:
    def __init__(self, traced: Traced) -> None:
        self._torch = require("torch", "torch", "executing a module")
        self._traced = traced
        self._walker = traced.walker
        graph, program = traced.graph, traced.program
        alive, wanted = living(self._walker.steps, self._walker.results)
        node_of = {id(step): node for step, node in zip(self._walker.steps, self._walker.nodes, strict=True)}
        self._steps = [(step, node_of[id(step)]) for step in alive]
        kept = [[value for value in step.outputs if value in wanted] for step in alive]
        self._made = {value: (i, slot) for i, values in enumerate(kept) for slot, value in enumerate(values)}
        self._kept = kept
        base = Work.of_graph(graph)
        self._tensors: list[Tensor] = list(base.tensors)
        self._maker: list[tuple[int, int]] = list(base.flow.maker)
        self._readers: list[list[int]] = [list(readers) for readers in base.flow.readers]
        self._number = {made: t for t, made in enumerate(base.flow.maker)}
        self._named: dict[str, int] = {}
        self._constants: dict[int, Any] = {}
        self._folded: dict[str, Any] = {}
        self._stored = {**program.state_dict, **program.constants}
        self._targets = {e.arg.name: e.target for e in program.graph_signature.input_specs if e.target is not None}

    def recipes(self) -> Recipes:
        program = self._traced.program
        operators = [self._recipe(i) for i in range(len(self._steps))]
        user = [spec.arg for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        inputs = tuple(self._named.get(getattr(argument, "name", ""), -1) for argument in user)
        node = next(node for node in program.graph.nodes if node.op == "output")
        specs = program.graph_signature.output_specs
        results = [value for value, spec in zip(node.args[0], specs, strict=True) if spec.kind.name == "USER_OUTPUT"]
        outputs = tuple(self._output(value) for value in results)
        wanted = frozenset(t for t in outputs if isinstance(t, int))
        flow = Flow(tuple(self._maker), tuple(map(tuple, self._readers)), wanted)
        work = Work(self._traced.graph, tuple(self._tensors), flow, {"kind": "recipes", "operators": operators})
        return Recipes(work, self._constants, inputs, outputs)

    def _output(self, value: Any) -> int | tuple[Any]:
        if hasattr(value, "op") and (names := self._walker.names(value)):
            return self._tensor(names[0], value)
        return (value,)

    def _recipe(self, operator: int) -> dict[str, Any]:
        step, node = self._steps[operator]
        schema = getattr(node.target, "_schema", None)
        if schema is None or node.op != "call_function":
            name = self._traced.graph.operators[operator].name
            raise ExecutionError(
                f"operator {name!r}: {node.target} does not belong to torch and cannot be sent to a worker"
            )
        reads: list[int] = []
        arguments = [self._encode(value, operator, reads) for value in node.args]
        named = {key: self._encode(value, operator, reads) for key, value in node.kwargs.items()}
        several = isinstance(node.meta["val"], list | tuple)
        return {
            "target": schema.name,
            "overload": schema.overload_name or "default",
            "args": arguments,
            "kwargs": named,
            "reads": reads,
            "outputs": [int(v.rpartition(":")[2]) for v in self._kept[operator]] if several else None,
        }

    def _encode(self, value: Any, operator: int, reads: list[int]) -> Any:
        """Encode an argument as plain values; a tensor becomes its position among the tensors that are read."""
        torch = self._torch
        if isinstance(value, list | tuple):
            return [self._encode(item, operator, reads) for item in value]
        if hasattr(value, "op") and hasattr(value, "meta"):
            names = self._walker.names(value)
            if not names:
                return self._plain(value)
            places = []
            for name in names:
                tensor = self._tensor(name, value)
                if operator not in self._readers[tensor]:
                    self._readers[tensor].append(operator)
                if tensor not in reads:
                    reads.append(tensor)
                places.append({"tensor": reads.index(tensor)})
            return places if len(names) > 1 else places[0]
        for kind, what in ((torch.dtype, "dtype"), (torch.memory_format, "memory_format"), (torch.layout, "layout")):
            if isinstance(value, kind):
                return {what: str(value).removeprefix("torch.")}
        return {"device": ""} if isinstance(value, torch.device) else value

    def _plain(self, node: Any) -> Any:
        """The value of a node that is not a tensor, such as a size."""
        value = node.meta.get("val")
        if isinstance(value, bool | int | float) or value is None:
            return value
        raise ExecutionError(f"{node.name}: its value {value!r} depends on data, so no plan can hold it")

    def _tensor(self, name: str, node: Any) -> int:
        """Number of the tensor of a value of the walker."""
        if name in self._made and self._made[name] in self._number:
            return self._number[self._made[name]]
        if name not in self._named:
            made = self._made.get(name)
            if made is not None:
                maker = made
            elif self._walker.values[name].constant:
                maker = (CONSTANT, 0)
                self._constants[len(self._tensors)] = self._fold(name)
            else:
                maker = (INPUT, 0)
            self._named[name] = len(self._tensors)
            self._tensors.append(Tensor(self._walker.values[name].shape, self._walker.values[name].dtype))
            self._maker.append(maker)
            self._readers.append([])
        return self._named[name]

    def _fold(self, name: str) -> Any:
        """The value of a constant, by the walker's name for it."""
        stem, _, index = name.partition(":")
        value = self._evaluate(next(n for n in self._traced.program.graph.nodes if n.name == stem))
        return value[int(index)] if index else value

    def _evaluate(self, node: Any) -> Any:
        """The value of a node that depends on weights only."""
        torch = self._torch
        if node.name in self._folded:
            return self._folded[node.name]
        if node.op == "placeholder":
            if node.name in self._targets:
                value = self._stored[self._targets[node.name]]
                if value.is_meta:
                    raise ExecutionError(f"{self._targets[node.name]} is on the meta device; load its values first")
            else:
                value = torch.empty(node.meta["val"].shape, dtype=node.meta["val"].dtype)  # only its shape is needed
        elif node.op == "get_attr":
            value = getattr(self._traced.program.graph_module, str(node.target))
        elif not self._constant(node):
            value = torch.empty(node.meta["val"].shape, dtype=node.meta["val"].dtype)
        else:
            with torch.no_grad():
                arguments = torch.fx.node.map_arg((node.args, node.kwargs), self._evaluate)
                value = node.target(*arguments[0], **arguments[1])
        self._folded[node.name] = value
        return value

    def _constant(self, node: Any) -> bool:
        names = self._walker.names(node)
        return not names or all(self._walker.values[name].constant for name in names)


class RecipeProgram:
    """Runs each operator as the module does, with the same results, on a device of torch."""

    def __init__(self, operators: list[dict[str, Any]], processor: str) -> None:
        self._torch = require("torch", "torch", "running operators")
        self._operators = operators
        self._processor = processor

    def task(self, operator: int) -> Task:
        """The call of an operator and the tensors that it reads; ExecutionError if this torch lacks the operator."""
        recipe = self._operators[operator]
        space, _, name = recipe["target"].partition("::")
        try:
            target = getattr(getattr(getattr(self._torch.ops, space), name), recipe["overload"])
        except AttributeError as cause:
            raise ExecutionError(f"torch has no operator {recipe['target']}.{recipe['overload']}") from cause
        arguments, named, outputs = recipe["args"], recipe["kwargs"], recipe["outputs"]

        def call(*operands: Any) -> tuple[Any, ...]:
            result = target(
                *[self._decode(value, operands) for value in arguments],
                **{key: self._decode(value, operands) for key, value in named.items()},
            )
            return (result,) if outputs is None else tuple(result[k] for k in outputs)

        return Task(call, tuple(recipe["reads"]))

    def _decode(self, value: Any, operands: tuple[Any, ...]) -> Any:
        if isinstance(value, list):
            return [self._decode(item, operands) for item in value]
        if isinstance(value, dict):
            ((kind, what),) = value.items()
            if kind == "tensor":
                return operands[what]
            return self._torch.device(self._processor) if kind == "device" else getattr(self._torch, what)
        return value
