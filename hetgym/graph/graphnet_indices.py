"""Indices of tensors in a GraphNet model, as the operators that PyTorch makes of them."""

from collections.abc import Callable
from typing import Any

from hetgym.errors import shown
from hetgym.graph.graphnet_graph import type_of
from hetgym.graph.graphnet_numbers import is_number
from hetgym.graph.pt2_nodes import Node

Make = Callable[..., Any]  # Makes a node of an operator's name and its arguments


def indexed(make: Make, owner: Node, index: Any) -> Any:
    """Elements of a tensor: views for numbers, slices and None, then at most one operator for tensors."""
    value, axis = owner, 0
    places: list[Any] = []
    for item in _spelled(owner, index):
        if item is None:
            value = make("unsqueeze", value, axis)
        elif isinstance(item, slice):
            if item != slice(None, None, None):
                value = make("slice", value, axis, item.start, item.stop, item.step)
        elif isinstance(item, Node | list):
            places += [None] * (axis - len(places))
            places.append(make("scalar_tensor", item) if isinstance(item, list) else item)
        elif is_number(item) and not isinstance(item, bool):
            value = make("select", value, axis, item)
            axis -= 1
        else:
            raise TypeError(f"{shown(item)} is not an index")
        axis += 1
    return make("index", value, places) if places else value


def _spelled(owner: Node, index: Any) -> list[Any]:
    """The items of an index, with the slices for which an ellipsis stands."""
    items = list(index) if isinstance(index, tuple) else [index]
    used = sum(item is not None and item is not Ellipsis for item in items)
    rank = len(type_of(owner).shape)
    if used > rank:
        raise IndexError(f"{used} indices of {rank} dimensions")
    at = next((k for k, item in enumerate(items) if item is Ellipsis), None)
    if at is not None:
        items[at : at + 1] = [slice(None)] * (rank - used)
    return items


def scattered(make: Make, owner: Node, index: Any, value: Any) -> Any:
    """A tensor with some elements replaced."""
    items = index if isinstance(index, tuple) else (index,)
    tensors = [item for item in items if isinstance(item, Node)]
    return make("index_put", owner, tensors, value) if tensors else make("slice_scatter", owner, value)
