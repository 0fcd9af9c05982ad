"""Problem: a complete scheduling problem as plain arrays.

Graphs, platforms and cost models, from which problems are made, know about deep learning. Schedulers, simulators and
environments see only the arrays.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from hetgym import _tables as tables
from hetgym._deferred import Deferred
from hetgym._input.artefacts import Array, Kind, check_format, load_npz, save_npz
from hetgym._input.files import as_path
from hetgym._kernels.records import record
from hetgym._sums import summed
from hetgym._text import brief
from hetgym._types import BoolArray, FloatArray, Int64Array, IntArray, as_numbers, frozen
from hetgym.errors import ProblemError
from hetgym.graph import topology
from hetgym.weights import SharedWeights, read_shared, unshared

if TYPE_CHECKING:
    from hetgym.costs import CostModel
    from hetgym.graph.dataflow import DataflowGraph
    from hetgym.platform import Platform

FORMAT_VERSION = 1
_ARRAYS = {
    "cost": ("float64", "n", "d"), "edge_source": ("int32", "e"), "edge_target": ("int32", "e"),
    "edge_bytes": ("float64", "e"), "edge_tensor": ("int32", "e"), "latency": ("float64", "d", "d"),
    "bandwidth": ("float64", "d", "d"), "weight_bytes": ("float64", "n"), "output_bytes": ("float64", "n"),
    "memory_capacity": ("float64", "d"), "route_pointer": ("int32", "pairs"), "route_link": ("int32", "r"),
    "link_bandwidth": ("float64", "l"), "asynchronous": ("bool", "d"), "occupancy": ("float64", "n", "d"),
    "power_busy": ("float64", "d"), "power_idle": ("float64", "d"), "price": ("float64", "d"),
    "shared_pointer": ("int32", "weights and one"), "shared_reader": ("int32", "readers"),
    "shared_size": ("float64", "weights"), "memory_pool": ("int32", "d"), "partition_overhead": ("float64", "d"),
    "synchronous": ("bool", "d"),
}  # fmt: skip
"""Name of an array in a file -> dtype and axes; the file's header fixes n and d, and ``pairs`` is d * d + 1."""

_USUAL = {"occupancy": 1.0, "power_busy": 0.0, "power_idle": 0.0, "price": 0.0, "partition_overhead": 0.0}
"""Arrays that files leave out where they have this value throughout."""

_SHARED = ("shared_pointer", "shared_reader", "shared_size")
"""Arrays of :class:`~hetgym.weights.SharedWeights`, which files leave out where no weight is shared."""

_TARIFF = ("power_busy", "power_idle", "price")  # Arrays that no run depends on: digests leave them out


class Routes(NamedTuple):
    """The links that a transfer between two devices crosses."""

    pointer: IntArray  # [d * d + 1] the links from device a to b are `link[pointer[a * d + b] .. [a * d + b + 1]]`.
    link: IntArray  # [r] link numbers, in the order of crossing
    bandwidth: FloatArray  # [l] byte/s of each link

    @classmethod
    def direct(cls, bandwidth: FloatArray) -> Routes:
        """Routes over dedicated links: one for every ordered pair of different devices, with the pair's bandwidth."""
        apart, pointer, link = _direct_routes(len(bandwidth))
        return cls(pointer, link, bandwidth[apart])


@lru_cache(maxsize=8)
def _direct_routes(d: int) -> tuple[BoolArray, IntArray, IntArray]:
    """[d, d] true for different devices; pointers and link numbers of the routes between them."""
    apart = ~np.eye(d, dtype=np.bool_)
    pointer = np.zeros(d * d + 1, np.int32)
    np.cumsum(apart.ravel(), out=pointer[1:])
    return frozen(apart), frozen(pointer), frozen(np.arange(pointer[-1], dtype=np.int32))


@record
class ProblemArrays(NamedTuple):
    """The arrays of a Problem for kernels; all are read-only and C-contiguous.

    Edges are sorted by source, so edge ``k`` is also row entry ``k`` of the successor lists.
    """

    cost: FloatArray  # [n, d] run time [s]; inf where an operator cannot be placed
    successor_pointer: IntArray  # [n + 1] the outgoing edges of i are `successor_pointer[i] .. [i + 1]`.
    successor: IntArray  # [e] target of each edge
    edge_source: IntArray  # [e] source of each edge
    predecessor_pointer: IntArray  # [n + 1] row starts of the incoming edges
    predecessor: IntArray  # [e] source of each incoming edge, in target order
    predecessor_edge: IntArray  # [e] edge id of each incoming edge
    edge_bytes: FloatArray  # [e] payload [byte]
    edge_tensor: IntArray  # [e] tensor id
    latency: FloatArray  # [d, d] seconds; 0 on the diagonal
    bandwidth: FloatArray  # [d, d] byte/s; inf on the diagonal
    topological_order: IntArray  # [n] Kahn's order, smallest id first
    position: IntArray  # [n] inverse of the topological order: the tie-break between operators
    # route_pointer, route_link, link_bandwidth: see Routes
    route_pointer: IntArray
    route_link: IntArray
    link_bandwidth: FloatArray
    asynchronous: BoolArray  # [d] True if the host launches operators ahead of the device
    occupancy: FloatArray  # [n, d] share of the device, in (0, 1], that the operator needs to run at full speed
    partition_overhead: FloatArray  # [d] time to enter a partition [s]
    takes_turns: BoolArray  # [d] True for devices that run one operator at a time between them

    def __repr__(self) -> str:
        return brief(self)


class Problem(Deferred):
    """A scheduling problem: the cost of each operator on each device, and the data that moves between devices.

    Build one with :meth:`build` (a graph on a platform), :meth:`from_arrays` or :meth:`load`. All arrays are read-only.

    Attributes:
        name: for messages and reports.
        cost: [n, d] run time of operator i on device d [s]; inf = not placeable.
        edge_source, edge_target: [e] operator ids, sorted by source, target, tensor.
        edge_bytes: [e] bytes that an edge carries.
        edge_tensor: [e] tensor id; edges that carry the same tensor share it.
        latency: [d, d] seconds; 0 on the diagonal.
        bandwidth: [d, d] byte/s; inf on the diagonal.
        weight_bytes: [n] weights that an operator reads, shared or not [byte].
        shared_weights: those of them that several operators read: a device that runs any of these holds the weight,
            once. See :class:`~hetgym.weights.SharedWeights`.
        output_bytes: [n] outputs of an operator [byte].
        memory_capacity: [d] byte; inf = unlimited.
        memory_pool: [d] devices of one number share a memory: together they hold no more than the largest capacity
            among them.
        route_pointer, route_link, link_bandwidth: links between devices, see :class:`Routes`.
        asynchronous: [d] True if the host launches operators ahead of the device, as on accelerators.
        occupancy: [n, d] share of the device, in (0, 1], that operator i needs to run at full speed; operators that run
            beside each other slow down as soon as their shares exceed 1 in sum. Read only where devices have several
            streams.
        power_busy, power_idle: [d] power of each device while it runs an operator, and while it runs none [W]; 0
            throughout = unknown.
        price: [d] rent of each device [currency/h]; 0 throughout = unknown.
        partition_overhead: [d] time that a device takes to enter a partition [s]: before its first operator, and before
            one that reads a result which another device finished after the latest partition was entered.
        synchronous: [d] True if the host, the first other device that does not run ahead of its host, waits while the
            device runs: these devices take turns, an operator at a time.
        operator_names, operator_kinds, device_names: for messages and pictures.
        notes: what the importer left out that can change a makespan, a sentence each.
    """

    def __init__(
        self,
        cost: FloatArray,
        edge_source: IntArray,
        edge_target: IntArray,
        edge_bytes: FloatArray,
        edge_tensor: IntArray,
        latency: FloatArray,
        bandwidth: FloatArray,
        weight_bytes: FloatArray,
        output_bytes: FloatArray,
        memory_capacity: FloatArray,
        operator_names: Sequence[str],
        operator_kinds: Sequence[str],
        device_names: Sequence[str],
        name: str,
        routes: Routes | None = None,
        asynchronous: npt.ArrayLike = False,
        occupancy: npt.ArrayLike = 1.0,
        power_busy: npt.ArrayLike = 0.0,
        power_idle: npt.ArrayLike = 0.0,
        price: npt.ArrayLike = 0.0,
        partition_overhead: npt.ArrayLike = 0.0,
        notes: Sequence[str] = (),
        shared_weights: SharedWeights | None = None,
        memory_pool: npt.ArrayLike | None = None,
        synchronous: npt.ArrayLike = False,
    ) -> None:
        self.name = name
        self.notes = tuple(notes)
        self.operator_names = tuple(operator_names)
        self.operator_kinds = tuple(operator_kinds)
        self.device_names = tuple(device_names)
        n, d = np.shape(cost)
        tables.check_devices(d, name)
        tables.check_size(n, d, name)
        for noun, what, names, count in (
            ("operator", "names", self.operator_names, n),
            ("operator", "kinds", self.operator_kinds, n),
            ("device", "names", self.device_names, d),
        ):
            if len(names) != count:
                raise self._wrong(f"{len(names)} {noun} {what} for {count} {noun}s")
        self.cost = self._real("cost", cost, (n, d), finite=False)
        if n == 0 or d == 0:
            raise ProblemError(f"problem {name!r} has {n} operators and {d} devices; it needs at least one of each")
        if not tables.finite_somewhere(self.cost):
            i = int(np.flatnonzero(~np.isfinite(self.cost).any(axis=1))[0])
            raise self._wrong(
                f"operator {i} ({self.operator_names[i]!r}) cannot be placed on any device: all its costs are infinite"
            )
        e = len(edge_source)
        ends = [np.asarray(values).astype(np.int32) for values in (edge_source, edge_target, edge_tensor)]
        if tables.in_order(n, *ends):
            self.edge_bytes = self._real("edge_bytes", edge_bytes, (e,))
        else:
            order = np.lexsort((edge_tensor, edge_target, edge_source))
            ends = [values[order] for values in ends]
            self.edge_bytes = self._real("edge_bytes", np.asarray(edge_bytes)[order], (e,))
            self._check_edges(n, *ends)
        self.edge_source, self.edge_target, self.edge_tensor = (frozen(values) for values in ends)
        self.latency = self._between("latency", latency, d, diagonal=0.0)
        self.bandwidth = self._between("bandwidth", bandwidth, d, diagonal=np.inf)
        self.weight_bytes = self._real("weight_bytes", weight_bytes, (n,))
        self.shared_weights = self._shared(shared_weights)
        self.output_bytes = self._real("output_bytes", output_bytes, (n,))
        self.memory_capacity = self._real("memory_capacity", memory_capacity, (d,), finite=False)
        self.memory_pool = _own_memory(d) if memory_pool is None else frozen(np.array(memory_pool, np.int32))
        if self.memory_pool.shape != (d,):
            raise self._wrong(f"memory_pool has shape {self.memory_pool.shape}, expected ({d},)")
        if routes is None:
            self.route_pointer, self.route_link, links = Routes.direct(self.bandwidth)
            self.link_bandwidth = frozen(links)
        else:
            self._set_routes(routes, d)
        self.asynchronous, self.synchronous = (
            self._flags(what, value, d)
            for what, value in (("asynchronous", asynchronous), ("synchronous", synchronous))
        )
        self.occupancy = self._usually(1.0, "occupancy", occupancy, (n, d))
        if self.occupancy is not _all(1.0, n, d) and not ((self.occupancy > 0) & (self.occupancy <= 1)).all():
            i, a = (int(k) for k in np.argwhere(~((self.occupancy > 0) & (self.occupancy <= 1)))[0])
            raise self._wrong(f"occupancy[{i}, {a}] is {self.occupancy[i, a]}; it must be above 0 and at most 1")
        self.power_busy, self.power_idle, self.price, self.partition_overhead = (
            self._usually(0.0, what, value, (d,))
            for what, value in (
                ("power_busy", power_busy),
                ("power_idle", power_idle),
                ("price", price),
                ("partition_overhead", partition_overhead),
            )
        )
        if self.power_idle is not self.power_busy and (self.power_idle > self.power_busy).any():
            a = int(np.argmax(self.power_idle > self.power_busy))
            raise self._wrong(
                f"power_idle[{a}] is {self.power_idle[a]:g} W, above power_busy of {self.power_busy[a]:g} W"
            )
        self.successors, self.predecessors, self.topological_order = topology.arrange(
            n, self.edge_source, self.edge_target
        )
        if len(self.topological_order) < n:
            cycle = [self.operator_names[i] for i in topology.find_cycle(self.successors, self.topological_order)]
            raise ProblemError(f"problem {name!r} has a cycle: {' -> '.join([*cycle, cycle[0]])}")

    def _wrong(self, text: str) -> ProblemError:
        """The error of an argument."""
        return ProblemError(f"problem {self.name!r}: {text}")

    def _real(self, what: str, values: npt.ArrayLike, shape: tuple[int, ...], finite: bool = True) -> FloatArray:
        """Check one array of non-negative numbers and freeze a C-contiguous copy of it."""
        unlike = f"problem {self.name!r}: {what} is not an array of numbers"
        array = np.ascontiguousarray(as_numbers(values, unlike, ProblemError))
        if array.shape != shape:
            raise self._wrong(f"{what} has shape {array.shape}, expected {shape}")
        if not tables.all_within(array.reshape(-1), finite):
            bad = ~((array >= 0) & (array <= tables.LARGEST)) & (True if finite else ~np.isposinf(array))
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            where = ", ".join(map(str, at))
            rule = f"between 0 and {tables.LARGEST:g}{'' if finite else ', or infinite'}"
            raise self._wrong(f"{what}[{where}] is {array[at]}; it must be {rule}")
        return frozen(array)

    def _flags(self, what: str, values: npt.ArrayLike, d: int) -> BoolArray:
        """[d] flags of devices, from one or from an array."""
        if np.shape(values) not in ((), (d,)):
            raise self._wrong(f"{what} has shape {np.shape(values)}, expected ({d},)")
        return _all(False, d) if values is False else frozen(np.array(np.broadcast_to(values, (d,)), np.bool_))

    def _usually(self, usual: float, what: str, value: npt.ArrayLike, shape: tuple[int, ...]) -> FloatArray:
        """As :meth:`_real`, for one number or an array; of the usual number, the array that problems share."""
        if isinstance(value, float) and value == usual:
            return _all(usual, *shape)
        return self._real(what, tables.broadcast(value, shape, what, self.name), shape)

    def _between(self, what: str, values: npt.ArrayLike, d: int, diagonal: float) -> FloatArray:
        """Check a device-to-device matrix and set its diagonal to the conventional value."""
        if values is _diagonal(d, 0.0, diagonal) or values is _diagonal(d, 1.0, diagonal):
            return values
        array = np.array(self._real(what, values, (d, d), finite=what == "latency"))
        np.fill_diagonal(array, diagonal)
        least = 1 / tables.LARGEST
        if what == "bandwidth" and (array < least).any():
            a, b = (int(i) for i in np.argwhere(array < least)[0])
            slow = f"bandwidth[{a}, {b}] is {array[a, b]:g}"
            raise self._wrong(f"{slow}; it must be {least:g} or more")
        return frozen(array)

    def _check_edges(self, n: int, source: IntArray, target: IntArray, tensor: IntArray) -> None:
        bad = (source < 0) | (source >= n) | (target < 0) | (target >= n) | (source == target)
        if bad.any():
            k = int(np.flatnonzero(bad)[0])
            why = "is a loop" if source[k] == target[k] else f"leaves the operators 0..{n - 1}"
            raise self._wrong(f"edge {source[k]} -> {target[k]} {why}")
        same = (np.diff(source) == 0) & (np.diff(target) == 0) & (np.diff(tensor) == 0)
        if same.any():
            k = int(np.flatnonzero(same)[0])
            raise self._wrong(f"edge {source[k]} -> {target[k]} is given twice for one tensor")

    def _shared(self, given: SharedWeights | None) -> SharedWeights:
        """Check the readers and bytes of shared weights, which :attr:`weight_bytes` counts for each reader."""
        n = len(self.weight_bytes)
        if given is None or not len(given.size):
            return unshared(n)
        pointer, reader, size = given[:3]
        count = np.diff(pointer)
        whole = len(pointer) == len(size) + 1 and pointer[0] == 0 and pointer[-1] == len(reader)
        if not whole or (count < 2).any() or not ((reader >= 0) & (reader < n)).all():
            raise self._wrong("a shared weight needs two readers or more among the operators")
        weight = np.repeat(np.arange(len(size)), count)
        if ((np.diff(reader) <= 0) & (np.diff(weight) == 0)).any():
            raise self._wrong("the readers of a shared weight must ascend")
        found = SharedWeights.from_rows(n, pointer, reader, self._real("shared_size", size, (len(size),)))
        more = found.each() > self.weight_bytes * (1 + 1e-9)
        if more.any():
            i = int(np.argmax(more))
            raise self._wrong(
                f"weight_bytes[{i}] is {self.weight_bytes[i]:g}, less than the shared weights "
                f"of operator {i} ({self.operator_names[i]!r}), {found.each()[i]:g}"
            )
        return found

    def _set_routes(self, routes: Routes, d: int) -> None:
        """Check that every pair of different devices has a route over existing links."""
        pointer, link = np.asarray(routes.pointer), np.asarray(routes.link)
        self.link_bandwidth = self._real("link_bandwidth", routes.bandwidth, (len(routes.bandwidth),), finite=False)
        hops = np.diff(pointer)
        apart = ~np.eye(d, dtype=np.bool_).ravel()
        if len(hops) != d * d or pointer[0] != 0 or pointer[-1] != len(link) or (np.sign(hops) != apart).any():
            raise self._wrong("routes must have links for every two different devices, only")
        if len(link) and not (link.min() >= 0 and link.max() < len(self.link_bandwidth)):
            raise self._wrong("a route crosses a link that does not exist")
        if (self.link_bandwidth < 1 / tables.LARGEST).any():
            slow = f"the bandwidth of a link is {self.link_bandwidth.min():g}"
            raise self._wrong(f"{slow}; it must be {1 / tables.LARGEST:g} or more")
        if len(link):
            owner = np.repeat(np.arange(d * d), hops)
            crossing = np.sort(owner * len(self.link_bandwidth) + link)
            twice = np.flatnonzero(np.diff(crossing) == 0)
            if len(twice):
                pair, number = divmod(int(crossing[twice[0]]), len(self.link_bandwidth))
                raise self._wrong(f"the route from device {pair // d} to {pair % d} crosses link {number} twice")
            least = np.minimum.reduceat(self.link_bandwidth[link], pointer[:-1][apart])
            given = self.bandwidth.ravel()[apart]
            if (least != given).any():
                k = int(np.flatnonzero(least != given)[0])
                a, b = divmod(int(np.flatnonzero(apart)[k]), d)
                raise self._wrong(
                    f"bandwidth[{a}, {b}] is {given[k]:g}, but the narrowest link of the route "
                    f"carries {least[k]:g} byte/s; they must be equal"
                )
        self.route_pointer = frozen(pointer.astype(np.int32))
        self.route_link = frozen(link.astype(np.int32))

    @classmethod
    def build(cls, graph: DataflowGraph, platform: Platform, costs: str | CostModel = "auto") -> Problem:
        """Price every operator of a graph on every device of a platform.

        Args:
            graph: the operators and tensors.
            platform: the devices and links.
            costs: a :class:`~hetgym.costs.CostModel`, or the name of one (:func:`hetgym.costs.cost_model`);
                ``"auto"`` takes the best known model for each device.

        Raises:
            ProblemError: an operator that no device can run; or names instead of a graph and a platform.
            UnknownName: no cost model has this name.
        """
        from hetgym.costs import cost_model, occupancy

        for given, reader in ((graph, "load_graph"), (platform, "load_platform")):
            if isinstance(given, str | Path):
                raise ProblemError(f"Problem.build takes what hetgym.{reader} returns, not the name {str(given)!r}")

        model = cost_model(costs)
        cost = [model.predict(graph.operators, device) for device in platform.devices]
        shares = [occupancy(graph.operators, *priced) for priced in zip(platform.devices, cost, strict=True)]
        return cls(
            cost=np.stack(cost, axis=1),
            edge_source=graph.edge_source,
            edge_target=graph.edge_target,
            edge_bytes=graph.edge_bytes,
            edge_tensor=graph.edge_tensor,
            latency=platform.latency,
            bandwidth=platform.bandwidth,
            weight_bytes=graph.resident_bytes,
            output_bytes=graph.output_bytes,
            memory_capacity=np.array([device.usable_memory for device in platform.devices]),
            memory_pool=platform.memory_pool,
            operator_names=[op.name for op in graph.operators],
            operator_kinds=[op.kind for op in graph.operators],
            device_names=[device.name for device in platform.devices],
            name=f"{graph.name}@{platform.name}",
            routes=Routes(*platform.routes),
            asynchronous=[device.kind != "cpu" for device in platform.devices],
            occupancy=np.stack(shares, axis=1),
            power_busy=(busy := _known([device.power_busy for device in platform.devices])),
            power_idle=np.array([device.power_idle or 0.0 for device in platform.devices]) * busy.any(),
            price=_known([device.price for device in platform.devices]),
            partition_overhead=np.array([device.partition_overhead for device in platform.devices]),
            synchronous=np.array([device.synchronous for device in platform.devices]),
            notes=graph.notes,
            shared_weights=graph.shared_weights,
        )

    @classmethod
    def from_arrays(
        cls,
        cost: npt.ArrayLike,
        edges: Iterable[tuple[int, int, float]] | FloatArray,
        latency: npt.ArrayLike = 0.0,
        bandwidth: npt.ArrayLike = 1.0,
        *,
        tensors: Sequence[int] | None = None,
        weight_bytes: npt.ArrayLike = 0.0,
        output_bytes: npt.ArrayLike | None = None,
        memory_capacity: npt.ArrayLike = np.inf,
        occupancy: npt.ArrayLike = 1.0,
        power_busy: npt.ArrayLike = 0.0,
        power_idle: npt.ArrayLike = 0.0,
        price: npt.ArrayLike = 0.0,
        partition_overhead: npt.ArrayLike = 0.0,
        synchronous: npt.ArrayLike = False,
        shared_weights: Iterable[tuple[Sequence[int], float]] = (),
        operator_names: Sequence[str] | None = None,
        operator_kinds: Sequence[str] | None = None,
        device_names: Sequence[str] | None = None,
        name: str = "problem",
        notes: Sequence[str] = (),
    ) -> Problem:
        """Build a problem from a cost table and a list of edges.

        Args:
            cost: [n, d] run times [s]; inf = not placeable.
            edges: ``(source, target, bytes)`` triples, or an array [e, 3] of them.
            latency, bandwidth: seconds and byte/s, one number or [d, d] each.
            tensors: tensor id of each edge; by default every edge carries a tensor of its own.
            weight_bytes: bytes of weights that an operator reads, one number or [n].
            output_bytes: bytes, one number or [n]; by default the sum over an operator's tensors, each at the size
                of its largest edge.
            memory_capacity: bytes, one number or [d]; inf = unlimited.
            occupancy: share of a device that an operator needs to run at full speed, one number or [n, d].
            power_busy, power_idle: power of a device while it runs an operator, or none, one number or [d], in W.
            price: rent of a device, one number or [d], in currency/h.
            partition_overhead, synchronous: time to enter a partition [s], and whether the host waits, one or [d].
            shared_weights: weights that several operators read, as pairs of their operators and bytes; part of the
                ``weight_bytes`` of each of these operators.
            operator_names, operator_kinds, device_names: ``["op0", …]``, ``"Task"`` and ``["dev0", …]`` by default.
            name: for messages and reports.
            notes: what an importer left out.

        Raises:
            ProblemError: a negative or NaN number, an operator that no device can run, a repeated
                edge, an edge outside the range, or a cycle.

        >>> problem = Problem.from_arrays([[2.0, 3.0], [4.0, 1.0]], [(0, 1, 5.0)], bandwidth=10.0)
        >>> problem
        Problem('problem', 2 operators, 1 edges, 2 devices)
        """
        if isinstance(cost, np.ndarray) and cost.ndim == 2:
            tables.check_size(len(cost), cost.shape[1], name)
        table = as_numbers(cost, f"problem {name!r}: cost is not a table of numbers", ProblemError)
        if table.ndim != 2:
            raise ProblemError(f"problem {name!r}: cost has shape {table.shape}, expected [operators, devices]")
        n, d = table.shape
        tables.check_devices(d, name)
        source, target, payload = tables.columns(edges, name)
        return cls(
            cost=table,
            edge_source=source,
            edge_target=target,
            edge_bytes=payload,
            edge_tensor=tables.tensor_ids(source, target, tensors, name),
            latency=tables.broadcast(latency, (d, d), "latency", name),
            bandwidth=tables.broadcast(bandwidth, (d, d), "bandwidth", name),
            weight_bytes=tables.broadcast(weight_bytes, (n,), "weight_bytes", name),
            output_bytes=tables.broadcast(
                tables.largest_payloads(n, source, payload, tensors) if output_bytes is None else output_bytes,
                (n,),
                "output_bytes",
                name,
            ),
            memory_capacity=tables.broadcast(memory_capacity, (d,), "memory_capacity", name),
            operator_names=operator_names or _numbered("op", n),
            operator_kinds=operator_kinds or ["Task"] * n,
            device_names=device_names or _numbered("dev", d),
            name=name,
            occupancy=occupancy,
            power_busy=power_busy,
            power_idle=power_idle,
            price=price,
            partition_overhead=partition_overhead,
            synchronous=synchronous,
            notes=notes,
            shared_weights=read_shared(n, shared_weights, name),
        )

    @classmethod
    def from_edges(
        cls,
        cost: FloatArray,
        source: IntArray | Int64Array,
        target: IntArray | Int64Array,
        payload: FloatArray,
        name: str,
    ) -> Problem:
        """As :meth:`from_arrays` with defaults, for arrays of edges that are sorted and carry a tensor each.

        Args:
            cost: [n, d] run times [s]; inf = not placeable.
            source, target: [e] operators at the start and at the end of each edge.
            payload: [e] bytes.
            name: for messages and reports.

        Raises:
            ProblemError: as for the constructor.
        """
        n, d = cost.shape
        return cls(
            cost=cost,
            edge_source=source.astype(np.int32),
            edge_target=target.astype(np.int32),
            edge_bytes=payload,
            edge_tensor=np.arange(len(source), dtype=np.int32),
            latency=_diagonal(d, 0.0, 0.0),
            bandwidth=_diagonal(d, 1.0, np.inf),
            weight_bytes=np.zeros(n),
            output_bytes=tables.largest_payloads(n, source, payload, None),
            memory_capacity=np.full(d, np.inf),
            operator_names=_numbered("op", n),
            operator_kinds=("Task",) * n,
            device_names=_numbered("dev", d),
            name=name,
        )

    def __deepcopy__(self, memo: object) -> Problem:
        """Return the problem itself: it is immutable."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the constructor's arguments, so that the restored arrays are read-only again."""
        return Problem, tuple(self._arguments.values())

    @property
    def _arguments(self) -> dict[str, Any]:
        """The constructor's arguments, in their order."""
        arguments = {name: getattr(self, name) for name in list(_ARRAYS)[:10]}
        arguments |= {
            name: getattr(self, name) for name in ("operator_names", "operator_kinds", "device_names", "name")
        }
        arguments["routes"] = Routes(self.route_pointer, self.route_link, self.link_bandwidth)
        others = ("asynchronous", *_USUAL, "notes", "shared_weights", "memory_pool", "synchronous")
        return arguments | {name: getattr(self, name) for name in others}

    def replace(self, **changes: Any) -> Problem:
        """The same problem with other values for some of the constructor's arguments.

        Args:
            changes: name of an argument -> its value. With another ``bandwidth`` and no ``routes``, every pair of
                devices has links of its own; with other ``weight_bytes`` and no ``shared_weights``, none is shared.

        Raises:
            ProblemError: as for the constructor.

        >>> Problem.from_arrays([[1.0]], []).replace(name="other", cost=[[2.0]]).name
        'other'
        """
        arguments = self._arguments
        if "bandwidth" in changes:
            arguments["routes"] = None
        if "weight_bytes" in changes:
            arguments["shared_weights"] = None
        return Problem(**(arguments | changes))

    def __repr__(self) -> str:
        return (
            f"Problem({self.name!r}, {self.num_operators} operators, {self.num_edges} edges, "
            f"{self.num_devices} devices)"
        )

    @property
    def num_operators(self) -> int:
        """Number of operators, n."""
        return int(self.cost.shape[0])

    @property
    def num_devices(self) -> int:
        """Number of devices, d."""
        return int(self.cost.shape[1])

    @property
    def num_edges(self) -> int:
        """Number of edges, e."""
        return len(self.edge_source)

    @cached_property
    def arrays(self) -> ProblemArrays:
        """The arrays that kernels take."""
        position = np.empty(self.num_operators, np.int32)
        position[self.topological_order] = np.arange(self.num_operators, dtype=np.int32)
        made: dict[str, Any] = {"position": frozen(position)}
        made["successor_pointer"], made["successor"], _ = self.successors
        made["predecessor_pointer"], made["predecessor"], made["predecessor_edge"] = self.predecessors
        return ProblemArrays(*(made[name] if name in made else getattr(self, name) for name in ProblemArrays._fields))

    @property
    def has_partitions(self) -> bool:
        """True if entering a partition takes time on some device, or if hosts wait for devices."""
        return bool(self.partition_overhead.any() or self.synchronous.any())

    @cached_property
    def takes_turns(self) -> BoolArray:
        """[d] True for synchronous devices and their host, which run one operator at a time between them."""
        turns = self.synchronous.copy()
        if turns.any():
            hosts = np.flatnonzero(~self.synchronous & ~self.asynchronous)
            turns[hosts[:1]] = True
        return frozen(turns)

    @property
    def model_bytes(self) -> float:
        """Bytes of all weights, each once."""
        return float(self.weight_bytes.sum() - self.shared_weights.repeated)

    @cached_property
    def pools(self) -> list[tuple[IntArray, float]]:
        """Memories that several devices share: the devices and the capacity of each [byte]."""
        if self.memory_pool is _own_memory(self.num_devices):
            return []
        found = (np.flatnonzero(self.memory_pool == k).astype(np.int32) for k in np.unique(self.memory_pool))
        return [(devices, float(self.memory_capacity[devices].max())) for devices in found if len(devices) > 1]

    @cached_property
    def total_memory(self) -> float:
        """Capacity of all memories, those that devices share once [byte]."""
        shared = summed(
            float(self.memory_capacity[devices].sum()) - size for devices, size in self.pools if size < np.inf
        )
        return float(self.memory_capacity.sum()) - shared

    @cached_property
    def private_links(self) -> bool:
        """True if no link serves two pairs of devices: transfers between different pairs then never share a link."""
        return len(np.unique(self.route_link)) == len(self.route_link)

    @cached_property
    def component(self) -> IntArray:
        """[n] connected component of the graph to which each operator belongs, numbered by their first operators."""
        label = np.arange(self.num_operators)
        source, target = self.edge_source, self.edge_target
        while (label[source] != label[target]).any():
            least = np.minimum(label[source], label[target])
            np.minimum.at(label, label[source], least)
            np.minimum.at(label, label[target], least)
            label = label[label]
        return frozen(np.unique(label, return_inverse=True)[1].astype(np.int32))

    @cached_property
    def mean_cost(self) -> FloatArray:
        """[n] mean run time over the devices that can run the operator [s]."""
        if tables.all_within(self.cost.reshape(-1), True):
            return frozen(self.cost.sum(axis=1) / self.num_devices)
        placeable = np.isfinite(self.cost)
        return frozen(np.where(placeable, self.cost, 0.0).sum(axis=1) / placeable.sum(axis=1))

    @cached_property
    def mean_communication(self) -> FloatArray:
        """[e] mean transfer time over all ordered pairs of different devices [s]; 0 on one device."""
        d = self.num_devices
        if d == 1:
            return frozen(np.zeros(self.num_edges))
        if self.latency is _diagonal(d, 0.0, 0.0) and self.bandwidth is _diagonal(d, 1.0, np.inf):
            return self.edge_bytes
        latency, per_byte = self.mean_transfer
        return frozen(latency + self.edge_bytes * per_byte)

    @cached_property
    def mean_transfer(self) -> tuple[float, float]:
        """Mean latency, and mean time that a byte takes, over all ordered pairs of different devices [s]."""
        pairs = _direct_routes(self.num_devices)[0]
        if not pairs.any():
            return 0.0, 0.0
        return float(np.mean(self.latency[pairs])), float(np.mean(1.0 / self.bandwidth[pairs]))

    @property
    def _stored(self) -> list[str]:
        """Names of the arrays that a file holds."""
        plain = dict.fromkeys((*_TARIFF, "partition_overhead"), _all(0.0, self.num_devices))
        shared = {"occupancy": _all(1.0, *self.cost.shape)} | plain
        usual = {
            name
            for name, value in _USUAL.items()
            if (found := getattr(self, name)) is shared[name] or (found == value).all()
        }
        usual |= set() if len(self.shared_weights.size) else set(_SHARED)
        usual |= set() if self.pools else {"memory_pool"}
        usual |= set() if self.synchronous.any() else {"synchronous"}
        return [name for name in _ARRAYS if name not in usual]

    def _array(self, name: str) -> Any:
        """An array by its name in files."""
        return getattr(self.shared_weights, name.removeprefix("shared_")) if name in _SHARED else getattr(self, name)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all arrays that a run depends on: all but names, powers and prices."""
        state = hashlib.sha256()
        for array in self._stored:
            if array not in _TARIFF:
                values = self._array(array)
                state.update(f"{array}{values.shape}".encode())
                state.update(values if sys.byteorder == "little" else values.byteswap())
        return state.hexdigest()

    @property
    def id(self) -> str:
        """Name and start of the digest, for example ``resnet50@cpu-gpu#1f3a90c2``."""
        return f"{self.name}#{self.digest[:8]}"

    def save(self, path: str | Path | IO[bytes]) -> None:
        """Write the problem to an ``.npz`` file from which :meth:`load` restores it bit for bit.

        Args:
            path: path of the file, or a binary file that is open for writing.

        Raises:
            ProblemError: the file cannot be written; no partial file is left behind.
        """
        header = {
            "format": "hetgym-problem",
            "version": FORMAT_VERSION,
            "name": self.name,
            "operator_names": self.operator_names,
            "operator_kinds": self.operator_kinds,
            "device_names": self.device_names,
        } | ({"notes": self.notes} if self.notes else {})
        target = Path(path) if isinstance(path, str | Path) else path
        save_npz(target, header, {name: self._array(name) for name in self._stored}, _FILE)

    @classmethod
    def load(cls, path: str | Path | IO[bytes]) -> Problem:
        """Read a problem that :meth:`save` wrote.

        Args:
            path: path of the file, or a seekable binary file that is open for reading.

        Raises:
            ProblemError: the file is missing, damaged, of another version, or does not hold a valid problem.
        """
        named = isinstance(path, str | Path) or not hasattr(path, "seek")
        file = as_path(path, "a problem", ProblemError) if named else cast(IO[bytes], path)
        header, arrays = load_npz(file, _FILE)
        routes = Routes(*(arrays.pop(key) for key in ("route_pointer", "route_link", "link_bandwidth")))
        names = {key: header[key] for key in ("operator_names", "operator_kinds", "device_names", "name")}
        if _SHARED[0] in arrays:
            pointer, reader, size = (arrays.pop(key) for key in _SHARED)
            names["shared_weights"] = SharedWeights(pointer, reader, size, pointer, reader)
        return cls(**arrays, routes=routes, **names, notes=header.get("notes", ()))  # type: ignore[arg-type]


@lru_cache(maxsize=128, typed=True)
def _all(value: bool | float, *shape: int) -> npt.NDArray[Any]:
    """One value throughout, such as false where hosts do not run ahead: one array for all problems of a size."""
    return frozen(np.full(shape, value))


@lru_cache(maxsize=8)
def _own_memory(d: int) -> IntArray:
    """[d] numbers of memories, for all problems whose devices share none."""
    return frozen(np.arange(d, dtype=np.int32))


@lru_cache(maxsize=16)
def _diagonal(d: int, apart: float, same: float) -> FloatArray:
    """[d, d] one number between devices and another one within them, for all problems with equal links."""
    return frozen(np.where(np.eye(d, dtype=np.bool_), same, apart))


@lru_cache(maxsize=128)
def _numbered(word: str, count: int) -> tuple[str, ...]:
    """Names of operators or devices that have none."""
    return tuple(f"{word}{i}" for i in range(count))


def _declared(header: Mapping[str, Any], names: Collection[str], where: str) -> dict[str, Array]:
    """The arrays that a file must hold, given its header, which lists the operators and devices."""
    check_format(header, where, ProblemError, FORMAT_VERSION, "hetgym-problem")
    n, kinds, d = (len(_strings(header, key, where)) for key in ("operator_names", "operator_kinds", "device_names"))
    if kinds != n:
        raise ProblemError(f"{where}: {kinds} operator kinds for {n} operators")
    if not isinstance(header.get("name"), str):
        raise ProblemError(f"{where}: header field 'name' is not a string")
    if "notes" in header:
        _strings(header, "notes", where)
    sizes = {"n": n, "d": d, "pairs": d * d + 1}
    optional = {*_USUAL, "memory_pool", "synchronous", *(() if {*_SHARED} & {*names} else _SHARED)}
    return {
        name: Array(dtype, tuple(sizes.get(axis, axis) for axis in axes))
        for name, (dtype, *axes) in _ARRAYS.items()
        if name not in optional or name in names
    }


def _known(figures: Sequence[float | None]) -> FloatArray:
    """[d] figures of devices; 0 throughout if one of them is unknown."""
    return np.array([0.0] * len(figures) if None in figures else figures, np.float64)


def _strings(header: Mapping[str, Any], key: str, where: str) -> list[str]:
    value = header.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ProblemError(f"{where}: header field {key!r} is not a list of strings")
    return value


_FILE = Kind(ProblemError, _declared, header_limit=64 << 20, limit=512 << 20)
"""The kind of a problem file; with these limits, reading any file takes less than 2 GiB of memory."""
