"""DataflowGraph: operators as nodes, tensors as edges, and the properties derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym._deferred import Deferred
from hetgym._sums import summed
from hetgym._types import BoolArray, FloatArray, IntArray, frozen
from hetgym.errors import GraphError
from hetgym.graph import topology
from hetgym.graph.ops import WRITERS, Operator, Tensor
from hetgym.weights import SharedWeights, by_name

DENSE_LIMIT = 4096  # Most operators for which the dense dependency matrix is built (16 MiB of booleans)


class Feature(NamedTuple):
    """One column of the feature table: its name, its unit and its meaning."""

    name: str
    unit: str
    meaning: str


FEATURES: tuple[Feature, ...] = (
    Feature("flops", "FLOP", "floating-point operations"),
    Feature("bytes_read", "byte", "operands read, weights included"),
    Feature("bytes_written", "byte", "outputs written"),
    Feature("weight_bytes", "byte", "constant operands"),
    Feature("output_bytes", "byte", "size of all outputs"),
    Feature("intensity", "FLOP/byte", "arithmetic intensity: FLOPs over bytes moved"),
    Feature("fusion_class", "-", "TVM's operator class, 0 elementwise to 5 opaque"),
    Feature("depth", "hop", "longest path from a source"),
    Feature("height", "hop", "longest path to a sink"),
    Feature("in_degree", "-", "number of incoming edges"),
    Feature("out_degree", "-", "number of outgoing edges"),
    Feature("is_fork", "-", "1 if several operators read its outputs"),
    Feature("is_join", "-", "1 if it reads from several operators"),
    Feature("on_trunk", "-", "1 if every path from a source to a sink passes it"),
)
"""Columns of :meth:`DataflowGraph.features`, in order."""


class Edge(NamedTuple):
    """An edge: operator ``target`` reads output ``slot`` of operator ``source``."""

    source: int
    slot: int
    target: int


class DataflowGraph(Deferred):
    """An immutable dataflow graph of operators (nodes) and tensors (edges).

    Args:
        operators: the nodes; their positions are the node ids.
        edges: ``(source, slot, target)`` triples: operator ``target`` reads output number ``slot`` of
            operator ``source``. Repeated triples count once. Edges are kept sorted.
        name: for messages and reports.
        notes: what the importer left out that can change a run time, a sentence each.

    Raises:
        GraphError: no operators, a duplicate operator name, an edge to or from an operator or output that does
            not exist, or a cycle.

    >>> from hetgym.graph import Operator, Tensor
    >>> x = Tensor((1, 8))
    >>> chain = DataflowGraph([Operator("a", "Relu", (x,), (x,)), Operator("b", "Tanh", (x,), (x,))],
    ...                       [(0, 0, 1)], name="chain")
    >>> chain
    DataflowGraph('chain', 2 operators, 1 edges)
    >>> chain.edge_bytes
    array([32.])
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        edges: Iterable[tuple[int, int, int]],
        name: str = "graph",
        notes: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.notes = tuple(notes)
        self.operators = tuple(operators)
        n = len(self.operators)
        if n == 0:
            raise GraphError(f"graph {name!r} has no operators")
        self._check_names()
        triples = sorted({(int(s), int(o), int(t)) for s, o, t in edges}, key=lambda x: (x[0], x[2], x[1]))
        for source, slot, target in triples:
            self._check_edge(source, slot, target)
        self.edges = tuple(Edge(*triple) for triple in triples)
        columns = np.array(triples, np.int32).reshape(-1, 3)
        self.edge_source: IntArray = frozen(columns[:, 0].copy())
        self.edge_slot: IntArray = frozen(columns[:, 1].copy())
        self.edge_target: IntArray = frozen(columns[:, 2].copy())
        self.edge_bytes: FloatArray = frozen(
            np.array([_payload(self.operators[s], o) for s, o, _ in triples], np.float64)
        )
        self.successors, self.predecessors, self.topological_order = topology.arrange(
            n, self.edge_source, self.edge_target
        )
        if len(self.topological_order) < n:
            cycle = [self.operators[i].name for i in topology.find_cycle(self.successors, self.topological_order)]
            raise GraphError(f"graph {name!r} has a cycle: {' -> '.join([*cycle, cycle[0]])}")

    def _check_names(self) -> None:
        seen: dict[str, int] = {}
        for i, operator in enumerate(self.operators):
            if operator.name in seen:
                raise GraphError(
                    f"graph {self.name!r}: operators {seen[operator.name]} and {i} are both named {operator.name!r}"
                )
            seen[operator.name] = i

    def _check_edge(self, source: int, slot: int, target: int) -> None:
        n = len(self.operators)
        if not (0 <= source < n and 0 <= target < n):
            raise GraphError(f"graph {self.name!r}: edge {source} -> {target} is outside the range 0..{n - 1}")
        outputs = len(self.operators[source].outputs)
        if not 0 <= slot < outputs:
            operator = self.operators[source].name
            raise GraphError(f"graph {self.name!r}: edge reads output {slot} of {operator!r}, which has {outputs}")

    def __setattr__(self, name: str, value: object) -> None:
        if "topological_order" in self.__dict__:  # the last one that the constructor sets
            raise AttributeError(f"a DataflowGraph is immutable: {name!r} cannot be set")
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[type[DataflowGraph], tuple[object, ...]]:
        # Rebuild instead of copying the state: copies of read-only arrays would be writable.
        return type(self), (self.operators, self.edges, self.name, self.notes)

    def __len__(self) -> int:
        return len(self.operators)

    def __repr__(self) -> str:
        return f"DataflowGraph({self.name!r}, {len(self)} operators, {len(self.edges)} edges)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DataflowGraph):
            return NotImplemented
        return self.operators == other.operators and self.edges == other.edges

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def edge_tensor(self) -> IntArray:
        """[e] tensor id of each edge: edges that carry the same output share it."""
        pairs = np.stack([self.edge_source, self.edge_slot], axis=1)
        _, tensor = np.unique(pairs, axis=0, return_inverse=True)
        return frozen(tensor.reshape(-1).astype(np.int32))

    @cached_property
    def in_degree(self) -> IntArray:
        """[n] number of incoming edges."""
        return frozen(np.diff(self.predecessors.pointer))

    @cached_property
    def out_degree(self) -> IntArray:
        """[n] number of outgoing edges."""
        return frozen(np.diff(self.successors.pointer))

    @cached_property
    def depth(self) -> IntArray:
        """[n] number of edges on the longest path from a source."""
        return topology.depths(self.successors, self.topological_order)

    @cached_property
    def height(self) -> IntArray:
        """[n] number of edges on the longest path to a sink."""
        return topology.heights(self.predecessors, self.topological_order)

    @cached_property
    def is_fork(self) -> BoolArray:
        """[n] True where more than one operator reads the node's outputs."""
        return frozen(self._distinct(self.edge_source, self.edge_target) > 1)

    @cached_property
    def is_join(self) -> BoolArray:
        """[n] True where the node reads from more than one operator."""
        return frozen(self._distinct(self.edge_target, self.edge_source) > 1)

    def _distinct(self, key: IntArray, value: IntArray) -> npt.NDArray[np.int64]:
        pairs = np.unique(np.stack([key, value], axis=1), axis=0)
        return np.bincount(pairs[:, 0], minlength=len(self))

    @cached_property
    def reachability(self) -> npt.NDArray[np.uint64]:
        """[n, ceil(n / 64)] bit rows; see :func:`hetgym.graph.topology.closure`."""
        return topology.closure(self.successors, self.topological_order)

    def reaches(self, i: int, j: int) -> bool:
        """True if a path leads from operator ``i`` to operator ``j``."""
        return bool((int(self.reachability[i, j >> 6]) >> (j & 63)) & 1)

    @cached_property
    def on_trunk(self) -> BoolArray:
        """[n] True where every path from a source to a sink passes the node.

        A node that a skip connection bypasses is not on the trunk, even if it precedes or follows every other node.
        """
        return topology.on_trunk(self.topological_order, self.edge_source, self.edge_target)

    def dependency_matrix(self) -> BoolArray:
        """[n, n] ``[i, j]`` is True iff j reads an output of i; GraphError above :data:`DENSE_LIMIT` operators."""
        n = len(self)
        if n > DENSE_LIMIT:
            raise GraphError(
                f"graph {self.name!r} has {n} operators; a dense dependency matrix holds at most {DENSE_LIMIT}; use "
                "graph.successors (compressed sparse rows)"
            )
        matrix = np.zeros((n, n), np.bool_)
        matrix[self.edge_source, self.edge_target] = True
        return matrix

    @cached_property
    def flops(self) -> FloatArray:
        """[n] floating-point operations [FLOP]."""
        return self._column("flops")

    @cached_property
    def bytes_read(self) -> FloatArray:
        """[n] bytes read from memory [byte]."""
        return self._column("bytes_read")

    @cached_property
    def bytes_written(self) -> FloatArray:
        """[n] bytes written to memory [byte]."""
        return self._column("bytes_written")

    @cached_property
    def weight_bytes(self) -> FloatArray:
        """[n] bytes of all constant operands of an operator, shared or not [byte]."""
        return self._column("weight_bytes")

    @cached_property
    def resident_bytes(self) -> FloatArray:
        """[n] bytes of the constants that an operator reads, each once, shared or not [byte]."""
        sizes = ({(t.name, t.bytes) if t.name else at: t.bytes for at, t in _constants(op)} for op in self.operators)
        return frozen(np.array([summed(found.values()) for found in sizes], np.float64))

    @cached_property
    def shared_weights(self) -> SharedWeights:
        """The constants that several operators read, such as tied embeddings: those of one name and size are one."""
        return shared_constants(self.operators)

    @property
    def model_bytes(self) -> float:
        """Size of the model: bytes of all constants, each once."""
        return float(self.resident_bytes.sum() - self.shared_weights.repeated)

    @cached_property
    def output_bytes(self) -> FloatArray:
        """[n] bytes of all outputs [byte]."""
        return self._column("output_bytes")

    @cached_property
    def intensity(self) -> FloatArray:
        """[n] arithmetic intensity: FLOPs over bytes moved [FLOP/byte]; 0 for an operator that moves no bytes."""
        moved = self.bytes_read + self.bytes_written
        return frozen(np.divide(self.flops, moved, out=np.zeros(len(self)), where=moved > 0))

    @cached_property
    def fusion_class(self) -> IntArray:
        """[n] :class:`~hetgym.graph.FusionClass` as a number."""
        return frozen(np.array([op.spec.fusion for op in self.operators], np.int32))

    def _column(self, attribute: str) -> FloatArray:
        return frozen(np.array([getattr(op, attribute) for op in self.operators], np.float64))

    def features(self) -> npt.NDArray[np.void]:
        """[n] records with the float64 fields of :data:`FEATURES`: ``graph.features()["flops"]``."""
        table = np.zeros(len(self), dtype=[(feature.name, np.float64) for feature in FEATURES])
        for feature in FEATURES:
            table[feature.name] = getattr(self, feature.name)
        return table


def _payload(operator: Operator, slot: int) -> float:
    """Bytes that a reader of a result needs: the result and, behind a write in place, what was written to."""
    written = operator.inputs if operator.kind in WRITERS else ()
    return operator.outputs[slot].bytes + summed(tensor.bytes for tensor in written if tensor.constant)


def shared_constants(operators: Sequence[Operator]) -> SharedWeights:
    """See :attr:`DataflowGraph.shared_weights`."""
    named = ((i, t.name, t.bytes) for i, op in enumerate(operators) for _, t in _constants(op) if t.name)
    return by_name(named, len(operators))


def _constants(op: Operator) -> Iterator[tuple[int, Tensor]]:
    """The constant inputs of an operator, with their places."""
    return ((at, t) for at, t in enumerate(op.inputs) if t.constant)
