"""Options of the operators of a training step: backward operators, the loss and updates.

A backward operator has the options of its forward operator, turned round: where the result is sharded, so is its
gradient; where it is a partial sum, its gradient is replicated. An operand that is sharded has a sharded gradient; one
that is replicated while the ranks share the work receives a partial sum from each. A backward operator is linear in the
gradients that it reads, so partial sums can also pass through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetgym._sums import summed
from hetgym.graph.ops import DTYPE_BYTES, Operator
from hetgym.sharding.placement import Entry, P, R, S
from hetgym.sharding.rules.indices import REPLICATED, Option, dimensions


@dataclass(frozen=True)
class Adjoint:
    """Which tensors of the forward operator those of a backward operator belong to.

    Attributes:
        forward: the forward operator.
        gradients: for each operand the result of the forward operator whose gradient it is; -1 for others.
        kept: for each operand the operand of the forward operator that it repeats; -1 for gradients.
        wanted: for each result the operand of the forward operator whose gradient it is.
    """

    forward: Operator
    gradients: tuple[int, ...]
    kept: tuple[int, ...]
    wanted: tuple[int, ...]


def backward_options(adjoint: Adjoint, forward: Sequence[Option]) -> list[Option]:
    """Options of a backward operator, under the labels of the forward operator's options.

    Args:
        adjoint: how the two operators correspond.
        forward: options of the forward operator.
    """
    result = [_turned(adjoint, option) for option in forward if option.divides or option.label == REPLICATED]
    if any(at >= 0 for at in adjoint.gradients):
        entries = tuple(P if at >= 0 else R for at in adjoint.gradients)
        result.append(Option("partial gradients", entries, (P,) * len(adjoint.wanted), divides=False))
    return result


def _turned(adjoint: Adjoint, option: Option) -> Option:
    """The option of a backward operator for that of its forward operator."""
    operands = tuple(
        option.operands[kept] if kept >= 0 else _given(option.outputs[slot])
        for slot, kept in zip(adjoint.gradients, adjoint.kept, strict=True)
    )
    outputs = tuple(_received(option, at) for at in adjoint.wanted)
    rows, size = option.halo  # of the operand, and once more of the gradient
    return Option(option.label, operands, outputs, option.divides, units=option.units, halo=(rows, 2.0 * size))


def _given(entry: Entry) -> Entry:
    """Entry of the gradient of a result."""
    return R if entry == P else entry


def _received(option: Option, at: int) -> Entry:
    """Entry of the gradient of an operand."""
    entry = option.operands[at]
    if entry == R and option.divides and at not in option.once:
        return P
    return _given(entry)


def loss_options(op: Operator) -> list[Option]:
    """Options of the operator that turns the results of a graph into their gradients.

    It is priced as a softmax over the last dimension: sharding that one takes all-reduces of the largest number and of
    the sum of each row, in 4 bytes.
    """
    count = len(op.inputs)
    rank = max((len(tensor.shape) for tensor in op.inputs), default=0)
    result = [Option(REPLICATED, (R,) * count, (R,) * len(op.outputs), divides=False)]
    for at, letter in enumerate(dimensions(rank)):
        if all(len(tensor.shape) > at for tensor in op.inputs):
            rows = summed(t.size // max(1, t.shape[-1]) for t in op.inputs if at == len(t.shape) - 1 and at > 0)
            entries, reduced = (S(at),) * count, 2 * (rows * float(DTYPE_BYTES["float32"]),) if rows else ()
            result.append(Option(letter, entries, entries[: len(op.outputs)], reduced=reduced))
    return result


def update_options(op: Operator) -> list[Option]:
    """Options of the update of a weight: gradients, weight and state are cut alike, along any dimension."""
    count, shape = len(op.inputs), op.inputs[0].shape
    result = [Option(REPLICATED, (R,) * count, (R,) * len(op.outputs), divides=False)]
    for at, letter in enumerate(dimensions(len(shape))):
        if all(tensor.shape == shape for tensor in op.inputs):
            result.append(Option(letter, (S(at),) * count, (R,) * len(op.outputs)))
    return result
