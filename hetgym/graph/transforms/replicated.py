"""Replicated: a graph whose operators are each pinned to one of several ranks; and a builder of such graphs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from hetgym._text import brief
from hetgym._types import BoolArray, FloatArray, IntArray, frozen
from hetgym.errors import ConfigError
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Operator, Tensor

Value = tuple[int, int]  # Output `slot` of operator `source`


@dataclass(frozen=True, eq=False)
class Replicated:
    """A graph whose operators are distributed over several ranks.

    To run it, pin every operator to its rank's device:
    ``Schedule(r.assignment(), priority=r.priority)``.
    """

    graph: DataflowGraph  # the operators of all ranks
    rank: IntArray  # [n] rank, or replica, of each operator
    collective: BoolArray  # [n] True for operators that belong to a collective
    ranks: int  # number of ranks
    buckets: tuple[float, ...]  # size of each buffer that is reduced, in the order in which they fill [byte]

    __repr__ = brief

    def assignment(self, devices: Sequence[int] | None = None) -> IntArray:
        """[n] device of each operator, given that of each rank in the order of the ring; 0, 1, … by default.

        Raises:
            ConfigError: the number of devices is not that of the ranks, or two ranks share a device.
        """
        chosen = list(range(self.ranks) if devices is None else devices)
        if not all(isinstance(d, Integral) and not isinstance(d, bool) and 0 <= d < 2**31 for d in chosen):
            raise ConfigError(f"devices must be device numbers, not {chosen!r}")
        if len(chosen) != self.ranks or len(set(chosen)) < len(chosen):
            raise ConfigError(f"devices must be {self.ranks} different devices, one for each rank, not {chosen!r}")
        return frozen(np.array(chosen, np.int32)[self.rank])

    @property
    def priority(self) -> FloatArray:
        """[n] priorities: on each device collectives run first, then operators in the order of the graph."""
        n = len(self.graph)
        return frozen(np.where(self.collective, n, 0) - np.arange(n, dtype=np.float64))


class Builder:
    """A graph of several ranks under construction."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.operators: list[Operator] = []
        self.edges: list[tuple[int, int, int]] = []
        self.rank: list[int] = []
        self.collective: list[bool] = []

    def add(self, op: Operator, rank: int, reads: Iterable[Value], collective: bool = True) -> int:
        """Append an operator that reads the given values; return its number."""
        number = len(self.operators)
        self.operators.append(op)
        self.rank.append(rank)
        self.collective.append(collective)
        self.edges += [(source, slot, number) for source, slot in reads]
        return number

    def tensor(self, value: Value) -> Tensor:
        """The type of a value."""
        return self.operators[value[0]].outputs[value[1]]

    def recv(self, label: str, rank: int, value: Value) -> Value:
        """Add an operator with which a rank receives a chunk from another; return the received chunk."""
        tensor = self.tensor(value)
        return self.add(Operator(f"{label}/recv{rank}", "Recv", (tensor,), (tensor,)), rank, [value]), 0

    def recv_reduce(self, label: str, rank: int, value: Value, own: Value) -> Value:
        """Add an operator that adds another rank's chunk to the rank's own; return the sum."""
        tensor = self.tensor(own)
        op = Operator(f"{label}/reduce{rank}", "RecvReduce", (tensor, tensor), (tensor,))
        return self.add(op, rank, [value, own]), 0

    def done(self, name: str, buckets: Iterable[float], notes: Sequence[str] = ()) -> Replicated:
        """The finished graph."""
        rank, collective = np.array(self.rank, np.int32), np.array(self.collective, np.bool_)
        graph = DataflowGraph(self.operators, self.edges, name, notes)
        return Replicated(graph, frozen(rank), frozen(collective), self.ranks, tuple(buckets))


def chunks_of(tensor: Tensor, parts: int) -> tuple[Tensor, ...]:
    """Parts of a flat tensor, of equal length; if that is not possible the first ones are one element longer."""
    share, more = divmod(tensor.size, parts)
    return tuple(Tensor((share + (k < more),), tensor.dtype) for k in range(parts))


def whole_number(value: object, what: str, least: int = 1) -> int:
    """The value of an option that is a count; ConfigError if it is not a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ConfigError(f"{what} is {value!r}; it must be a whole number of at least {least}")
    return int(value)
