"""Platforms: devices, the network between them and the routes that data takes."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hetgym._groups import gathered
from hetgym._input.config import check_number, read
from hetgym._input.files import as_path
from hetgym._input.json import repeated
from hetgym._input.parts import part
from hetgym._input.yaml import load_yaml
from hetgym._text import plain
from hetgym._types import FloatArray, IntArray, frozen
from hetgym.device import DEVICE_KINDS, Device, Link
from hetgym.errors import PlatformError, check_name, suggestion

_PRESETS = part("configs") / "platforms"
MOST_DEVICES = 1024  # Most devices of a platform: routes are found between every two of them

_FIGURES = ("peak_flops", "memory_bandwidth", "memory_capacity", "launch_overhead")


@dataclass(frozen=True)
class _LinkEntry:
    """A link in a platform file: either ``between`` two ends in both directions, or from ``start`` to ``end``."""

    latency: float
    bandwidth: float
    between: tuple[str, str] | None = None
    start: str = ""
    end: str = ""
    efficiency: float = 1.0
    kind: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if bool(self.between) == bool(self.start and self.end) or (self.between and (self.start or self.end)):
            raise PlatformError("a link has either between: [a, b], for both directions, or start: a and end: b")
        self.links()  # checked here, so that errors name the place in the file

    def links(self) -> list[Link]:
        first, second = self.between or (self.start, self.end)
        one = Link(first, second, self.latency, self.bandwidth, self.efficiency, self.kind, self.source)
        return [one, replace(one, start=second, end=first)] if self.between else [one]


@dataclass(frozen=True)
class _Document:
    name: str
    devices: tuple[Device, ...]
    links: tuple[_LinkEntry, ...] = ()
    switches: tuple[str, ...] = ()
    description: str = ""


@dataclass(frozen=True)
class Platform:
    """Devices and the network between them.

    Data takes the route of least total latency; ties go to the route with fewer links, then to the one whose names
    come first in alphabetical order. Switches forward data, devices do not. A copy that is staged in host memory is
    modelled as a route over a switch that stands for that memory.

    Args:
        devices: the devices; arrays over devices have this order.
        links: directed links.
        switches: names of the nodes that only forward data.
        description: one line for listings.

    Raises:
        PlatformError: no devices or more than :data:`MOST_DEVICES`, a name used twice, a link with an unknown end, a
            link given twice, or two devices without a route.

    >>> platform = load_platform("cpu-gpu")
    >>> [device.name for device in platform]
    ['cpu', 'gpu']
    >>> platform["gpu"].model
    'NVIDIA Tesla V100 PCIe 16 GB'
    """

    name: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...] = ()
    switches: tuple[str, ...] = ()
    description: str = ""

    def __repr__(self) -> str:
        return f"Platform({self.name!r}, {len(self.devices)} devices, {len(self.links)} links)"

    def __post_init__(self) -> None:
        for key in ("devices", "links", "switches"):
            object.__setattr__(self, key, tuple(getattr(self, key)))
        if not self.devices:
            raise PlatformError(f"platform {self.name!r} has no devices")
        if len(self.devices) > MOST_DEVICES:
            raise PlatformError(
                f"platform {self.name!r} has {len(self.devices)} devices; a platform has at most {MOST_DEVICES}"
            )
        names = [*(device.name for device in self.devices), *self.switches]
        if (twice := repeated(names)) is not None:
            raise PlatformError(f"platform {self.name!r}: the name {twice!r} is used twice")
        nodes = set(names)
        pairs: set[tuple[str, str]] = set()
        for link in self.links:
            who = f"platform {self.name!r}: link {link.start!r} -> {link.end!r}"
            for end in (link.start, link.end):
                if end not in nodes:
                    raise PlatformError(f"{who} ends at unknown device or switch {end!r}; {suggestion(end, nodes)}")
            if (link.start, link.end) in pairs:
                raise PlatformError(f"{who} is given twice")
            pairs.add((link.start, link.end))
        self._routes  # noqa: B018  a missing route is an error of the description, so find it now

    def __len__(self) -> int:
        return len(self.devices)

    def __iter__(self) -> Iterator[Device]:
        return iter(self.devices)

    def __getitem__(self, key: int | str) -> Device:
        """The device with the given position or name."""
        return self.devices[self.index(key) if isinstance(key, str) else key]

    @property
    def memory_pool(self) -> list[int]:
        """[d] devices of one number share a memory."""
        own = [device.memory_pool or (k,) for k, device in enumerate(self.devices)]
        return [own.index(pool) for pool in own]

    @property
    def takes_turns(self) -> list[bool]:
        """[d] True for synchronous devices and their host, which run one operator at a time between them."""
        turns = [device.synchronous for device in self.devices]
        hosts = [k for k, device in enumerate(self.devices) if device.kind == "cpu" and not turns[k]]
        for host in hosts[:1] if any(turns) else ():
            turns[host] = True
        return turns

    def index(self, name: str) -> int:
        """Position of a device.

        Raises:
            UnknownName: the platform has no such device.
        """
        names = [device.name for device in self.devices]
        check_name(f"device of platform {self.name!r}", name, names)
        return names.index(name)

    def route(self, a: int | str, b: int | str) -> tuple[Link, ...]:
        """The links that data crosses from device ``a`` to device ``b``, in order; empty if they are the same."""
        return self._routes[self[a].name, self[b].name]

    @cached_property
    def latency(self) -> FloatArray:
        """[d, d] sum of the latencies along the route [s]; 0 on the diagonal."""
        d = range(len(self))
        return frozen(np.array([[_total(self.route(a, b)) for b in d] for a in d], np.float64))

    @cached_property
    def bandwidth(self) -> FloatArray:
        """[d, d] payload bandwidth of the route's narrowest link [byte/s]; inf on the diagonal."""
        d = range(len(self))
        routes = [[self.route(a, b) for b in d] for a in d]
        return frozen(
            np.array([[min(map(_rate, route), default=math.inf) for route in row] for row in routes], np.float64)
        )

    @cached_property
    def routes(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Arrays of :class:`hetgym.problem.Routes`: [d * d + 1] pointers, [r] link numbers, [l] bandwidths [byte/s]."""
        number = {link: k for k, link in enumerate(self.links)}
        pointer, crossed = [0], []
        for a, b in product(range(len(self)), repeat=2):
            crossed += [number[link] for link in self.route(a, b)]
            pointer.append(len(crossed))
        rates = [_rate(link) for link in self.links]
        return np.array(pointer, np.int32), np.array(crossed, np.int32), np.array(rates, np.float64)

    @cached_property
    def _routes(self) -> dict[tuple[str, str], tuple[Link, ...]]:
        outgoing = gathered((link.start, link) for link in self.links)
        routes = {}
        for a in self.devices:
            found = _shortest(a.name, outgoing, frozenset(self.switches))
            for target in self.devices:
                if target.name not in found:
                    raise PlatformError(
                        f"platform {self.name!r}: no route from {a.name!r} to {target.name!r}; add a link, or a switch "
                        "that both are linked to (devices do not forward)"
                    )
                routes[a.name, target.name] = found[target.name]
        return routes

    def scaled(self, factors: Mapping[str, float], name: str = "") -> Platform:
        """Copy the platform with some of its figures multiplied, for sensitivity studies.

        Args:
            factors: ``device.figure`` -> factor, where the figure is ``peak_flops`` (of every dtype),
                ``memory_bandwidth``, ``memory_capacity`` or ``launch_overhead``; ``links.latency`` and
                ``links.bandwidth`` are those of all links.
            name: name of the new platform; by default the old name followed by the factors.

        Raises:
            PlatformError: no such device or figure, or a factor that is not positive.

        >>> load_platform("cpu-gpu").scaled({"gpu.peak_flops": 2.0})["gpu"].peak_flops["float32"]
        28000000000000.0
        """
        of: dict[str, dict[str, float]] = {}
        for key, factor in factors.items():
            who, _, figure = key.partition(".")
            known = ("links", *(device.name for device in self.devices))
            figures = ("latency", "bandwidth") if who == "links" else _FIGURES
            for what, value, names in (("device", who, known), ("figure", figure, figures)):
                if value not in names:
                    raise PlatformError(
                        f"platform {self.name!r} cannot be scaled by {key!r}: unknown {what} {value!r}; "
                        f"{suggestion(value, names)}"
                    )
            check_number(factor, f"platform {self.name!r}: the factor of {key!r}", PlatformError, positive=True)
            of.setdefault(who, {})[figure] = factor

        devices = tuple(replace(device, **_multiplied(device, of.get(device.name, {}))) for device in self.devices)
        links = tuple(replace(link, **_multiplied(link, of.get("links", {}))) for link in self.links)
        behind = "".join(f"-{key}={factor:g}" for key, factor in factors.items())
        return replace(self, name=name or self.name + behind, devices=devices, links=links)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "platform") -> Platform:
        """Build a platform from the mapping that a YAML file holds.

        Args:
            data: ``name``, ``devices`` (fields of :class:`Device`), ``links`` (fields of :class:`Link`, or ``between:
                [a, b]`` for both directions), ``switches``, ``description``.

        Raises:
            ConfigError: an unknown key, a missing key or a value of the wrong type.
            PlatformError: a malformed platform.
        """
        document = read(_Document, data, where)
        links = tuple(link for entry in document.links for link in entry.links())
        try:
            return cls(document.name, document.devices, links, document.switches, document.description)
        except PlatformError as error:
            raise PlatformError(f"{where}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """The mapping from which :meth:`from_dict` builds an equal platform."""
        return {
            "name": self.name,
            "description": self.description,
            "devices": [device.to_dict() for device in self.devices],
            "links": [asdict(link) for link in self.links],
            "switches": list(self.switches),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        # Rebuild instead of copying cached arrays: copies of read-only arrays would be writable.
        return type(self), (self.name, self.devices, self.links, self.switches, self.description)


def _multiplied(part: Device | Link, factors: Mapping[str, float]) -> dict[str, Any]:
    """Figures of a device or link, multiplied by their factors."""
    changes: dict[str, Any] = {}
    for figure, factor in factors.items():
        value = getattr(part, figure)
        changes[figure] = (
            {key: rate * factor for key, rate in value.items()} if isinstance(value, Mapping) else value * factor
        )
    return changes


def _shortest(
    start: str, outgoing: Mapping[str, Sequence[Link]], switches: frozenset[str]
) -> dict[str, tuple[Link, ...]]:
    """Routes from one device to all others, by Dijkstra's algorithm on labels (latency, hops, names).

    Labels are totally ordered, so the result does not depend on the order of the links.
    """
    found: dict[str, tuple[Link, ...]] = {}
    heap: list[tuple[float, int, tuple[str, ...], tuple[Link, ...]]] = [(0.0, 0, (start,), ())]
    while heap:
        _, hops, names, route = heapq.heappop(heap)
        node = names[-1]
        if node in found:
            continue
        found[node] = route
        if node == start or node in switches:
            for link in outgoing.get(node, ()):
                if link.end not in found:
                    longer = (*route, link)
                    heapq.heappush(heap, (_total(longer), hops + 1, (*names, link.end), longer))
    return found


def _rate(link: Link) -> float:
    """Bandwidth that payload reaches [byte/s]."""
    return link.bandwidth * link.efficiency


def _total(route: Sequence[Link]) -> float:
    """Latency of a route, rounded only once so that it is the same in both directions [s]."""
    return math.fsum(link.latency for link in route)


def platform_names() -> list[str]:
    """Names of the presets that :func:`load_platform` knows.

    >>> "cpu-gpu" in platform_names()
    True
    """
    return sorted(file.stem for file in _PRESETS.glob("*.yaml"))


def load_platform(platform: str | Path) -> Platform:
    """Load a preset by name, or a platform from a YAML file.

    Args:
        platform: one of :func:`platform_names`, or a path that ends in ``.yaml`` or ``.yml``.

    Raises:
        UnknownName: no preset has that name.
        ConfigError: the file is missing, is not YAML, or has an unknown key or a value of the wrong type.
        PlatformError: the platform is malformed.

    >>> load_platform("8gpu-nodes")
    Traceback (most recent call last):
    hetgym.errors.UnknownName: unknown platform '8gpu-nodes'; did you mean '8gpu-node'?
    """
    file = as_path(platform, "a platform", PlatformError)
    if file.suffix not in (".yaml", ".yml"):
        check_name("platform", str(platform), platform_names())
        file = _PRESETS / f"{platform}.yaml"
    found = Platform.from_dict({"name": plain(file.stem), **load_yaml(file)}, str(platform))
    return replace(found, devices=tuple(_beside(device, file.parent) for device in found.devices))


def _beside(device: Device, folder: Path) -> Device:
    """A device whose cost models are files of a folder, if they are there."""

    def found(name: str) -> str:
        path = folder / name
        return str(path) if path.suffix == ".npz" and path.is_file() else name

    return replace(device, costs=found(device.costs), half_costs=found(device.half_costs))


__all__ = ["DEVICE_KINDS", "Device", "Link", "Platform", "load_platform", "platform_names"]
