"""fuse: operators that a compiler would run as one kernel become one operator."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hetgym._sums import summed
from hetgym._text import brief
from hetgym._types import IntArray, frozen
from hetgym.errors import GraphError
from hetgym.graph import topology
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Attribute, FusionClass, Operator, Tensor
from hetgym.graph.transforms.dominators import between, post_dominators
from hetgym.graph.transforms.operands import Source, operands

_ELEMENTWISE, _BROADCAST, _INJECTIVE = FusionClass.ELEMENTWISE, FusionClass.BROADCAST, FusionClass.INJECTIVE
_REDUCTION, _OUT_FUSABLE = FusionClass.REDUCTION, FusionClass.OUT_FUSABLE


@dataclass(frozen=True, eq=False)
class Fusion:
    """A fused graph, and its mapping to the operators that it was made from."""

    source: DataflowGraph  # the graph before fusion, of n operators
    # the graph after fusion, of m operators in a topological order; operators outside groups are unchanged
    graph: DataflowGraph
    group: IntArray  # [n] number of the fused operator that each operator of `source` belongs to
    members: tuple[tuple[int, ...], ...]  # [m] for each fused operator its operators of `source`, in topological order

    __repr__ = brief

    def expand(self, values: npt.ArrayLike) -> IntArray:
        """[n] the values of the operators' fused operators, such as devices; GraphError unless there are [m]."""
        array = np.asarray(values)
        if array.shape != (len(self.members),):
            raise GraphError(f"expected {len(self.members)} values, one per fused operator, not shape {array.shape}")
        return frozen(array[self.group].astype(np.int32))

    def expand_order(self, order: Sequence[npt.ArrayLike]) -> list[list[int]]:
        """Convert device orders of fused operators to device orders of operators; a group's operators stay together."""
        return [[i for group in np.asarray(row).tolist() for i in self.members[group]] for row in order]


def fuse(graph: DataflowGraph) -> Fusion:
    """Fuse operators as TVM does, and replace each group by one operator.

    Operators are visited in topological order. Each may merge with its immediate post-dominator and all operators
    between the two, depending on the classes of their groups:

    * *out-fusable* operators (convolution, product, pooling) absorb the operators that follow if all of them are
      elementwise or broadcasting; a group holds at most one out-fusable operator;
    * *elementwise* and *broadcast* operators merge with the post-dominator if all operators between are at most
      injective, and the post-dominator is at most injective, or a reduction, or elementwise and already in the group
      of an out-fusable operator;
    * *injective* operators (moves, views) merge with injective ones and into reductions, in a second pass;
    * *opaque* operators never merge.

    Data leaves a group from its last operator only, so no cycle can arise. The kind of a fused operator is ``Fused-``
    followed by the family of its anchor, the member of highest class. It has the anchor's attributes, and the
    anchor's operands come first. ``fused`` and ``shapes`` name its members' kinds and the shapes of their first
    results, separated by ``+``. Its FLOPs are the sum over its members. It reads the values that come from outside,
    weights included, and writes those that go outside.

    Source: Chen et al., *TVM*, OSDI 2018, section 4.1; the post-dominator rule is that of TVM's FuseOps pass.

    >>> from hetgym.graph import load_graph
    >>> fuse(load_graph("resnet50")).graph
    DataflowGraph('resnet50', 58 operators, 73 edges)
    """
    members: dict[int, list[int]] = {}
    for i, root in enumerate(_groups(graph)):
        members.setdefault(root, []).append(i)
    return apply_groups(graph, list(members.values()))


def apply_groups(graph: DataflowGraph, groups: Sequence[Sequence[int]]) -> Fusion:
    """Replace each of the given groups by one operator, in the way of :func:`fuse`.

    Args:
        graph: the graph before fusion.
        groups: the operator numbers of each group, each in exactly one; data may leave a group from several operators.

    Raises:
        GraphError: an operator is in no group or in two, or the dependencies between groups have a cycle.
    """
    flat = sorted(i for row in groups for i in row)
    if flat != list(range(len(graph))) or not all(groups):
        raise GraphError(
            f"groups must hold each of the {len(graph)} operators of {graph.name!r} once, and none may be empty"
        )
    position = np.empty(len(graph), np.int32)
    position[graph.topological_order] = np.arange(len(graph), dtype=np.int32)
    rows = [sorted((int(i) for i in row), key=lambda i: int(position[i])) for row in groups]
    ordered = _ordered(graph, sorted(rows, key=lambda row: int(position[row[-1]])))
    group = np.empty(len(graph), np.int32)
    for number, row in enumerate(ordered):
        group[row] = number
    hidden = {(s, o) for s, o, _ in graph.edges} - {(s, o) for s, o, t in graph.edges if group[s] != group[t]}
    inputs = operands(graph)
    operators: list[Operator] = []
    slots: dict[Source, int] = {}  # of outputs that leave their group
    for row in ordered:
        leaving = _leaving(graph, row, hidden)
        slots.update({source: slot for slot, source in enumerate(leaving)})
        operators.append(_fused(graph, row, leaving, inputs) if len(row) > 1 else graph.operators[row[0]])
    edges = [(int(group[s]), slots[s, o], int(group[t])) for s, o, t in graph.edges if group[s] != group[t]]
    fused = DataflowGraph(operators, edges, graph.name, graph.notes)
    return Fusion(graph, fused, frozen(group), tuple(tuple(row) for row in ordered))


def _ordered(graph: DataflowGraph, rows: list[list[int]]) -> list[list[int]]:
    """The groups in an order in which each follows those it reads from; unchanged if that is already so."""
    number = {i: at for at, row in enumerate(rows) for i in row}
    ends = sorted({(number[s], number[t]) for s, _, t in graph.edges if number[s] != number[t]})
    source, target = np.array(ends, np.int32).reshape(-1, 2).T.copy()
    order = topology.arrange(len(rows), source, target)[2].tolist()
    if len(order) < len(rows):
        stuck = min(set(range(len(rows))) - set(order))
        name = graph.operators[rows[stuck][0]].name
        raise GraphError(f"graph {graph.name!r}: the group of operator {name!r} depends on itself through others")
    return [rows[at] for at in order]


def _groups(graph: DataflowGraph) -> list[int]:
    """[n] the group of each operator, named by the last operator in it."""
    root = list(range(len(graph)))
    kind = [int(c) for c in graph.fusion_class]  # of a group, at its root
    dominator = post_dominators(graph).tolist()

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    for second_pass in (False, True):
        for i in graph.topological_order.tolist():
            end = dominator[i]
            if end < 0 or find(i) == find(end):
                continue
            inner = between(graph, i, end) if graph.out_degree[i] > 1 else []
            own, last = kind[find(i)], kind[find(end)]
            most = max((kind[find(j)] for j in inner), default=0)
            if own == _OUT_FUSABLE:
                fits = max(most, last) <= _BROADCAST
            elif own <= _BROADCAST:
                behind = graph.fusion_class[end] <= _BROADCAST and last == _OUT_FUSABLE
                fits = most <= _INJECTIVE and (last <= _REDUCTION or behind)
            else:
                fits = second_pass and own == _INJECTIVE and most <= _INJECTIVE and last <= _REDUCTION
            if fits:
                target = find(end)
                for j in (i, *inner):
                    kind[target] = max(kind[target], kind[find(j)])
                    root[find(j)] = target
    return [find(i) for i in range(len(graph))]


def _leaving(graph: DataflowGraph, row: Sequence[int], hidden: set[Source]) -> list[Source]:
    """Outputs of a group: all of its last operator, then those of the others that are read outside or are results."""
    others = [(i, o) for i in row[:-1] for o in range(len(graph.operators[i].outputs)) if (i, o) not in hidden]
    return [(row[-1], o) for o in range(len(graph.operators[row[-1]].outputs))] + others


def _anchor_types(anchor: Operator, sources: Sequence[Source | None], inside: set[int]) -> dict[str, Attribute]:
    """Attributes from which the anchor can be reconstructed: the shapes of its result and of its inner operand.

    They are ``anchor_output``, and, if an operand comes from inside the group, ``anchor_inner``: its position among the
    anchor's operands, then its shape. None if several operands come from inside, or one value is read twice.
    """
    inner = [at for at, source in enumerate(sources) if source is not None and source[0] in inside]
    outer = [source for source in sources if source is not None and source[0] not in inside]
    if "anchor" in anchor.attributes or len(inner) > 1 or len(set(outer)) < len(outer) or len(anchor.outputs) != 1:
        return {}
    found: dict[str, Attribute] = {"anchor_output": anchor.outputs[0].shape}
    if inner:
        found["anchor_inner"] = (inner[0], *anchor.inputs[inner[0]].shape)
    return found


def _fused(
    graph: DataflowGraph, row: Sequence[int], leaving: Sequence[Source], inputs: Sequence[Sequence[Source | None]]
) -> Operator:
    """The operator that stands for a group."""
    ops = graph.operators
    real = [i for i in row if ops[i].spec.family != "view"]
    anchor = ops[max(real or row, key=lambda i: (ops[i].spec.fusion, ops[i].flops))]
    inside = set(row)
    taken: dict[object, Tensor] = {}
    for i in sorted(row, key=lambda i: ops[i] is not anchor):  # stable: the anchor's operands first
        for at, tensor in enumerate(ops[i].inputs):
            source = inputs[i][at]
            if source is None or source[0] not in inside:
                taken.setdefault(_identity(tensor, source, i, at), tensor)
    read: dict[object, float] = {}
    for i in real:
        for key, size in _reads(graph, i, inside, inputs):
            read[key] = max(size, read.get(key, 0.0))
    attributes: dict[str, Attribute] = dict(anchor.attributes)
    attributes["anchor"] = str(anchor.attributes.get("anchor", anchor.kind))
    attributes["operands"] = len(anchor.inputs)
    attributes |= _anchor_types(anchor, inputs[next(i for i in row if ops[i] is anchor)], inside)
    attributes["fused"] = "+".join(str(ops[i].attributes.get("fused", ops[i].kind)) for i in row)
    attributes["shapes"] = "+".join(str(ops[i].attributes.get("shapes", _shape(ops[i]))) for i in row)
    attributes["flops"] = float(summed(ops[i].flops for i in row))
    attributes["reads"] = float(summed(read.values()))
    outputs = tuple(ops[i].outputs[o] for i, o in leaving)
    return Operator(anchor.name, f"Fused-{anchor.spec.family}", tuple(taken.values()), outputs, attributes)


def _shape(op: Operator) -> str:
    """The shape of an operator's first result, such as ``1x64x56x56``; empty for a single number."""
    return "x".join(map(str, op.outputs[0].shape)) if op.outputs else ""


def _identity(tensor: Tensor, source: Source | None, i: int, at: int) -> object:
    """A key that identifies a value: its source, a named constant, or else the place that reads it."""
    return source or (tensor if tensor.name else (i, at, "operand"))


def _reads(
    graph: DataflowGraph, i: int, inside: set[int], inputs: Sequence[Sequence[Source | None]]
) -> list[tuple[object, float]]:
    """The values that an operator reads from outside its group, each with a number of bytes."""
    op = graph.operators[i]
    rows: list[tuple[object, float]] = []
    sparse = op.bytes_read < summed(t.bytes for t in op.inputs)  # a slice or lookup reads part of its first operand
    rest = summed(t.bytes for t in op.inputs[1:] if not t.constant)
    for at, tensor in enumerate(op.inputs):
        source, reader, place = inputs[i][at], i, at
        while source is not None and source[0] in inside and graph.operators[source[0]].spec.family == "view":
            reader, place = source[0], 0  # a view reads nothing itself: follow it to its operand
            source = inputs[reader][0] if inputs[reader] else None
        if source is not None and source[0] in inside:
            continue
        size = tensor.bytes
        if sparse:
            size = max(0.0, op.bytes_read - rest) if at == 0 else (0.0 if tensor.constant else size)
        origin = graph.operators[reader].inputs
        rows.append((_identity(origin[place] if origin else tensor, source, reader, place), size))
    return rows
