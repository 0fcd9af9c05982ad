"""Collector of operators for generators that write networks down layer by layer."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Attribute, Operator, Tensor


class Value(NamedTuple):
    """Output ``slot`` of operator ``producer``."""

    producer: int
    slot: int
    tensor: Tensor


Operand = Value | Tensor  # A value of an earlier operator, or a tensor from outside


class Network:
    """Collector of operators; an operand is a value of an earlier operator or a tensor from outside.

    Args:
        name: name of the graph.
        dtype: dtype of outputs that are given by their shapes.
    """

    def __init__(self, name: str, dtype: str = "float32") -> None:
        self.name, self.dtype = name, dtype
        self.operators: list[Operator] = []
        self.edges: list[tuple[int, int, int]] = []

    def add(
        self,
        name: str,
        kind: str,
        operands: Sequence[Operand],
        *results: tuple[int, ...] | Tensor,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> list[Value]:
        """Add an operator, given the shapes or types of its outputs. Return its outputs."""
        node = len(self.operators)
        inputs = tuple(x.tensor if isinstance(x, Value) else x for x in operands)
        outputs = tuple(x if isinstance(x, Tensor) else Tensor(x, self.dtype) for x in results)
        self.edges += [(x.producer, x.slot, node) for x in operands if isinstance(x, Value)]
        self.operators.append(Operator(name, kind, inputs, outputs, attributes or {}))
        return [Value(node, slot, tensor) for slot, tensor in enumerate(outputs)]

    def one(
        self,
        name: str,
        kind: str,
        operands: Sequence[Operand],
        result: tuple[int, ...] | Tensor,
        **attributes: Attribute,
    ) -> Value:
        """Add an operator with one output and return the output."""
        return self.add(name, kind, operands, result, attributes=attributes)[0]

    def graph(self, notes: Sequence[str] = ()) -> DataflowGraph:
        """The graph of all operators added so far."""
        return DataflowGraph(self.operators, self.edges, self.name, notes)


def weight_of(name: str, *shape: int) -> Tensor:
    """A constant operand, such as a weight, of float32 numbers."""
    return Tensor(shape, constant=True, name=name)
