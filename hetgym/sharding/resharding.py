"""Resharding: the collectives that take a tensor from one placement to another, axis by axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hetgym._sums import summed
from hetgym.errors import ConfigError
from hetgym.graph.ops import DTYPE_BYTES, Tensor
from hetgym.sharding.mesh import Mesh
from hetgym.sharding.placement import Entry, P, Placement, R, S, divides, local_shape

SLICE = "slice"
"""Step that drops a part of a local tensor; it sends nothing."""

COLLECTIVES = {
    ("R", "S"): SLICE,
    ("P", "S"): "reduce-scatter",
    ("P", "R"): "all-reduce",
    ("S", "S"): "all-to-all",
    ("S", "R"): "all-gather",
}
"""Kinds of two entries -> the step between them, in the order in which steps are taken: those that shrink first."""


@dataclass(frozen=True)
class Step:
    """One step of a resharding.

    Attributes:
        kind: one of the values of :data:`COLLECTIVES`.
        axis: number of the axis along which ranks communicate.
        before, after: entry of that axis.
        bytes: buffer as in :meth:`Mesh.seconds <hetgym.sharding.Mesh.seconds>` [byte]: the gathered size of an
            all-gather, the local size before any other collective, 0 for a slice.
        seconds: time [s].
    """

    kind: str
    axis: int
    before: Entry
    after: Entry
    bytes: float
    seconds: float


def resharding(tensor: Tensor, source: Placement, target: Placement, mesh: Mesh) -> tuple[Step, ...] | None:
    """The steps from one placement of a tensor to another.

    Slices come first, since they are free and shrink what others send; then reduce-scatters, all-reduces and
    all-to-alls; all-gathers are last. Where several axes shard one dimension, only the innermost of them can be
    gathered, and a shard can only be added inside the others, as in DTensor. An axis that is in the way is gathered
    and sliced again. Partial sums on several axes are reduced in the hierarchical way where that is faster: a
    reduce-scatter on one axis, all-reduces of its parts on the others, and an all-gather.

    Returns:
        The steps in order, none if the placements are equal; None where an entry would become a partial sum, which is
        forbidden.

    Raises:
        ConfigError: a placement that does not cut the tensor evenly, or that has another number of entries than the
            mesh has axes.

    >>> from hetgym.sharding.placement import P, S
    >>> mesh = Mesh((2, 4))
    >>> [(s.kind, s.bytes) for s in resharding(Tensor((8, 8)), (S(0), R), (R, S(1)), mesh)]
    [('slice', 0.0), ('all-gather', 64.0)]
    >>> resharding(Tensor((8, 8)), (R, R), (P, R), mesh) is None
    True
    """
    for placement in (source, target):
        if len(placement) != len(mesh.shape):
            raise ConfigError(f"a placement of {len(placement)} entries on a mesh of {len(mesh.shape)} axes")
        local_shape(tensor.shape, placement, mesh.shape)
    if any(b.kind == "P" and a.kind != "P" for a, b in zip(source, target, strict=True)):
        return None
    routes = [_route(tensor, source, target, mesh)]
    for middle in _hierarchical(tensor, source, target, mesh):
        routes.append((*_route(tensor, source, middle, mesh), *_route(tensor, middle, target, mesh)))
    return min(routes, key=_seconds)


def resharding_seconds(tensor: Tensor, source: Placement, target: Placement, mesh: Mesh) -> float:
    """Time of a resharding [s]; inf where it is forbidden. Arguments as for :func:`resharding`."""
    steps = resharding(tensor, source, target, mesh)
    return float("inf") if steps is None else _seconds(steps)


def _seconds(steps: tuple[Step, ...]) -> float:
    return summed(step.seconds for step in steps)


def _route(tensor: Tensor, source: Placement, target: Placement, mesh: Mesh) -> tuple[Step, ...]:
    """The steps without detours, one at least for each axis that changes."""
    current, steps = list(source), []
    while tuple(current) != target:
        axis, entry = _next(current, target)
        before, current[axis] = current[axis], entry
        steps.append(_priced(tensor, tuple(current), axis, before, mesh))
    return tuple(steps)


def _hierarchical(tensor: Tensor, source: Placement, target: Placement, mesh: Mesh) -> Iterator[Placement]:
    """Placements between two others in which one of several partial sums is scattered, along any dimension."""
    summed = [
        at for at, (a, b) in enumerate(zip(source, target, strict=True)) if (a, b) == (P, R) and mesh.shape[at] > 1
    ]
    for axis in summed if len(summed) > 1 else ():
        for dim in range(len(tensor.shape)):
            middle = (*source[:axis], S(dim), *source[axis + 1 :])
            if divides(tensor.shape, middle, mesh.shape):
                yield middle


def _next(current: list[Entry], target: Placement) -> tuple[int, Entry]:
    """The axis to change next, and its new entry.

    A dimension's shards stay ordered from the outermost axis to the innermost. A step that makes an axis final is
    taken as soon as the order allows it; the kinds of steps are tried in the order of COLLECTIVES. Reduce-scatters
    prefer inner axes, which have the faster links; gathers prefer outer ones, while the tensor is small.
    """
    for before, after in COLLECTIVES:
        axes = range(len(target))
        for axis in reversed(axes) if after == "S" else axes:
            entry, wanted = current[axis], target[axis]
            if entry == wanted or (entry.kind, wanted.kind) != (before, after):
                continue
            if _removable(current, axis) and _addable(current, target, axis):
                return axis, wanted
    # Nothing can be made final: gather the innermost shard that is not where it belongs, or lies inside such a one.
    for axis in reversed(range(len(target))):
        if current[axis].kind == "S" and not _final(current, target, axis):
            return axis, R
    raise AssertionError("a placement that no step changes")


def _removable(current: list[Entry], axis: int) -> bool:
    """Whether no inner axis shards the dimension that an axis shards."""
    entry = current[axis]
    return entry.kind != "S" or entry not in current[axis + 1 :]


def _addable(current: list[Entry], target: Placement, axis: int) -> bool:
    """Whether the target's shard on an axis would be the innermost of its dimension, inside final ones only."""
    entry = target[axis]
    if entry.kind != "S":
        return True
    outer = all((current[b] == entry) == (target[b] == entry) for b in range(axis))
    return outer and entry not in current[axis + 1 :]


def _final(current: list[Entry], target: Placement, axis: int) -> bool:
    """Whether the shard on an axis can stay until the end."""
    entry = current[axis]
    return entry == target[axis] and all((current[b] == entry) == (target[b] == entry) for b in range(axis))


def _priced(tensor: Tensor, current: Placement, axis: int, before: Entry, mesh: Mesh) -> Step:
    """The step after which the tensor has the placement ``current``."""
    after = current[axis]
    kind = COLLECTIVES[before.kind, after.kind]
    whole = local_shape(tensor.shape, (*current[:axis], R, *current[axis + 1 :]), mesh.shape)
    size = Tensor(whole).size * float(DTYPE_BYTES[tensor.dtype])  # local size if this axis did not cut it
    if kind == SLICE:
        return Step(kind, axis, before, after, 0.0, 0.0)
    if kind == "all-to-all":
        size /= mesh.shape[axis]
    return Step(kind, axis, before, after, size, mesh.seconds(kind, size, axis))
