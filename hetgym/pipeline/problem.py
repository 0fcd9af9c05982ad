"""PipelineProblem: operators or blocks to be cut into stages that process different requests at the same time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._sums import summed
from hetgym._types import BoolArray, FloatArray, IntArray, as_numbers, frozen
from hetgym.errors import InvalidSchedule, ProblemError
from hetgym.graph import topology
from hetgym.pipeline.pools import ROUNDING, Pool, exceeded, lacking, pools_of
from hetgym.weights import SharedWeights, unshared


@dataclass(frozen=True)
class DeviceKind:
    """A number of equal devices.

    Raises:
        ProblemError: a negative count or memory.
    """

    name: str
    count: int = 1  # number of devices
    memory: float = np.inf  # capacity of each device [byte]; inf = unlimited
    # True if the devices pay for tensors that cross a cut. All transfers go through main memory, so a CPU that owns it
    # pays nothing.
    transfers: bool = True
    # Memory that these devices share with each other and with other kinds of the same pool: together they hold no more
    # than the largest memory among them. Empty = each has its own.
    pool: str = ""
    entry: float = 0.0  # time that a device takes for each request before it runs its stage, such as a delegate [s]
    turns: bool = False  # True if these devices take turns with all others of which that is true: one runs at a time

    def __post_init__(self) -> None:
        if not (isinstance(self.count, int) and 0 <= self.count <= 1024):
            raise ProblemError(f"devices {self.name!r}: count is {self.count!r}; it must be a whole number to 1024")
        if not 0 <= self.entry < np.inf:
            raise ProblemError(f"devices {self.name!r}: entry is {self.entry!r}; it must be a time, not negative")
        if not self.memory >= 0:
            raise ProblemError(f"devices {self.name!r}: memory is {self.memory!r}; it must not be negative")


class PipelineProblem:
    """Times of operators on each kind of device, and of the tensors that cross a cut between stages.

    Every device holds one stage. All devices work at the same time on different requests (or micro-batches), so in
    steady state the slowest device determines the throughput: the *max-load* is the time between two results. The
    load of a device is the sum of its operators' times. If the device pays for transfers, its load includes the time
    to fetch each tensor that it reads from outside, once, and to send each tensor that it makes and others read, once,
    all through main memory.

    A placement is legal if every device can run its operators and has the memory for them, operators of one colour
    share a device, and the stages have an order in which forward operators read only results of the same or an
    earlier stage. Backward operators run through the stages in the opposite direction; only their colours restrict
    their placement.

    All arrays are read-only.

    Attributes:
        name: for messages and reports.
        cost: [n, k] seconds on each kind of device; inf = cannot run there.
        edge_source, edge_target: [e] operator ids.
        transfer: [n] seconds to move an operator's output to or from main memory.
        size: [n] bytes that an operator takes on its device.
        shared: the weights among them that several operators read: a device holds each once.
        colour: [n] operators of one colour share a device; -1 = none.
        backward: [n] True for operators of the backward pass.
        kinds: the kinds of devices; devices are numbered kind after kind.
        operator_names: for messages.

    Raises:
        ProblemError: a table of the wrong shape, a negative number or NaN, an edge out of range, a cycle, or no device.
    """

    def __init__(
        self,
        cost: npt.ArrayLike,
        edges: Iterable[tuple[int, int]],
        kinds: Sequence[DeviceKind],
        transfer: npt.ArrayLike = 0.0,
        size: npt.ArrayLike = 0.0,
        colour: npt.ArrayLike | None = None,
        backward: npt.ArrayLike | None = None,
        operator_names: Sequence[str] | None = None,
        name: str = "pipeline",
        shared: SharedWeights | None = None,
    ) -> None:
        self.name = name
        self.kinds = tuple(kinds)
        if summed(kind.count for kind in self.kinds) == 0:
            raise ProblemError(f"pipeline {name!r}: it needs at least one device")
        table = self._numbers("cost", cost, finite=False)
        if table.ndim != 2 or len(table) == 0 or table.shape[1] != len(self.kinds):
            raise ProblemError(
                f"pipeline {name!r}: cost has shape {table.shape}, expected [operators, {len(self.kinds)}]"
            )
        n = len(table)
        self.cost: FloatArray = frozen(table)
        self.transfer = self._column("transfer", transfer, n)
        self.size = self._column("size", size, n)
        self.shared = unshared(n) if shared is None else shared
        self.colour = frozen(np.full(n, -1, np.int32)) if colour is None else self._whole("colour", colour, n)
        self.backward: npt.NDArray[np.bool_] = frozen(
            np.zeros(n, np.bool_) if backward is None else self._whole("backward", backward, n) != 0
        )
        self.operator_names = tuple(operator_names or (f"op{i}" for i in range(n)))
        if len(self.operator_names) != n:
            raise ProblemError(f"pipeline {name!r}: {len(self.operator_names)} operator names for {n} operators")
        self._set_edges(edges, n)

    @classmethod
    def chain(
        cls,
        cost: npt.ArrayLike,
        kinds: Sequence[DeviceKind],
        transfer: npt.ArrayLike = 0.0,
        size: npt.ArrayLike = 0.0,
        name: str = "chain",
    ) -> PipelineProblem:
        """Make a chain of blocks, each read by the next.

        >>> PipelineProblem.chain([[1.0], [2.0], [3.0]], [DeviceKind("gpu", 2)])
        PipelineProblem('chain', 3 operators, 2 edges, 2 devices)
        """
        n = len(np.atleast_1d(np.asarray(cost, np.float64)))
        return cls(cost, [(i, i + 1) for i in range(n - 1)], kinds, transfer, size, name=name)

    def __deepcopy__(self, memo: object) -> PipelineProblem:
        """Return the problem itself: it is immutable."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the constructor's arguments, so that the restored arrays are read-only again."""
        edges = list(zip(self.edge_source.tolist(), self.edge_target.tolist(), strict=True))
        arrays = self.transfer, self.size, self.colour, self.backward
        return PipelineProblem, (self.cost, edges, self.kinds, *arrays, self.operator_names, self.name, self.shared)

    def __repr__(self) -> str:
        return (
            f"PipelineProblem({self.name!r}, {self.num_operators} operators, {len(self.edge_source)} edges, "
            f"{self.num_devices} devices)"
        )

    @property
    def num_operators(self) -> int:
        """Number of operators, n."""
        return len(self.cost)

    @property
    def num_devices(self) -> int:
        """Number of devices of all kinds."""
        return len(self.device_kind)

    @cached_property
    def device_kind(self) -> IntArray:
        """[d] kind of each device."""
        return frozen(np.repeat(np.arange(len(self.kinds)), [kind.count for kind in self.kinds]).astype(np.int32))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that determines the value of a cut: equal digests mean equal problems but for names."""
        state = hashlib.sha256()
        state.update(repr([(k.count, float(k.memory), k.transfers) for k in self.kinds]).encode())
        state.update(repr([pool.devices for pool in self.pools]).encode() if self.pools else b"")
        delayed = [(float(kind.entry), kind.turns) for kind in self.kinds]
        state.update(repr(delayed).encode() if self.has_delays else b"")
        edges = (self.edge_source, self.edge_target)
        shared = self.shared[:3] if len(self.shared.size) else ()
        for array in (self.cost, *edges, self.transfer, self.size, self.colour, self.backward, *shared):
            state.update(f"{array.shape}".encode())
            state.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
        return state.hexdigest()

    @property
    def has_delays(self) -> bool:
        """True if some devices take time to enter, or take turns."""
        return any(kind.entry or kind.turns for kind in self.kinds)

    @cached_property
    def takes_turns(self) -> BoolArray:
        """[d] True for devices that take turns."""
        return frozen(np.array([kind.turns for kind in self.kinds])[self.device_kind])

    @cached_property
    def memory(self) -> FloatArray:
        """[d] bytes that each device can hold."""
        return frozen(np.array([kind.memory for kind in self.kinds], np.float64)[self.device_kind])

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        """The memories that several devices share."""
        named = [self.kinds[kind].pool or device for device, kind in enumerate(self.device_kind.tolist())]
        return pools_of(named, self.memory)

    def replaced(
        self,
        kinds: Sequence[DeviceKind],
        cost: npt.ArrayLike | None = None,
        transfer: npt.ArrayLike | None = None,
    ) -> PipelineProblem:
        """The same operators on other kinds of devices, with other costs or transfers."""
        return PipelineProblem(
            self.cost if cost is None else cost,
            list(zip(self.edge_source.tolist(), self.edge_target.tolist(), strict=True)),
            kinds,
            self.transfer if transfer is None else transfer,
            self.size,
            self.colour,
            self.backward,
            self.operator_names,
            self.name,
            self.shared,
        )

    def lacks(self) -> str:
        """Why no cut fits into memory, as the end of a sentence."""
        total = float(self.size.sum() - self.shared.repeated)
        return lacking(self.pools, self.memory, self.size, total, self.num_devices)

    @property
    def id(self) -> str:
        """Name and start of the digest."""
        return f"{self.name}#{self.digest[:8]}"

    @cached_property
    def order(self) -> IntArray:
        """[n] all operators, including backward ones, in topological order, smallest ids first."""
        return self._order

    def loads(self, assignment: npt.ArrayLike) -> FloatArray:
        """[d] load of each device: the time for which it is busy with one request [s].

        Args:
            assignment: [n] device of each operator.

        Raises:
            InvalidSchedule: the assignment is not legal.
        """
        devices = self.check(assignment)
        kind = self.device_kind
        load = np.bincount(devices, self.cost[np.arange(len(devices)), kind[devices]], minlength=len(kind))
        load[np.unique(devices)] += np.array([k.entry for k in self.kinds])[kind][np.unique(devices)]
        crossing = devices[self.edge_source] != devices[self.edge_target]
        source = self.edge_source[crossing].astype(np.int64)
        pays = np.array([k.transfers for k in self.kinds])[kind]
        for device in range(len(kind)):
            if pays[device]:
                sent = np.unique(source[devices[source] == device])
                fetched = np.unique(source[devices[self.edge_target[crossing]] == device])
                load[device] += self.transfer[sent].sum() + self.transfer[fetched].sum()
        return np.asarray(load, np.float64)

    def held(self, devices: IntArray) -> FloatArray:
        """[d] bytes that each device holds, of a shared weight one copy; ``devices`` is [n]."""
        d = self.num_devices
        return np.asarray(np.bincount(devices, self.size, minlength=d) - self.shared.spared(devices, d), np.float64)

    def max_load(self, assignment: npt.ArrayLike) -> float:
        """Time between two results in steady state: the largest of :meth:`loads`, of devices that take turns their sum.

        In seconds.
        """
        loads = self.loads(assignment)
        return max(float(loads.max()), float(loads[self.takes_turns].sum()))

    def check(self, assignment: npt.ArrayLike) -> IntArray:
        """Check that an assignment is legal and return it as an array.

        Raises:
            InvalidSchedule: a rule is broken; the message names it.
        """
        n, d = self.num_operators, self.num_devices
        given = as_numbers(assignment, "pipeline: the assignment is not a list of devices", InvalidSchedule)
        if given.shape != (n,) or not ((given >= 0) & (given < d) & (given == np.floor(given))).all():
            raise InvalidSchedule(f"coverage: a pipeline needs a device 0..{d - 1} for each of {n} operators")
        devices = given.astype(np.int32)
        kind = self.device_kind[devices]
        for i in np.flatnonzero(~np.isfinite(self.cost[np.arange(n), kind])):
            raise InvalidSchedule(
                f"placement: operator {i} ({self.operator_names[i]!r}) cannot run on {self.kinds[kind[i]].name!r}"
            )
        held = self.held(devices)
        for a in np.flatnonzero(held > self.memory * ROUNDING):
            raise InvalidSchedule(f"memory: device {a} holds {held[a]:g} bytes, more than {self.memory[a]:g}")
        if pool := exceeded(self.pools, held):
            names, together = " and ".join(map(str, pool.devices)), held[list(pool.devices)].sum()
            raise InvalidSchedule(
                f"memory: devices {names} share {pool.capacity:g} bytes, and together they hold {together:g}"
            )
        first: dict[int, int] = {}
        for operator, colour in enumerate(self.colour.tolist()):
            if colour >= 0 and devices[first.setdefault(colour, operator)] != devices[operator]:
                raise InvalidSchedule(
                    f"colocation: operators {first[colour]} and {operator} have colour {colour} and are on devices "
                    f"{devices[first[colour]]} and {devices[operator]}"
                )
        forward = ~self.backward[self.edge_source] & ~self.backward[self.edge_target]
        pairs = np.stack([devices[self.edge_source[forward]], devices[self.edge_target[forward]]])
        pairs = np.unique(pairs[:, pairs[0] != pairs[1]], axis=1)
        after = topology.adjacency(d, pairs[0], pairs[1])
        placed = topology.kahn_order(after, np.bincount(pairs[1], minlength=d).astype(np.int32))
        if len(placed) < d:
            cycle = topology.find_cycle(after, placed)
            raise InvalidSchedule(
                f"contiguity: devices {' -> '.join(map(str, [*cycle, cycle[0]]))} read from each other in a cycle"
            )
        return devices

    def _numbers(self, what: str, values: npt.ArrayLike, finite: bool = True) -> FloatArray:
        array = as_numbers(values, f"pipeline {self.name!r}: {what} is not a table of numbers", ProblemError)
        if not (array >= 0).all() or (finite and not np.isfinite(array).all()):
            raise ProblemError(f"pipeline {self.name!r}: {what} has a value that is negative or not a number")
        return array

    def _column(self, what: str, values: npt.ArrayLike, n: int) -> FloatArray:
        array = self._numbers(what, values)
        if array.shape not in ((), (n,)):
            raise ProblemError(f"pipeline {self.name!r}: {what} has shape {array.shape}, expected one number or [{n}]")
        return frozen(array if array.ndim else np.full(n, array))

    def _whole(self, what: str, values: npt.ArrayLike, n: int) -> IntArray:
        array = as_numbers(values, f"pipeline {self.name!r}: {what} is not a list of whole numbers", ProblemError)
        if array.shape != (n,) or not (np.abs(array) < 2**31).all() or (array != np.floor(array)).any():
            raise ProblemError(f"pipeline {self.name!r}: {what} must be {n} whole numbers below 2^31")
        return frozen(array.astype(np.int32))

    def _set_edges(self, edges: Iterable[tuple[int, int]], n: int) -> None:
        try:
            pairs = np.array([tuple(edge) for edge in edges], np.float64).reshape(-1, 2)
        except (TypeError, ValueError, OverflowError) as cause:
            raise ProblemError(f"pipeline {self.name!r}: edges are not (source, target) pairs ({cause})") from cause
        if not ((pairs >= 0) & (pairs < n) & (pairs == np.floor(pairs))).all() or (pairs[:, 0] == pairs[:, 1]).any():
            raise ProblemError(f"pipeline {self.name!r}: an edge is a loop or leaves the operators 0..{n - 1}")
        source, target = np.divmod(np.unique(pairs[:, 0].astype(np.int64) * n + pairs[:, 1].astype(np.int64)), n)
        self.edge_source: IntArray = frozen(source.astype(np.int32))
        self.edge_target: IntArray = frozen(target.astype(np.int32))
        if (source < target).all():  # then the numbers are an order, and none is smaller
            self._order = frozen(np.arange(n, dtype=np.int32))
            return
        after = topology.adjacency(n, self.edge_source, self.edge_target)
        self._order = topology.kahn_order(after, np.bincount(self.edge_target, minlength=n).astype(np.int32))
        if len(self._order) < n:
            cycle = [self.operator_names[i] for i in topology.find_cycle(after, self._order)]
            raise ProblemError(f"pipeline {self.name!r} has a cycle: {' -> '.join([*cycle, cycle[0]])}")
