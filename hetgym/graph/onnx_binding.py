"""Binding of the axes of an ONNX model's inputs to sizes: fixed ones, those that the caller names, or the batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hetgym.errors import GraphError, suggestion
from hetgym.graph.assembly import MAX_ELEMENTS, check_batch

if TYPE_CHECKING:
    import onnx

Shape = tuple[int, ...]


class Binding(NamedTuple):
    """Sizes of the inputs."""

    shapes: dict[str, Shape]  # input -> shape
    symbols: dict[str, int]  # name of a dynamic axis -> size; an axis without a name is `"input:axis"`
    rebound: set[str]  # inputs whose fixed leading 1 is to become the batch

    def at(self, batch: int) -> dict[str, Shape]:
        """The shapes of all inputs, with the leading axis of the rebound ones set to a batch."""
        return {name: (batch, *shape[1:]) if name in self.rebound else shape for name, shape in self.shapes.items()}


def bind(inputs: Sequence[onnx.ValueInfoProto], batch: int | None, dims: Mapping[str, int]) -> Binding:
    """Bind all axes of the declared inputs, without weights.

    ``batch`` is the size of leading axes that are dynamic, or that are 1 in all inputs; None means the sizes that the
    model fixes, and 1 for dynamic ones. Sizes of named axes, ``dims``, take precedence.

    Raises:
        GraphError: an axis remains without a size, a name is unknown, or the model fixes another batch.
    """
    dynamic: dict[str, tuple[onnx.ValueInfoProto, int]] = {}
    for value in inputs:
        for key, axis in _dynamic(value):
            dynamic.setdefault(key, (value, axis))
    symbols = _checked(dims, dynamic)
    leading = {key for value in inputs for key, axis in _dynamic(value) if axis == 0} - symbols.keys()
    symbols |= dict.fromkeys(leading, 1 if batch is None else check_batch(batch))
    for key, (value, axis) in dynamic.items():
        if key not in symbols:
            called = "" if ":" in key else f" ({key!r})"
            raise GraphError(
                f"axis {axis}{called} of input {value.name!r} is dynamic; state its size, by --dims {key}=… or, in "
                f"Python, dims={{{key!r}: …}}"
            )
    shapes = {value.name: _shape(value, symbols) for value in inputs}
    if batch is None or leading:
        return Binding(shapes, symbols, set())
    fixed = [value.name for value in inputs if shapes[value.name] and all(axis for _, axis in _dynamic(value))]
    return Binding(shapes, symbols, _rebound({name: shapes[name][0] for name in fixed}, batch))


def _dynamic(value: onnx.ValueInfoProto) -> Iterator[tuple[str, int]]:
    """Key and position of each axis without a size."""
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        raise GraphError(f"input {value.name!r} is not a tensor of known rank")
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        if dim.dim_value <= 0:  # older exporters write 0 or -1
            yield dim.dim_param or f"{value.name}:{axis}", axis


def _shape(value: onnx.ValueInfoProto, symbols: Mapping[str, int]) -> Shape:
    dynamic = {axis: symbols[key] for key, axis in _dynamic(value)}
    return tuple(dynamic.get(axis, dim.dim_value) for axis, dim in enumerate(value.type.tensor_type.shape.dim))


def _checked(dims: Mapping[str, int], known: Mapping[str, object]) -> dict[str, int]:
    for key, size in dims.items():
        if key not in known:
            raise GraphError(f"no dynamic axis is called {key!r}; {suggestion(key, known) if known else 'it has none'}")
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_ELEMENTS:
            raise GraphError(f"dims[{key!r}] must be a positive whole number, not {size!r}")
    return dict(dims)


def _rebound(static: Mapping[str, int], batch: int) -> set[str]:
    """Inputs to rebind, given the leading sizes that the model fixes."""
    sizes = list(static.values())
    if not sizes or sizes[0] == batch:
        return set()
    ones = {key for key, size in static.items() if size == 1 and batch > 1}
    if not ones and batch not in sizes:
        raise GraphError(
            f"the leading axis of input {next(iter(static))!r} is fixed at {sizes[0]}; leave the batch out"
        )
    return ones
