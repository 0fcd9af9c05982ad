"""data_parallel: a training step on several devices, with gradients all-reduced while backward still runs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hetgym._input.config import check_number
from hetgym._sums import summed
from hetgym._types import frozen
from hetgym.errors import ConfigError, GraphError
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Operator, Tensor
from hetgym.graph.transforms.collectives import Held, block_size, run_collective
from hetgym.graph.transforms.replicated import Builder, Replicated, Value, chunks_of, whole_number
from hetgym.graph.transforms.training import updates

BUCKET_BYTES = 25 * 2**20
"""Size of a bucket of gradients that are reduced together, as PyTorch's ``bucket_cap_mb=25`` [byte]."""


@dataclass(frozen=True)
class _Gradient:
    """The gradient of one weight: its update operator, and the values that it sums."""

    update: int
    tensor: Tensor
    parts: tuple[Value, ...]


def data_parallel(
    graph: DataflowGraph, replicas: int, algorithm: str = "ring", bucket_bytes: float = BUCKET_BYTES, chunks: int = 1
) -> Replicated:
    """Replicate a training step, and sum the gradients over the replicas before the weights change.

    Every replica runs the whole step on its own part of the batch: for a global batch of B, build the graph
    for B / ``replicas``. As in PyTorch's DistributedDataParallel (Li et al., PVLDB 13(12), 2020), gradients
    go into buckets in the order in which backward makes them. A bucket is full once it holds ``bucket_bytes``;
    dtypes have separate buckets. A full bucket is all-reduced as soon as its last gradient is available, while
    backward continues. Its gradients become available to the updates together, when its last chunk arrives.
    A weight that several operators share is reduced once, after its parts have been summed.

    Every replica has its own weights, optimizer state and activations; constants are therefore renamed.

    Args:
        graph: graph of one training step, from :func:`~hetgym.graph.transforms.training`.
        replicas: number of replicas; 1 gives the graph itself.
        algorithm: one of :data:`~hetgym.graph.transforms.ALGORITHMS`.
        bucket_bytes: size of a bucket [byte]; inf reduces all gradients at once, after backward.
        chunks: number of parts that a bucket is cut into and that follow one another (pipelining).

    Returns:
        The graph with the replica of each operator: first all replicas, then the collectives.
        Operators are called ``replica0/name``, those of collectives ``bucket0/…``.

    Raises:
        GraphError: the graph changes no weights.
        ConfigError: a number out of range.
        UnknownName: no such algorithm.

    >>> from hetgym import load_graph
    >>> from hetgym.graph.transforms import training
    >>> step = data_parallel(training(load_graph("resnet50", batch=8)), replicas=4)
    >>> len(step.buckets), step.graph.operators[0].name
    (4, 'replica0/Conv_0')
    """
    k, passes = whole_number(replicas, "replicas"), whole_number(chunks, "chunks")
    if not isinstance(bucket_bytes, int | float) or isinstance(bucket_bytes, bool):
        raise ConfigError(f"bucket_bytes is {bucket_bytes!r}; it must be a number of bytes")
    check_number(bucket_bytes, "bucket_bytes", ConfigError, positive=True, finite=False)
    block_size(algorithm, k)  # refuses an unknown algorithm
    gradients = _gradients(graph)
    if not gradients:
        raise GraphError(f"graph {graph.name!r} updates no weights; turn it into a step with transforms.training")
    buckets = list(_buckets(gradients, bucket_bytes))
    sizes = [summed(gradient.tensor.bytes for gradient in bucket) for bucket in buckets]
    if k == 1:
        n = len(graph)
        return Replicated(graph, frozen(np.zeros(n, np.int32)), frozen(np.zeros(n, np.bool_)), 1, tuple(sizes))
    builder = Builder(k)
    for rank in range(k):
        _replica(builder, graph, rank, gradients)
    for number, bucket in enumerate(buckets):
        _reduce(builder, graph, number, bucket, algorithm, passes)
    return builder.done(f"{graph.name}-{k}x{algorithm}", sizes, graph.notes)


def _gradients(graph: DataflowGraph) -> list[_Gradient]:
    """All gradients, sorted by the operator that completes them, which is the order in which backward makes them."""
    found = []
    position = np.argsort(graph.topological_order)
    for i in updates(graph):
        pointer = graph.predecessors.pointer
        edges = graph.predecessors.edge[pointer[i] : pointer[i + 1]].tolist()
        parts = tuple((graph.edges[e].source, graph.edges[e].slot) for e in edges)
        found.append(_Gradient(i, graph.operators[i].inputs[0], parts))
    return sorted(found, key=lambda g: max(int(position[source]) for source, _ in g.parts))


def _buckets(gradients: list[_Gradient], capacity: float) -> Iterator[list[_Gradient]]:
    """Group gradients in their order, with separate buckets for each dtype; buckets that are not full come last."""
    filling: dict[str, list[_Gradient]] = {}
    for gradient in gradients:
        bucket = filling.setdefault(gradient.tensor.dtype, [])
        bucket.append(gradient)
        if summed(other.tensor.bytes for other in bucket) >= capacity:
            yield filling.pop(gradient.tensor.dtype)
    yield from filling.values()


def _replica(builder: Builder, graph: DataflowGraph, rank: int, gradients: list[_Gradient]) -> None:
    """Copy the training step for a rank, without the inputs of its updates."""
    cut = {gradient.update: gradient for gradient in gradients}
    first = len(builder.operators)
    for i, op in enumerate(graph.operators):
        name = f"replica{rank}/{op.name}"
        inputs = tuple(replace(t, name=f"replica{rank}/{t.name}") if t.constant and t.name else t for t in op.inputs)
        attributes = op.attributes
        if i in cut:  # an update; the sum of its gradient's parts must precede it
            more = len(cut[i].parts) - 1
            inputs = inputs[more:]
            reads = op.bytes_read - more * cut[i].tensor.bytes
            attributes = {"flops": op.flops - more * cut[i].tensor.size, "reads": reads}
        builder.add(Operator(name, op.kind, inputs, op.outputs, attributes), rank, [], collective=False)
    builder.edges += [(first + s, slot, first + t) for s, slot, t in graph.edges if t not in cut]


def _reduce(
    builder: Builder, graph: DataflowGraph, number: int, bucket: list[_Gradient], algorithm: str, passes: int
) -> None:
    """All-reduce a bucket: the inputs are the gradients of each replica, the outputs go to its updates."""
    name, parts = f"bucket{number}", passes * block_size(algorithm, builder.ranks)
    tensors = tuple(gradient.tensor for gradient in bucket)
    flat = Tensor((summed(t.size for t in tensors),), tensors[0].dtype)
    pieces = chunks_of(flat, parts)
    held: Held = []
    for rank in range(builder.ranks):
        reads = [_summed(builder, graph, rank, gradient) for gradient in bucket]
        bucket_op = builder.add(Operator(f"{name}/rank{rank}/Bucket", "Bucket", tensors, pieces), rank, reads)
        held.append({c: (bucket_op, c) for c in range(parts)})
    run_collective(builder, "all-reduce", name, held, algorithm, passes)
    for rank, mine in enumerate(held):
        values = [mine[c] for c in range(parts)]
        last = builder.add(Operator(f"{name}/rank{rank}/Unbucket", "Unbucket", pieces, tensors), rank, values)
        builder.edges += [(last, slot, rank * len(graph) + gradient.update) for slot, gradient in enumerate(bucket)]


def _summed(builder: Builder, graph: DataflowGraph, rank: int, gradient: _Gradient) -> Value:
    """A replica's gradient of a weight; for a shared weight, the sum of its parts."""
    parts = [(rank * len(graph) + source, slot) for source, slot in gradient.parts]
    if len(parts) == 1:
        return parts[0]
    tensor, name = gradient.tensor, builder.operators[rank * len(graph) + gradient.update].name
    inputs = (tensor,) * len(parts)
    work = {"flops": float((len(parts) - 1) * tensor.size), "reads": len(parts) * tensor.bytes}
    op = Operator(f"{name.removesuffix('/update')}/sum", "Gradient-elementwise", inputs, (tensor,), work)
    return builder.add(op, rank, parts, collective=False), 0
