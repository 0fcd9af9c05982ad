"""Memory: the contents of every device at every moment of a run.

Weights are resident from the start. An operator's outputs are resident from its start until its last reader has read
them: a reader on the same device until it finishes, one on another device until the transfer has arrived. Outputs
without readers stay. A copy on another device is resident from the start of its transfer until its readers there have
finished. At one instant, memory is freed before any is allocated.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hetgym._kernels.heap import Heaps, new_heaps, pop, push
from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray
from hetgym.errors import OutOfMemory
from hetgym.problem import Problem, ProblemArrays
from hetgym.sim.record import Record


@dataclass(frozen=True, eq=False)
class MemoryUse:
    """Memory in use over time, device by device."""

    time: FloatArray  # [k] moments at which something changes, ascending [s]
    device: IntArray  # [k] device of each change
    used: FloatArray  # [k] bytes in use on that device from then on
    peak: FloatArray  # [d] largest use of each device [byte]


@record
class Changes(NamedTuple):
    """Allocations and releases of a run, in no order; room for 2 n + 2 e of them."""

    device: IntArray  # device of each; `time`: when [s]; `size`: bytes, negative where memory is freed
    time: FloatArray
    size: FloatArray
    queue: Heaps  # scratch for sorting them


def new_changes(n: int, e: int) -> Changes:
    """Allocate for n operators and e edges."""
    count = 2 * (n + e)
    return Changes(np.zeros(count, np.int32), np.zeros(count), np.zeros(count), new_heaps([count]))


# Two changes for each edge that leaves its device, and two for each operator: `last` is the time of its last reader.
@lean
def write_changes(
    p: ProblemArrays,
    output: FloatArray,
    assignment: IntArray,
    start: FloatArray,
    finish: FloatArray,
    sent: FloatArray,
    arrived: FloatArray,
    copies: bool,
    found: Changes,
) -> int:
    """Write down all allocations and releases; return their number.

    Args:
        output: [n] bytes of operators' outputs.
        start, finish: [n] starts and ends of operators [s]; and [e] ``sent``, ``arrived``, those of transfers [s].
        copies: false to leave out those of copies on other devices.
    """
    count = 0
    for i in range(len(output)):
        a, last = assignment[i], -np.inf
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            if assignment[j] == a:
                last = max(last, finish[j])
                continue
            last = max(last, arrived[edge])
            if copies:
                count = _note(found, count, assignment[j], sent[edge], p.edge_bytes[edge])
                count = _note(found, count, assignment[j], finish[j], -p.edge_bytes[edge])
        if output[i] > 0:
            count = _note(found, count, a, start[i], output[i])
            if last > -np.inf:
                count = _note(found, count, a, last, -output[i])
    return count


@step
def _note(found: Changes, count: int, device: int, time: float, size: float) -> int:
    found.device[count], found.time[count], found.size[count] = device, time, size
    return count + 1


# Within one moment releases come first, so the memory in use then is highest at the end of the moment.
@step
def write_peaks(found: Changes, count: int, resident: FloatArray, used: FloatArray, peak: FloatArray) -> None:
    """Write the largest memory in use on each device to ``peak``, [d], besides ``resident`` weights [byte]."""
    for d in range(len(peak)):
        used[d], peak[d] = 0.0, resident[d]
    for k in range(count):
        push(found.queue, 0, found.time[k], k)
    while found.queue.size[0] > 0:
        now = found.queue.key[0]
        while found.queue.size[0] > 0 and found.queue.key[0] == now:
            k = pop(found.queue, 0)
            used[found.device[k]] += found.size[k]
        for d in range(len(peak)):
            peak[d] = max(peak[d], resident[d] + used[d])


def resident_weights(problem: Problem, assignment: IntArray) -> FloatArray:
    """[d] weights that each device holds under a placement, [n]: those that its operators read, each once [byte]."""
    d = problem.num_devices
    held = np.bincount(assignment, problem.weight_bytes, minlength=d)
    return np.asarray(held - problem.shared_weights.spared(assignment, d), np.float64)


def memory_use(trace: Record, cached: bool = False) -> MemoryUse:
    """Follow allocations and releases through a run; if ``cached``, readers of a tensor on one device share a copy."""
    problem, assignment = trace.problem, trace.assignment
    found = new_changes(problem.num_operators, problem.num_edges)
    start, finish, sent, arrived = (
        np.array(values, np.float64) for values in (trace.start, trace.finish, trace.sent, trace.arrived)
    )
    where, output = np.array(assignment, np.int32), problem.output_bytes
    count = write_changes(problem.arrays, output, where, start, finish, sent, arrived, not cached, found)
    device, time, change = found.device[:count], found.time[:count], found.size[:count]
    if cached:
        there, begin, end, amount = _shared_copies(trace)
        device = np.concatenate([device, there, there])
        time, change = np.concatenate([time, begin, end]), np.concatenate([change, amount, -amount])
    order = np.lexsort((change, time, device))  # releases are negative, so they come first
    device, time, change = device[order], time[order], change[order]
    resident = resident_weights(problem, assignment)
    used = np.empty(len(change))
    peak = resident.copy()
    for d in range(problem.num_devices):
        mine = device == d
        used[mine] = resident[d] + np.cumsum(change[mine])
        if mine.any():
            peak[d] = max(peak[d], float(used[mine].max()))
    by_time = np.argsort(time, kind="stable")
    return MemoryUse(time[by_time], device[by_time].astype(np.int32), np.maximum(used[by_time], 0.0), peak)


def excess(trace: Record, use: MemoryUse) -> FloatArray:
    """[d] bytes by which a run exceeds each device's memory, 0 where it fits.

    The excess of a shared memory is divided among its devices in proportion to their peaks.
    """
    problem = trace.problem
    found: FloatArray = np.maximum(use.peak - problem.memory_capacity, 0.0)
    for devices, most in problem.pools:
        lacks = _peak_together(trace, use, devices) - most
        if lacks > 0:
            found[devices] = np.maximum(found[devices], lacks * use.peak[devices] / use.peak[devices].sum())
    return found


def _peak_together(trace: Record, use: MemoryUse, devices: IntArray) -> float:
    """The most that devices hold at the same time [byte]; within one moment, all releases come first."""
    held = resident_weights(trace.problem, trace.assignment)
    most = now = float(held[devices].sum())
    mine = np.flatnonzero(np.isin(use.device, devices))
    for k, after in zip(mine.tolist(), [*use.time[mine[1:]].tolist(), np.inf], strict=True) if len(mine) else ():
        now += use.used[k] - held[use.device[k]]
        held[use.device[k]] = use.used[k]
        most = max(most, now) if after > use.time[k] else most
    return most


def check_capacity(trace: Record, use: MemoryUse) -> None:
    """Refuse a run that exceeds a device's memory.

    Raises:
        OutOfMemory: names the device or the devices that share a memory, the excess, and for a device the time and the
            largest operators resident then.
    """
    problem = trace.problem
    over = np.flatnonzero(use.peak > problem.memory_capacity)
    if len(over) == 0:
        for devices, most in problem.pools:
            together = _peak_together(trace, use, devices)
            if together > most:
                names = ", ".join(repr(problem.device_names[k]) for k in devices.tolist())
                raise OutOfMemory(
                    f"devices {names} would hold {together:.6g} bytes in their shared memory of {most:.6g}"
                )
        return
    d = int(over[0])
    mine = np.flatnonzero(use.device == d)
    moment = float(use.time[mine[np.argmax(use.used[mine])]]) if len(mine) else 0.0
    last = _last_read(trace)
    here = trace.assignment == d
    held = np.where(here, problem.weight_bytes, 0.0)
    alive = here & (trace.start <= moment) & ~(last <= moment)
    held = held + np.where(alive, problem.output_bytes, 0.0)
    largest = [i for i in np.argsort(-held, kind="stable")[:5] if held[i] > 0]
    names = ", ".join(f"{problem.operator_names[i]} ({held[i]:.4g})" for i in largest)
    raise OutOfMemory(
        f"device {d} ({problem.device_names[d]!r}) would hold {use.peak[d]:.6g} bytes at {moment:.6g} s, its capacity "
        f"is {problem.memory_capacity[d]:.6g}; resident then, largest first: {names or 'copies of inputs'}"
    )


def _last_read(trace: Record) -> FloatArray:
    """[n] time at which the last reader of each operator's outputs has read them [s]; inf without readers."""
    problem = trace.problem
    read = np.where(trace.remote, trace.arrived, trace.finish[problem.edge_target])
    last = np.full(problem.num_operators, -np.inf)
    np.maximum.at(last, problem.edge_source, read)
    return np.where(np.isneginf(last), np.inf, last)


def _shared_copies(trace: Record) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Copies on other devices, one for all readers there: device, begin, end and bytes of each."""
    problem = trace.problem
    edges = np.flatnonzero(trace.remote)
    device = trace.assignment[problem.edge_target[edges]]
    begin, end = trace.sent[edges], trace.finish[problem.edge_target[edges]]
    groups, member = np.unique(np.stack([problem.edge_tensor[edges], device], axis=1), axis=0, return_inverse=True)
    member = member.reshape(-1)
    first, until, most = (np.full(len(groups), value) for value in (np.inf, -np.inf, 0.0))
    np.minimum.at(first, member, begin)
    np.maximum.at(until, member, end)
    np.maximum.at(most, member, problem.edge_bytes[edges])
    return groups[:, 1].astype(np.int32), first, until, most
