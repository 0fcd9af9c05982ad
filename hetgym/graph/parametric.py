"""One JSON document for a model at every batch size."""

from collections.abc import Callable
from typing import Any

from hetgym.errors import GraphError
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Tensor
from hetgym.graph.serialization import from_json, tensor_row, to_document


def parametric(importer: Callable[[int], DataflowGraph], proof: int = 3) -> dict[str, Any]:
    """A document for :func:`~hetgym.graph.from_json`, whose dimensions are numbers or multiples of the batch.

    Batches 1 and 2 give the form of every dimension. As a check, the document bound to the batch ``proof``, above 2,
    must be equal to the model imported at that batch. The importer must give the same operators at every batch.

    Raises:
        GraphError: a dimension is neither constant nor a multiple of the batch, or the graphs differ otherwise.
    """
    one, two, last = importer(1), importer(2), importer(proof)
    if _structure(one) != _structure(two):
        raise GraphError(f"graph {one.name!r} changes its structure with the batch")
    document = to_document(one)
    document["tensors"] = tensors = []
    positions: dict[tuple[Tensor, Tensor], int] = {}
    for row, small, large in zip(document["operators"], one.operators, two.operators, strict=True):
        for side in ("inputs", "outputs"):
            pairs = list(zip(getattr(small, side), getattr(large, side), strict=True))
            for pair in pairs:
                if pair not in positions:
                    positions[pair] = len(positions)
                    tensors.append(_row(*pair, small.name))
            row[side] = [positions[pair] for pair in pairs]
    if from_json(document, batch=proof) != last:
        raise GraphError(f"graph {one.name!r} at batch {proof} differs from what its batches 1 and 2 predict")
    return document


def _structure(graph: DataflowGraph) -> tuple[object, ...]:
    return graph.edges, tuple((op.name, len(op.inputs), len(op.outputs)) for op in graph.operators)


def _row(small: Tensor, large: Tensor, operator: str) -> dict[str, Any]:
    if len(small.shape) != len(large.shape):
        raise GraphError(f"operator {operator!r}: the rank of {small.shape} changes with the batch")
    shape = [_dimension(at_one, at_two, operator) for at_one, at_two in zip(small.shape, large.shape, strict=True)]
    return tensor_row(small, shape)


def _dimension(at_one: int, at_two: int, operator: str) -> int | str:
    if at_one == at_two:
        return at_one
    if at_two != 2 * at_one:
        raise GraphError(
            f"operator {operator!r}: dimension {at_one} becomes {at_two}, which is not a multiple of the batch"
        )
    return "batch" if at_one == 1 else f"{at_one}*batch"
