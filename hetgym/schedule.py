"""Schedule: the device of each operator and the order on each device; and the check that a schedule is legal."""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import lean
from hetgym._text import brief
from hetgym._types import FloatArray, IntArray, as_numbers, frozen
from hetgym.errors import InvalidSchedule, ProblemError, shown
from hetgym.errors import size as amount
from hetgym.problem import Problem

TOLERANCE = 1e-9  # Rounding error that planned times may have, as a share of the makespan


@dataclass(frozen=True, eq=False)
class Schedule:
    """A placement of all operators, with an order for each device.

    The order comes from exactly one of ``order``, ``priority`` (each device runs the operator of highest priority
    among those whose data have arrived) and ``start`` (planned times). As an exception, planned times may be given in
    addition to ``order``.

    Args:
        assignment: [n] device of each operator.
        order: for each device, its operators in the order in which they run.
        priority: [n] the larger runs first.
        start: [n] planned start [s].
        finish: [n] planned finish [s]; only together with ``start``.
        model: name of the runtime for which the times were planned.
        scheduler: name of the scheduler, for tables and pictures.
        lower_bound: lower bound on the makespan of any schedule under ``model``, as proved by the scheduler [s].
        streams: largest number of operators that a device runs at the same time in the planned times.
        speed: [n] clock of the device while it runs each operator, as a share of the full clock, in (0, 1]; an operator
            takes its run time divided by its speed. None = the full clock throughout.

    >>> Schedule(assignment=[0, 1, 0], order=[[0, 2], [1]]).order
    (array([0, 2], dtype=int32), array([1], dtype=int32))
    """

    assignment: IntArray
    order: tuple[IntArray, ...] | None = None
    priority: FloatArray | None = None
    start: FloatArray | None = None
    finish: FloatArray | None = None
    model: str = "classic"
    scheduler: str = ""
    lower_bound: float | None = None
    streams: int = 1
    speed: FloatArray | None = None

    def __init__(
        self,
        assignment: npt.ArrayLike,
        order: Sequence[npt.ArrayLike] | None = None,
        priority: npt.ArrayLike | None = None,
        start: npt.ArrayLike | None = None,
        finish: npt.ArrayLike | None = None,
        model: str = "classic",
        scheduler: str = "",
        lower_bound: float | None = None,
        streams: int = 1,
        speed: npt.ArrayLike | None = None,
    ) -> None:
        if (order is not None) + (priority is not None) > 1:
            raise InvalidSchedule("a schedule has either an order or priorities, not both")
        if order is None and priority is None and start is None:
            raise InvalidSchedule("a schedule needs an order, priorities or start times besides the assignment")
        if finish is not None and start is None:
            raise InvalidSchedule("a schedule with finish times without start times cannot be checked")
        for name, word in (("model", model), ("scheduler", scheduler)):
            if not isinstance(word, str):
                raise InvalidSchedule(f"{name} must be a name, not {shown(word)}")
        put = object.__setattr__
        put(self, "assignment", _whole_numbers(assignment, "assignment"))
        put(self, "order", None if order is None else _rows(order))
        for name, values in (("priority", priority), ("start", start), ("finish", finish)):
            put(self, name, None if values is None else _numbers(values, name, len(self.assignment)))
        put(self, "model", model)
        put(self, "scheduler", scheduler)
        put(self, "lower_bound", None if lower_bound is None else _bound(lower_bound))
        if isinstance(streams, bool) or not isinstance(streams, Integral) or streams < 1:
            raise InvalidSchedule(f"streams must be a whole number of at least 1, not {shown(streams)}")
        put(self, "streams", int(streams))
        put(self, "speed", None if speed is None else _numbers(speed, "speed", len(self.assignment)))
        if self.speed is not None and not ((self.speed > 0) & (self.speed <= 1)).all():
            raise InvalidSchedule("speed must hold shares of the full clock, above 0 and at most 1")

    @classmethod
    def timed(
        cls,
        assignment: IntArray,
        rows: Sequence[IntArray],
        start: FloatArray | None,
        finish: FloatArray | None,
        scheduler: str,
        model: str = "classic",
        lower_bound: float | None = None,
        streams: int = 1,
    ) -> Schedule:
        """A schedule with an order and times, from arrays that a kernel filled and that need no check.

        Args:
            assignment: [n] int32.
            rows: for each device, its operators in order, int32 and read-only; not copied.
            start, finish: [n] planned times [s]; None for a schedule without times.
            scheduler, model, lower_bound, streams: see :class:`Schedule`.
        """
        if finish is not None and not math.isfinite(finish.sum()):  # costs whose sum is beyond float64
            return cls(assignment, rows, None, start, finish, model, scheduler, lower_bound, streams)
        made = cls.__new__(cls)
        made.__dict__.update(
            assignment=frozen(assignment.copy()),
            order=tuple(rows),
            start=None if start is None else frozen(start.copy()),
            finish=None if finish is None else frozen(finish.copy()),
            model=model,
            scheduler=scheduler,
            lower_bound=lower_bound,
            streams=streams,
        )
        return made

    def __repr__(self) -> str:
        took = "" if self.finish is None or not len(self.finish) else f", {self.makespan:.4g} s under {self.model!r}"
        by = f" by {self.scheduler!r}" if self.scheduler else ""
        return f"Schedule({len(self.assignment)} operators on {len(set(self.assignment.tolist()))} devices{took}{by})"

    @property
    def makespan(self) -> float:
        """The planned finish of the last operator [s].

        Raises:
            InvalidSchedule: the schedule has no planned times; simulate it instead.
        """
        if self.finish is None:
            raise InvalidSchedule("this schedule has no planned finish times; hetgym.simulate(problem, schedule) has")
        return float(self.finish.max())

    def device_order(self, problem: Problem) -> tuple[IntArray, ...]:
        """For each device, its operators in the order in which they run.

        Planned times are sorted by start, then finish, then topological position. Operators that take no time
        therefore stay behind the operators whose results they read.

        Raises:
            InvalidSchedule: the order is given by priorities, which only a simulation resolves.
        """
        if self.order is not None:
            return self.order
        if self.start is None:
            raise InvalidSchedule("a schedule by priorities has no order until it is simulated")
        finish = self.start + self.run_times(problem)
        rank = np.lexsort((problem.arrays.position, finish, self.start, self.assignment)).astype(np.int32)
        ends = np.cumsum(np.bincount(self.assignment, minlength=problem.num_devices))
        return tuple(frozen(part.copy()) for part in np.split(rank, ends[:-1]))

    def run_times(self, problem: Problem) -> FloatArray:
        """[n] run time of each operator on its device, at its speed [s]."""
        cost = problem.cost[np.arange(len(self.assignment)), self.assignment]
        return cost if self.speed is None else cost / self.speed

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping from which :meth:`from_dict` restores the schedule."""
        fields: dict[str, Any] = {"assignment": self.assignment.tolist(), "model": self.model}
        if self.order is not None:
            fields["order"] = [row.tolist() for row in self.order]
        for name in ("priority", "start", "finish", "speed"):
            values = getattr(self, name)
            if values is not None:
                fields[name] = values.tolist()
        if self.lower_bound is not None:
            fields["lower_bound"] = self.lower_bound
        if self.streams > 1:
            fields["streams"] = self.streams
        return fields | ({"scheduler": self.scheduler} if self.scheduler else {})

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Schedule:
        """Restore a schedule from the mapping that :meth:`to_dict` made.

        Raises:
            InvalidSchedule: an unknown field, or one of the wrong type.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(fields, Mapping):
            raise InvalidSchedule(f"a schedule is restored from a mapping, not from {shown(fields)}")
        unknown = sorted(shown(field) for field in set(fields) - known)
        if unknown or "assignment" not in fields:
            raise InvalidSchedule(f"schedule: unknown field {unknown[0]}" if unknown else "schedule: no assignment")
        return cls(**dict(fields))


def _bound(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating) or not 0 <= value < math.inf:
        raise InvalidSchedule(f"lower_bound must be a non-negative time in seconds, not {value!r}")
    return float(value)


def _rows(order: Sequence[npt.ArrayLike]) -> tuple[IntArray, ...]:
    if not isinstance(order, Iterable):
        raise InvalidSchedule(f"order must hold one list of operators for each device, not {shown(order)}")
    return tuple(_whole_numbers(row, "order") for row in order)


def _whole_numbers(values: npt.ArrayLike, what: str) -> IntArray:
    array = as_numbers(values, f"{what} is not a list of operator or device numbers", InvalidSchedule)
    if array.ndim != 1 or not (np.abs(array) < 2**31).all() or (array != np.floor(array)).any():
        raise InvalidSchedule(f"{what} must be a flat list of whole numbers")
    return frozen(array.astype(np.int32))


def _numbers(values: npt.ArrayLike, what: str, n: int) -> FloatArray:
    array = as_numbers(values, f"{what} is not a list of numbers", InvalidSchedule)
    if array.shape != (n,) or not np.isfinite(array).all():
        raise InvalidSchedule(f"{what} must hold one finite number for each of the {n} operators")
    return frozen(array)


@dataclass(frozen=True)
class ValidationReport:
    """Loads and traffic of a legal schedule, as :func:`validate` returns them."""

    makespan: float | None  # planned makespan [s]; None without planned times
    device_operators: tuple[int, ...]  # [d] number of operators on each device
    device_busy: tuple[float, ...]  # [d] sum of the run times on each device [s]
    remote_bytes: float  # sum over all edges between different devices [byte]

    __repr__ = brief


def validate(problem: Problem, schedule: Schedule, memory: bool = True) -> ValidationReport:
    """Check a schedule against its problem, without the simulator.

    Rules: *coverage* (every operator has a device, and is once in that device's order), *placement* (the device can
    run it), *memory* (a device's capacity holds the weights that its operators read, each once; outputs and copies come
    on top, see ``memory="enforce"`` of :class:`~hetgym.Runtime`) and *deadlock* (device orders and data dependencies
    together have no cycle). For planned times also *duration* (no operator finishes before its run time has passed),
    *precedence* (no operator starts before its inputs can have arrived over idle links) and *exclusivity* (one operator
    at a time on each stream of a device).

    Args:
        memory: false for a schedule under a runtime that ignores capacities.

    Raises:
        InvalidSchedule: a rule is broken; the message names the rule and the operators.
        ProblemError: not a problem.
    """
    if not isinstance(problem, Problem):
        raise ProblemError(f"a problem is a hetgym.Problem, not {type(problem).__name__}")
    _check_placement(problem, schedule)
    if memory:
        _check_memory(problem, schedule.assignment)
    if schedule.priority is None:
        _check_order(problem, schedule.device_order(problem), schedule.assignment)
    if schedule.start is not None:
        _check_times(problem, schedule)
    assignment = schedule.assignment
    busy = np.bincount(assignment, schedule.run_times(problem), minlength=problem.num_devices)
    remote = assignment[problem.edge_source] != assignment[problem.edge_target]
    return ValidationReport(
        makespan=None if schedule.finish is None else schedule.makespan,
        device_operators=tuple(np.bincount(assignment, minlength=problem.num_devices).tolist()),
        device_busy=tuple(busy.tolist()),
        remote_bytes=float(problem.edge_bytes[remote].sum()),
    )


def _name(problem: Problem, operator: int) -> str:
    return f"operator {operator} ({problem.operator_names[operator]!r})"


def _check_placement(problem: Problem, schedule: Schedule) -> None:
    if not isinstance(schedule, Schedule):
        raise InvalidSchedule(f"a schedule is a hetgym.Schedule, not {type(schedule).__name__}")
    n, d = problem.num_operators, problem.num_devices
    if len(schedule.assignment) != n:
        raise InvalidSchedule(f"coverage: {len(schedule.assignment)} operators are assigned, the problem has {n}")
    exists = (schedule.assignment >= 0) & (schedule.assignment < d)
    able = np.isfinite(problem.cost[np.arange(n), np.where(exists, schedule.assignment, 0)])
    for operator in np.flatnonzero(~(exists & able)).tolist():
        device = int(schedule.assignment[operator])
        if not exists[operator]:
            raise InvalidSchedule(f"coverage: {_name(problem, operator)} is on device {device}, there are 0..{d - 1}")
        where = problem.device_names[device]
        raise InvalidSchedule(f"placement: {_name(problem, operator)} cannot run on device {device} ({where!r})")


def _check_memory(problem: Problem, assignment: IntArray) -> None:
    """Refuse a device that cannot hold the weights of its operators."""
    shared, d = problem.shared_weights, problem.num_devices
    held = np.zeros(d)
    np.add.at(held, assignment, problem.weight_bytes - shared.each())
    for readers, size in shared.pairs():
        held[np.unique(assignment[readers])] += size
    for devices, most in problem.pools:
        if held[devices].sum() > most * (1 + TOLERANCE):
            names = ", ".join(repr(problem.device_names[k]) for k in devices.tolist())
            raise InvalidSchedule(
                f"memory: the operators on devices {names} read {amount(held[devices].sum(), 4)} of weights, their "
                f"shared memory has {amount(most, 4)}"
            )
    over = np.flatnonzero(held > problem.memory_capacity * (1 + TOLERANCE))
    if len(over):
        device = int(over[0])
        raise InvalidSchedule(
            f"memory: the operators on device {device} ({problem.device_names[device]!r}) read "
            f"{amount(held[device], 4)} of weights, it has {amount(problem.memory_capacity[device], 4)}"
        )


def _check_order(problem: Problem, order: Sequence[IntArray], assignment: IntArray) -> None:
    n = problem.num_operators
    if len(order) != problem.num_devices:
        raise InvalidSchedule(f"coverage: orders for {len(order)} devices, the problem has {problem.num_devices}")
    listed = np.concatenate(order)
    home = np.repeat(np.arange(len(order)), [len(row) for row in order])
    if len(listed) == n and (np.sort(listed) == np.arange(n)).all() and (assignment[listed] == home).all():
        _check_deadlock(problem, order, listed, home)
        return
    _name_miscount(problem, order, assignment)


def _name_miscount(problem: Problem, order: Sequence[IntArray], assignment: IntArray) -> None:
    """Raise an error that names the operator that is listed twice, on the wrong device, or not at all."""
    n = problem.num_operators
    seen: dict[int, int] = {}
    for device, row in enumerate(order):
        for operator in row.tolist():
            if not 0 <= operator < n:
                raise InvalidSchedule(f"coverage: device {device} lists operator {operator}, there are 0..{n - 1}")
            if operator in seen:
                raise InvalidSchedule(
                    f"coverage: {_name(problem, operator)} is listed on devices {seen[operator]} and {device}"
                )
            if assignment[operator] != device:
                raise InvalidSchedule(
                    f"coverage: {_name(problem, operator)} is listed on device {device} but assigned to "
                    f"device {assignment[operator]}"
                )
            seen[operator] = device
    missing = next(i for i in range(n) if i not in seen)
    raise InvalidSchedule(f"coverage: {_name(problem, missing)} is in no device's order")


@lean
def _count_waiting(
    pointer: IntArray, successor: IntArray, following: IntArray, waiting: IntArray, stack: IntArray
) -> None:
    """Run all operators that can ever run, if each waits for its inputs and for its predecessor on the device.

    Kahn's algorithm on the edges of the graph plus one edge from each operator to the next on its device.
    ``waiting[i]`` is the number of unfinished operators that i waits for; an operator is pushed exactly once, when that
    number becomes 0. Operators on a cycle and those behind one keep ``waiting > 0``. Takes O(n + e).

    Args:
        pointer, successor: [n + 1] row starts of the successor lists, and [e] the targets of the edges.
        following: [n] the next operator on the same device; -1 for the last.
        waiting, stack: [n] number of operators that each waits for, 0 in the end for those that can run; scratch.
    """
    top = 0
    for i in range(len(waiting)):
        if waiting[i] == 0:
            stack[top] = i
            top += 1
    while top > 0:
        top -= 1
        i = stack[top]
        for k in range(pointer[i], pointer[i + 1]):
            waiting[successor[k]] -= 1
            if waiting[successor[k]] == 0:
                stack[top] = successor[k]
                top += 1
        after = following[i]
        if after >= 0:
            waiting[after] -= 1
            if waiting[after] == 0:
                stack[top] = after
                top += 1


def _check_deadlock(problem: Problem, order: Sequence[IntArray], listed: IntArray, home: npt.NDArray[np.int64]) -> None:
    following = np.full(problem.num_operators, -1, np.int32)
    neighbours = home[:-1] == home[1:]
    following[listed[:-1][neighbours]] = listed[1:][neighbours]
    waiting = np.diff(problem.predecessors.pointer)
    waiting[following[following >= 0]] += 1
    _count_waiting(problem.successors.pointer, problem.successors.node, following, waiting, np.empty_like(waiting))
    if not waiting.any():
        return
    # The first stuck operator of a device waits for no earlier one of that device, so it has a stuck input.
    blocked = set(np.flatnonzero(waiting).tolist())
    for row in order:
        waits = [int(i) for i in row if int(i) in blocked]
        if waits:
            first = waits[0]
            cause = next(int(p) for p in problem.edge_source[problem.edge_target == first] if int(p) in blocked)
            raise InvalidSchedule(
                f"deadlock: {_name(problem, first)} waits for {_name(problem, cause)}, which the device orders put "
                "after it"
            )


def _check_times(problem: Problem, schedule: Schedule) -> None:
    assert schedule.start is not None
    start, assignment = schedule.start, schedule.assignment
    cost = schedule.run_times(problem)
    finish = start + cost if schedule.finish is None else schedule.finish
    slack = TOLERANCE * float(np.abs(finish).max())
    for operator in np.flatnonzero((start < 0) | (finish < start + cost - slack)):
        raise InvalidSchedule(
            f"duration: {_name(problem, int(operator))} runs from {start[operator]:g} to {finish[operator]:g}, "
            f"but takes {cost[operator]:g}"
        )
    here, there = assignment[problem.edge_source], assignment[problem.edge_target]
    transfer = problem.latency[here, there] + problem.edge_bytes / problem.bandwidth[here, there]
    arrival = finish[problem.edge_source] + transfer
    for edge in np.flatnonzero(start[problem.edge_target] < arrival - slack):
        source, target = int(problem.edge_source[edge]), int(problem.edge_target[edge])
        raise InvalidSchedule(
            f"precedence: {_name(problem, target)} starts at {start[target]:g}, before the output of "
            f"{_name(problem, source)} can arrive at {arrival[edge]:g}"
        )
    if schedule.streams > 1:
        _check_streams(problem, schedule, finish - slack)
        return
    order = schedule.device_order(problem)
    listed = np.concatenate(order)
    home = assignment[listed]
    early = (home[:-1] == home[1:]) & (start[listed[1:]] < finish[listed[:-1]] - slack)
    for k in np.flatnonzero(early).tolist():
        before, after = int(listed[k]), int(listed[k + 1])
        raise InvalidSchedule(
            f"exclusivity: {_name(problem, after)} starts at {start[after]:g} on device {assignment[after]}, "
            f"where {_name(problem, before)} runs until {finish[before]:g}"
        )


def _check_streams(problem: Problem, schedule: Schedule, finish: FloatArray) -> None:
    """Refuse planned times in which more operators run at the same time on a device than it has streams."""
    assert schedule.start is not None
    running: list[list[float]] = [[] for _ in range(problem.num_devices)]
    for operator in np.lexsort((finish, schedule.start)).tolist():
        device, start = int(schedule.assignment[operator]), float(schedule.start[operator])
        beside = running[device]
        while beside and beside[0] <= start:
            heapq.heappop(beside)
        if len(beside) == schedule.streams:
            raise InvalidSchedule(
                f"exclusivity: {_name(problem, operator)} starts at {start:g} on device {device}, where "
                f"{len(beside)} operators run already"
            )
        heapq.heappush(beside, float(finish[operator]))
