"""Evaluation: the makespans of many placements or schedules, without traces."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from numbers import Integral

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import jit
from hetgym._kernels.threads import cores
from hetgym._types import FloatArray, IntArray
from hetgym.errors import ConfigError, InvalidSchedule, OutOfMemory, check_name
from hetgym.planning import ranks
from hetgym.planning.decode import DECODES, decode_all, decode_placement, new_decoder
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule, validate
from hetgym.sim.run import Setting, new_workspace, run, setting
from hetgym.sim.runtime import Runtime, charged
from hetgym.sim.runtime import runtime as as_runtime
from hetgym.sim.simulation import simulate

LEAST_BATCH = 32  # Fewest candidates for which a thread of their own pays


def _evaluate(
    problem: Problem, assignments: IntArray, rank: FloatArray, decode: int, how: Setting, classic: bool
) -> FloatArray:
    """Makespans of placements: the decoded ones under the classic model, simulated ones under any other runtime."""
    p, decoder = problem.arrays, new_decoder(problem, rank)
    if classic:
        return decode_all(p, decoder, assignments, decode, False)[0]
    w = new_workspace(p, how)
    parts = []
    for first in range(0, len(assignments), LEAST_BATCH):
        part = assignments[first : first + LEAST_BATCH]
        _, orders, pointers = decode_all(p, decoder, part, decode, True)
        parts.append(run(p, w, part, orders, pointers, _priorities(orders, how), how)[0])
    return np.concatenate(parts)


def evaluate(
    problem: Problem,
    candidates: npt.ArrayLike | Sequence[Schedule],
    runtime: str | Runtime = "classic",
    decode: str = "insertion",
    threads: int | None = None,
) -> FloatArray:
    """Makespans of many placements, or of many schedules.

    Args:
        candidates: placements [B, n] (device of each operator), or schedules.
        decode: rule that orders the operators of a placement, one of :data:`DECODES`; schedules have their own order.
        threads: largest number of threads that work at the same time; by default one for each core of the process.

    Returns:
        [B] makespans [s].

    Raises:
        InvalidSchedule: a placement of the wrong shape, on a device that does not exist, or of an
            operator on a device that cannot run it; or an illegal schedule.
        UnknownName: no such decode or runtime.
        ConfigError: a number of threads that is not positive.

    The result does not depend on the number of threads. A plan that exceeds a device's memory has the makespan
    inf in a runtime that enforces memory. Planned times of schedules that bring an order are ignored.

    >>> problem = Problem.from_arrays([[2.0, 3.0], [4.0, 1.0]], [(0, 1, 5.0)], bandwidth=10.0)
    >>> evaluate(problem, [[0, 0], [0, 1], [1, 1]])
    array([6. , 3.5, 4. ])
    """
    switches = charged(as_runtime(runtime), problem)
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, Integral) or threads < 1):
        raise ConfigError(f"evaluate: threads is {threads!r}; it must be a whole number of at least 1")
    if isinstance(candidates, Sequence) and any(isinstance(item, Schedule) for item in candidates):
        schedules = [item for item in candidates if isinstance(item, Schedule)]
        if len(schedules) < len(candidates):
            raise InvalidSchedule("candidates are either placements or schedules, not both")
        return _evaluate_schedules(problem, schedules, switches, threads)
    check_name("decode", decode, DECODES)
    assignments = _check(problem, candidates)
    if len(assignments) == 0:
        return np.zeros(0)
    if switches.memory == "enforce":
        return np.array([_within_memory(problem, decode_placement(problem, a, decode), switches) for a in assignments])
    rank, how = ranks.upward_rank(problem), DECODES.index(decode)
    ready, classic = setting(problem, switches), switches.is_classic
    return _in_parts(
        len(assignments), lambda part: _evaluate(problem, assignments[part], rank, how, ready, classic), threads
    )


def _evaluate_schedules(
    problem: Problem, schedules: Sequence[Schedule], switches: Runtime, threads: int | None
) -> FloatArray:
    """Makespans of schedules, those by priorities and those by orders each in one go."""
    makespans = np.empty(len(schedules))
    if switches.memory == "enforce":
        return np.array([_within_memory(problem, schedule, switches) for schedule in schedules])
    for by_priority in (False, True):
        chosen = [k for k, schedule in enumerate(schedules) if (schedule.priority is not None) == by_priority]
        if not chosen:
            continue
        alike = [schedules[k] for k in chosen]
        makespans[chosen] = _evaluate_alike(problem, alike, setting(problem, switches, by_priority), threads)
    return makespans


def _evaluate_alike(problem: Problem, schedules: Sequence[Schedule], how: Setting, threads: int | None) -> FloatArray:
    """Makespans of schedules that are all by orders, or all by priorities."""
    assignments, orders, pointers = _tables(problem, schedules)
    given = [schedule.priority for schedule in schedules if schedule.priority is not None]
    priorities = np.stack(given) if given else _priorities(orders, how)

    def work(part: slice) -> FloatArray:
        plans = assignments[part], orders[part], pointers[part]
        wrong = _first_wrong(problem.arrays, *plans)
        if wrong < len(plans[0]):
            validate(problem, schedules[part.start + wrong], memory=False)
        return run(problem.arrays, new_workspace(problem.arrays, how), *plans, priorities[part], how)[0]

    makespans = _in_parts(len(schedules), work, threads)
    if np.isinf(makespans).any():
        for schedule in schedules:
            validate(problem, schedule, memory=False)  # names the deadlock
    return makespans


def _tables(problem: Problem, schedules: Sequence[Schedule]) -> tuple[IntArray, IntArray, IntArray]:
    """Schedules as rows of arrays: assignments [B, n], orders [B, n] and offsets of the devices [B, d + 1].

    Where there is no order, planned times are checked and give one. Schedules by priorities get empty orders.
    """
    n, d = problem.num_operators, problem.num_devices
    rows: list[IntArray] = []
    for schedule in schedules:
        order = schedule.order
        if len(schedule.assignment) != n or (order is not None and (len(order) != d or sum(map(len, order)) != n)):
            validate(problem, schedule, memory=False)
        if order is None and schedule.priority is None:
            validate(problem, schedule, memory=False)
        rows += schedule.device_order(problem) if schedule.priority is None else ()
    assignments = np.stack([schedule.assignment for schedule in schedules])
    orders = np.concatenate(rows).reshape(-1, n) if rows else np.zeros(assignments.shape, np.int32)
    pointers = np.zeros((len(schedules), d + 1), np.int32)
    if rows:
        np.cumsum(np.array([len(row) for row in rows]).reshape(-1, d), axis=1, out=pointers[:, 1:])
    return assignments, orders, pointers


@jit
def _first_wrong(p: ProblemArrays, assignments: IntArray, orders: IntArray, pointers: IntArray) -> int:
    """The first row that breaks the rules of coverage or placement of :func:`validate`; their number if none does."""
    n, d = p.cost.shape
    seen = np.full(n, -1, np.int32)
    for row in range(len(assignments)):
        for i in range(n):
            device = assignments[row, i]
            if device < 0 or device >= d or p.cost[i, device] == np.inf:
                return row
        if pointers[row, d] == 0:  # left to priorities
            continue
        for device in range(d):
            for k in range(pointers[row, device], pointers[row, device + 1]):
                i = orders[row, k]
                if i < 0 or i >= n or seen[i] == row or assignments[row, i] != device:
                    return row
                seen[i] = row
    return len(assignments)


def _priorities(orders: IntArray, how: Setting) -> FloatArray:
    """Priorities that fall along each device's order, for runtimes that go by them."""
    priorities = np.zeros(orders.shape)
    if how.switches.work_conserving:
        np.put_along_axis(priorities, orders, -np.arange(float(orders.shape[1]))[None], axis=1)
    return priorities


def _in_parts(count: int, work: Callable[[slice], FloatArray], most: int | None) -> FloatArray:
    """Spread a batch over threads; kernels release the interpreter lock. Small batches stay on one thread."""
    threads = min(most or cores(), count // LEAST_BATCH)
    if threads < 2:
        return work(slice(0, count))
    ends = [count * k // threads for k in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(work, (slice(a, row) for a, row in pairwise(ends)))))


def _within_memory(problem: Problem, schedule: Schedule, switches: Runtime) -> float:
    try:
        return simulate(problem, schedule, switches).makespan
    except OutOfMemory:
        return np.inf


def _check(problem: Problem, candidates: object) -> IntArray:
    try:
        table = np.asarray(candidates)
        if table.dtype.kind not in "iu":
            table = table.astype(np.float64)
    except (TypeError, ValueError) as cause:
        raise InvalidSchedule(f"placements are not a table of device numbers ({cause})") from cause
    n, d = problem.num_operators, problem.num_devices
    if table.ndim != 2 or table.shape[1] != n:
        raise InvalidSchedule(f"placements have shape {table.shape}, expected [batch, {n}]")
    with np.errstate(invalid="ignore"):
        devices = table.astype(np.int32, order="C")  # another layout would compile the kernels anew
    wrong = _first_wrong(problem.arrays, devices, devices, np.zeros((len(devices), d + 1), np.int32))
    if wrong < len(devices) or not (devices == table).all():
        legal = (table >= 0) & (table < d) & (devices == table)
        legal &= np.isfinite(problem.cost[np.arange(n), np.where(legal, devices, 0)])
        row, operator = (int(i) for i in np.argwhere(~legal)[0])
        raise InvalidSchedule(
            f"placement {row} puts operator {operator} ({problem.operator_names[operator]!r}) on device "
            f"{table[row, operator]:g}, which does not exist or cannot run it"
        )
    return devices
