"""split: one operator becomes several that can run on different devices at once."""

from collections.abc import Sequence

from hetgym._sums import summed
from hetgym.errors import GraphError, unknown_name
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Attribute, Operator
from hetgym.graph.transforms.operands import Source, operands
from hetgym.graph.transforms.pieces import Cut, cut, pieces, sizes


def split(
    graph: DataflowGraph, operator: int | str, axis: str, parts: int | Sequence[float] = 2, granularity: int = 1
) -> DataflowGraph:
    """Split an operator into pieces along an axis, and add operators that scatter its inputs and gather its results.

    Operands that are cut pass through a ``SplitView``, which takes no time, so that each piece receives only the part
    that it reads; all other operands are read whole by every piece. Results are gathered by a ``Concat``, or by a
    ``Sum`` if the reduction is split. Constants are cut without an operator. If an operand is itself gathered from
    exactly the pieces that are needed, gather and scatter cancel, and the pieces stay on their devices.

    Convolutions and products, also fused ones, can be split by batch, output channels, rows and, unless fused,
    the reduction; rows of convolutions overlap by the window. Elementwise operators can be split by all but
    the reduction, pooling by batch and channels, normalisation by batch.

    Args:
        graph: the graph, which is not changed.
        operator: number or name of the operator.
        axis: ``batch``, ``output``, ``reduction`` or ``spatial``.
        parts: number of equal pieces, or relative sizes of the pieces.
        granularity: lengths of pieces are multiples of this, except that of the last one.

    Returns:
        A graph with the operators ``name/0``, ``name/1``, … and, where they are needed, ``name/scatter0`` and
        ``name/gather``.

    Raises:
        GraphError: no such operator; it cannot be split along this axis; or a piece would be empty.
        UnknownName: no such axis.

    >>> from hetgym.graph import generators
    >>> graph = generators.inception(blocks=1, batch=8)
    >>> split(graph, "module0.3x3", "batch", 2)
    DataflowGraph('inception', 18 operators, 21 edges)
    """
    chosen = _find(graph, operator)
    op = graph.operators[chosen]
    lengths = sizes(op, axis, parts, granularity)
    found = cut(op, axis)
    parted = pieces(op, axis, lengths)
    sources = operands(graph)[chosen]
    scatters, gather = joints(op, found, sources, parted)
    return _cancelled(_rewired(graph, chosen, sources, found, scatters, parted, gather))


def joints(
    op: Operator, found: Cut, sources: Sequence[Source | None], parted: Sequence[Operator]
) -> tuple[dict[tuple[Source, int], Operator], Operator]:
    """The scatter of every source and dimension of a split operator, and the gather that joins its results.

    ``sources`` are those of its inputs, None for those without an edge; ``parted`` are its pieces.
    """
    scatters: dict[tuple[Source, int], Operator] = {}
    for at, (source, where) in enumerate(zip(sources, found.operands, strict=True)):
        if source is not None and where is not None and (source, where) not in scatters:
            outputs = tuple(part.inputs[at] for part in parted)
            widths = tuple(t.shape[where] for t in outputs)
            attributes: dict[str, Attribute] = {
                "axis": where,
                "sizes": widths,
                "overlap": int(summed(widths) != op.inputs[at].shape[where]),
            }
            name = f"{op.name}/scatter{len(scatters)}"
            scatters[source, where] = Operator(name, "SplitView", (op.inputs[at],), outputs, attributes)
    results = tuple(part.outputs[0] for part in parted)
    name = f"{op.name}/gather"
    if found.result is None:
        return scatters, Operator(name, "Sum", results, op.outputs, {})
    lengths = tuple(result.shape[found.result] for result in results)
    return scatters, Operator(name, "Concat", results, op.outputs, {"axis": found.result, "sizes": lengths})


def _find(graph: DataflowGraph, operator: int | str) -> int:
    if isinstance(operator, str):
        names = [op.name for op in graph.operators]
        if operator not in names:
            error = unknown_name(f"operator of graph {graph.name!r}", operator, names)
            raise GraphError(str(error))
        return names.index(operator)
    if not 0 <= operator < len(graph):
        raise GraphError(f"graph {graph.name!r} has no operator {operator}; its operators are 0..{len(graph) - 1}")
    return operator


def _rewired(
    graph: DataflowGraph,
    chosen: int,
    sources: Sequence[Source | None],
    found: Cut,
    scatters: dict[tuple[Source, int], Operator],
    parted: Sequence[Operator],
    gather: Operator,
) -> DataflowGraph:
    """The graph with the operator replaced by scatters, pieces and gather."""
    added = [*scatters.values(), *parted, gather]
    new = [i if i < chosen else i + len(added) - 1 for i in range(len(graph))]
    first, last = chosen + len(scatters), chosen + len(added) - 1
    new[chosen] = last  # readers of the operator read the gathered result
    operators = [*graph.operators[:chosen], *added, *graph.operators[chosen + 1 :]]
    edges = [(new[start], slot, new[end]) for start, slot, end in graph.edges if end != chosen]
    dealt = {key: chosen + k for k, key in enumerate(scatters)}
    for (origin, _), scatter in dealt.items():
        edges.append((new[origin[0]], origin[1], scatter))
    matched = {source for source in sources if source is not None}
    for number in range(len(parted)):
        for at, source in enumerate(sources):
            if source is None or (at in found.once and number > 0):
                continue
            cut_at = found.operands[at]
            if cut_at is None:
                edges.append((new[source[0]], source[1], first + number))
            else:
                edges.append((dealt[source, cut_at], number, first + number))
        edges.append((first + number, 0, last))
    # An edge that matches no operand, as in graphs without shapes, goes to every piece.
    for start, slot, end in graph.edges:
        if end == chosen and (start, slot) not in matched:
            edges += [(new[start], slot, first + number) for number in range(len(parted))]
    return DataflowGraph(operators, edges, graph.name, graph.notes)


def _cancelled(graph: DataflowGraph) -> DataflowGraph:
    """The graph without pairs of a gather and a scatter into the same pieces."""
    ops = graph.operators
    moved: dict[Source, Source] = {}  # output of a scatter -> the equal output of a piece
    gone: set[int] = set()
    for start, _, end in graph.edges:
        join, deal = ops[start], ops[end]
        if deal.kind == "SplitView" and join.kind == "Concat" and "sizes" in join.attributes:
            same = all(join.attributes[key] == deal.attributes.get(key) for key in ("axis", "sizes"))
            if same and not deal.attributes.get("overlap"):
                joined = sorted((e.source, e.slot) for e in graph.edges if e.target == start)
                if len(joined) == len(deal.outputs):
                    moved.update({(end, k): piece for k, piece in enumerate(joined)})
                    gone.add(end)
    if not gone:
        return graph
    edges = [(*moved.get((start, slot), (start, slot)), end) for start, slot, end in graph.edges if end not in gone]
    read = {start for start, _, _ in edges}
    idle = {e.source for e in graph.edges if e.target in gone and e.source not in read}
    gone |= idle
    kept = [i for i in range(len(graph)) if i not in gone]
    new = {i: k for k, i in enumerate(kept)}
    left = [(new[start], slot, new[end]) for start, slot, end in edges if end not in gone]
    return DataflowGraph([ops[i] for i in kept], left, graph.name, graph.notes)
