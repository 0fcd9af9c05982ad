"""Indices of an operator: the dimensions of its tensors that can be sharded together.

A rule labels the dimensions of all operands and results with letters, as einsum does: ``bmk,kn->bmn``. Sharding a
letter on an axis of the mesh shards every dimension with that letter and replicates the tensors without it. A letter
that no result has is summed, so the results become partial sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hetgym.graph.ops import Operator, integers
from hetgym.sharding.placement import Entry, P, R, S

Letters = tuple[str, ...]
"""A letter, or a word, for each dimension of a tensor; empty where a dimension cannot be sharded."""

REPLICATED = "replicated"
"""Label of the option that every operator has."""


@dataclass(frozen=True)
class Option:
    """One way to shard an operator on one axis.

    Attributes:
        label: for people, such as ``batch`` or ``k``.
        operands: entry of each operand.
        outputs: entry of each result.
        divides: True if every rank does an equal part of the work; False if all do the whole.
        once: operands that only the first rank of the axis uses, such as the bias of a partial sum.
        scaled: attributes that are divided by the number of ranks, such as the groups of a convolution.
        units: number that the ranks must divide beside the dimensions; 0 for none.
        reduced: for each all-reduce that the ranks need while they compute, its bytes if no other axis shares them
            [byte].
        halo: rows of the first operand that a rank needs from either neighbour, and their bytes if no other axis shares
            them [byte].
    """

    label: str
    operands: tuple[Entry, ...]
    outputs: tuple[Entry, ...]
    divides: bool = True
    once: frozenset[int] = frozenset()
    scaled: tuple[str, ...] = ()
    units: int = 0
    reduced: tuple[float, ...] = ()
    halo: tuple[int, float] = (0, 0.0)


@dataclass(frozen=True)
class Indices:
    """Letters of an operator's tensors.

    Attributes:
        operands: letters of each operand.
        outputs: letters of each result.
        summed: letters over which results are sums, so that parts of them add up.
        once: operands that are added to the result, once in all, where a letter is summed.
        linear: groups of operands in which the results are linear together, while the others are replicated: if all
            operands of such a group are partial sums, so are the results.
        units: letter -> number that the ranks must divide, such as groups of a convolution.
        scaled: letter -> attributes that are divided by the number of ranks.
        halos: letter -> the halo of its option.
    """

    operands: tuple[Letters, ...]
    outputs: tuple[Letters, ...]
    summed: frozenset[str] = frozenset()
    once: frozenset[int] = frozenset()
    linear: tuple[tuple[int, ...], ...] = ()
    units: Mapping[str, int] = field(default_factory=dict)
    scaled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    halos: Mapping[str, tuple[int, float]] = field(default_factory=dict)


Rule = Callable[[Operator], Indices | None]
"""Function from an operator to its letters; None if its shapes do not tell them."""


def options(found: Indices | None, operator: Operator) -> list[Option]:
    """The options of an operator on one axis: replication first, then its letters in order, then partial sums."""
    inputs, outputs = len(operator.inputs), len(operator.outputs)
    result = [Option(REPLICATED, (R,) * inputs, (R,) * outputs, divides=False)]
    if found is None:
        return result
    letters = dict.fromkeys(letter for row in (*found.outputs, *found.operands) for letter in row if letter)
    for letter in letters:
        option = _along(found, letter, [not tensor.size for tensor in operator.outputs])
        if option is not None:
            result.append(option)
    for group in found.linear:
        entries = tuple(P if at in group else R for at in range(inputs))
        label = "partial" if len(found.linear) == 1 else f"partial {group[0]}"
        result.append(Option(label, entries, (P,) * outputs, divides=False))
    return result


def _along(found: Indices, letter: str, empty: Sequence[bool]) -> Option | None:
    """The option that shards a letter; None if results that lack it are neither sums over it nor empty."""
    operands = tuple(S(row.index(letter)) if letter in row else R for row in found.operands)
    outputs = tuple(S(row.index(letter)) if letter in row else R for row in found.outputs)
    once: frozenset[int] = frozenset()
    if letter in found.summed:
        outputs = tuple(entry if entry.kind == "S" or none else P for entry, none in zip(outputs, empty, strict=True))
        once = frozenset(at for at in found.once if operands[at] == R)
    elif any(entry == R and not none for entry, none in zip(outputs, empty, strict=True)):
        return None
    units, scaled = found.units.get(letter, 0), found.scaled.get(letter, ())
    halo = found.halos.get(letter, (0, 0.0))
    return Option(letter, operands, outputs, once=once, scaled=scaled, units=units, halo=halo)


def aligned(shape: Sequence[int], result: Sequence[int], letters: Sequence[str]) -> Letters:
    """Letters of an operand that is broadcast to the result: those of the dimensions that it has in full.

    >>> aligned((6, 1), (4, 6, 5), ("x", "y", "z"))
    ('y', '')
    """
    skip = len(result) - len(shape)
    return tuple(
        letters[skip + at] if skip + at >= 0 and size == result[skip + at] and size > 1 else ""
        for at, size in enumerate(shape)
    )


def dimensions(rank: int) -> Letters:
    """A letter for each dimension, from ``d0``."""
    return tuple(f"d{at}" for at in range(rank))


def without(letters: Sequence[str], dropped: Sequence[int]) -> Letters:
    """The letters without those of some dimensions."""
    return tuple("" if at in dropped else letter for at, letter in enumerate(letters))


def windowed(op: Operator, extent: int) -> tuple[int, float] | None:
    """The halo of the rows of an image (dimension 2) under a window; None if ranks cannot share them evenly.

    A rank that has rows for its own outputs lacks those that its first window reads above them and its last below.

    Args:
        op: a convolution or a pooling.
        extent: rows of the window, with those that a dilation skips.
    """
    data, out = op.inputs[0], op.outputs[0].shape
    stride, before = (integers(op, "strides") or (1,))[0], (integers(op, "pads") or (0,))[0]
    after = extent - stride - before
    if "fused" in op.attributes or "auto_pad" in op.attributes or after < 0 or data.shape[2] != out[2] * stride:
        return None
    rows = max(before, after)
    return rows, rows * data.bytes / data.shape[2]


def identified(source: Sequence[int], target: Sequence[int], letters: Sequence[str]) -> Letters:
    """Letters of a shape whose sizes tell which dimensions of another shape they are: those that occur once in each.

    >>> identified((8, 3, 5, 5), (3, 8, 5, 5), ("a", "b", "c", "d"))
    ('b', 'a', '', '')
    """
    here, there = Counter(source), Counter(target)
    return tuple(
        letters[list(source).index(size)] if size > 1 and here[size] == there[size] == 1 else "" for size in target
    )
