"""Mesh: equal devices in a grid, and the time of a collective along one of its axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from hetgym.costs.collectives import LINKS, Links, collective_seconds, send_seconds
from hetgym.device import Device
from hetgym.errors import ConfigError, PlatformError, shown, suggestion
from hetgym.topology.boards import said_board, shipped_boards

NETWORK = "network"
"""Link of an axis whose ranks are on different nodes."""

ALONE = "pcie5"
"""Links whose figures a network takes if no axis of the mesh is within a node."""


@dataclass(frozen=True)
class Mesh:
    """Equal devices in a grid; ranks are numbered row-major, so the last axis joins neighbours.

    All groups of an axis communicate at the same time. On an axis within a node each GPU has its own links. On a
    ``network`` axis the groups with a stride, one for each GPU of a node, share the node's adapters; the figure
    ``network`` of :class:`~hetgym.costs.collectives.Links` is already one GPU's share of them, so it is not divided
    once more.

    Args:
        shape: ranks along each axis, outermost first.
        names: of the axes; by default ``tp`` for the last, ``dp`` before it, and ``axis0``, … before these.
        links: link of each axis: a key of :data:`~hetgym.costs.collectives.LINKS` within a node, or ``network``
            between nodes; by default ``nvlink3`` for all. A network takes the figures of the innermost axis within a
            node, or those of ``pcie5`` without one.
        device: the device of every rank, or the name of a known board.

    Raises:
        ConfigError: an axis without ranks, or names and links that do not fit the shape.
        PlatformError: an unknown link or board, or a network inside a node.

    >>> mesh = Mesh((2, 4), names=("dp", "tp"), links=("network", "nvlink3"))
    >>> mesh
    Mesh('2x4', dp: network, tp: nvlink3)
    >>> mesh.coordinates(6), mesh.groups("dp")[0]
    ((1, 2), (0, 4))
    """

    shape: tuple[int, ...]
    names: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    device: Device | str = "A100"

    def __post_init__(self) -> None:
        if isinstance(self.shape, int | str) or not isinstance(self.shape, Sequence) or not self.shape:
            raise ConfigError(f"mesh: shape is {shown(self.shape)}; it must be a number of ranks for each axis")
        for size in self.shape:
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise ConfigError(f"mesh: an axis has {shown(size)} ranks; it must be a whole number of at least 1")
        count = len(self.shape)
        usual = [f"axis{i}" for i in range(count - 2)] + ["dp", "tp"][-count:]
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "names", self._each("names", self.names, usual))
        object.__setattr__(self, "links", self._each("links", self.links, ["nvlink3"] * count))
        if len(set(self.names)) < count:
            raise ConfigError(f"mesh: two axes have the same name in {shown(list(self.names))}")
        self._check_links()
        if isinstance(self.device, str):
            object.__setattr__(self, "device", _board(self.device))
        elif not isinstance(self.device, Device):
            raise PlatformError(f"mesh: device is {shown(self.device)}; it must be a Device or the name of a board")

    def _each(self, what: str, given: Sequence[str], usual: Sequence[str]) -> tuple[str, ...]:
        """One word for each axis."""
        found = tuple(usual) if not given else (given,) if isinstance(given, str) else tuple(given)
        if len(found) != len(self.shape) or not all(isinstance(word, str) and word for word in found):
            raise ConfigError(f"mesh: {what} are {shown(list(found))}; {len(self.shape)} axes need one each")
        return found

    def _check_links(self) -> None:
        within = False
        for name, link in zip(self.names, self.links, strict=True):
            if link != NETWORK and link not in LINKS:
                raise PlatformError(
                    f"mesh: axis {name!r} has the unknown link {shown(link)}; {suggestion(link, [*LINKS, NETWORK])}"
                )
            if link == NETWORK and within:
                raise PlatformError(
                    f"mesh: the network of axis {name!r} is inside a node; put axes between nodes before the others"
                )
            within = within or link != NETWORK

    @property
    def size(self) -> int:
        """Number of ranks."""
        return math.prod(self.shape)

    @cached_property
    def processor(self) -> Device:
        """The device of every rank."""
        assert isinstance(self.device, Device)
        return self.device

    def axis(self, name: str | int) -> int:
        """Number of an axis, given its name or number; ConfigError if it does not exist."""
        if isinstance(name, str) and name in self.names:
            return self.names.index(name)
        if isinstance(name, int) and 0 <= name < len(self.shape):
            return name
        raise ConfigError(f"mesh: unknown axis {shown(name)}; its axes are {', '.join(self.names)}")

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Place of a rank on every axis."""
        place = []
        for size in reversed(self.shape):
            rank, at = divmod(rank, size)
            place.append(at)
        return tuple(reversed(place))

    def groups(self, axis: str | int) -> list[tuple[int, ...]]:
        """The groups of ranks that communicate along an axis, in the order of their first ranks."""
        at = self.axis(axis)
        stride = math.prod(self.shape[at + 1 :])
        firsts = [rank for rank in range(self.size) if self.coordinates(rank)[at] == 0]
        return [tuple(first + stride * k for k in range(self.shape[at])) for first in firsts]

    def seconds(self, kind: str, size: float, axis: str | int) -> float:
        """Time of a collective along an axis, in all of its groups at once [s]; 0 on an axis of one rank.

        Args:
            kind: one of :data:`~hetgym.costs.collectives.KINDS`.
            size: bytes of the whole buffer: what every rank holds before an all-reduce, a reduce-scatter or an
                all-to-all, and after an all-gather [byte].
            axis: name or number of the axis.

        Raises:
            UnknownName: no such collective.
            ConfigError: no such axis.
        """
        return _seconds(kind, float(size), self.shape[self.axis(axis)], *self._figures(self.axis(axis)))

    def neighbour_seconds(self, size: float, axis: str | int) -> float:
        """Time to send ``size`` bytes to the next rank on an axis [s]; 0 for none, and on an axis of one rank."""
        at = self.axis(axis)
        links, between = self._figures(at)
        return send_seconds(size, links, 2 if between else 1) if self.shape[at] > 1 else 0.0

    def _figures(self, axis: int) -> tuple[Links, bool]:
        """Figures of an axis, and whether it joins nodes."""
        inner = next((link for link in reversed(self.links) if link != NETWORK), ALONE)
        between = self.links[axis] == NETWORK
        return LINKS[inner if between else self.links[axis]], between

    def __repr__(self) -> str:
        axes = ", ".join(f"{name}: {link}" for name, link in zip(self.names, self.links, strict=True))
        return f"Mesh({'x'.join(map(str, self.shape))!r}, {axes})"


@lru_cache(maxsize=1 << 16)
def _seconds(kind: str, size: float, ranks: int, links: Links, between: bool) -> float:
    return float(collective_seconds(kind, size, ranks, links, ranks if between else 1)[0])


def _board(name: str) -> Device:
    """The device of a board's name."""
    found = said_board(name, ())
    if found is None:
        known = sorted(board.name for board in shipped_boards())
        raise PlatformError(f"mesh: no known board is called {shown(name)}; {suggestion(name.upper(), known)}")
    return found.named(name)
