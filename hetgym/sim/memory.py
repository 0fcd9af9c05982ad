"""Memory: the contents of every device at every moment of a run.

Weights are resident from the start. An operator's outputs are resident from its start until its last
reader has read them: a reader on the same device until it finishes, one on another device until the
transfer has arrived. Outputs without readers stay. A copy on another device is resident from the
start of its transfer until its readers there have finished. At one instant, memory is freed before
any is allocated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetgym._types import FloatArray, IntArray
from hetgym.errors import OutOfMemory
from hetgym.sim.record import Record


@dataclass(frozen=True, eq=False)
class MemoryUse:
    """Memory in use over time, device by device.

    Attributes:
        time: [k] moments at which something changes, ascending [s].
        device: [k] device of each change.
        used: [k] bytes in use on that device from then on.
        peak: [d] largest use of each device [byte].
    """

    time: FloatArray
    device: IntArray
    used: FloatArray
    peak: FloatArray


def memory_use(trace: Record, cached: bool = False) -> MemoryUse:
    """Follow allocations and releases through a run.

    Args:
        trace: a finished run.
        cached: true if readers of a tensor on one device share one copy of it.
    """
    problem, assignment = trace.problem, trace.assignment
    outputs = problem.output_bytes > 0
    last = _last_read(trace)
    where, when, size = [assignment[outputs]], [trace.start[outputs]], [problem.output_bytes[outputs]]
    freed = outputs & np.isfinite(last)
    where, when, size = [*where, assignment[freed]], [*when, last[freed]], [*size, -problem.output_bytes[freed]]
    for device, begin, end, amount in _copies(trace, cached):
        where += [device, device]
        when += [begin, end]
        size += [amount, -amount]
    device, time, change = np.concatenate(where), np.concatenate(when), np.concatenate(size)
    order = np.lexsort((change, time, device))  # releases are negative, so they come first
    device, time, change = device[order], time[order], change[order]
    resident = np.bincount(assignment, problem.weight_bytes, minlength=problem.num_devices).astype(np.float64)
    used = np.empty(len(change))
    peak = resident.copy()
    for d in range(problem.num_devices):
        mine = device == d
        used[mine] = resident[d] + np.cumsum(change[mine])
        if mine.any():
            peak[d] = max(peak[d], float(used[mine].max()))
    by_time = np.argsort(time, kind="stable")
    return MemoryUse(time[by_time], device[by_time].astype(np.int32), np.maximum(used[by_time], 0.0), peak)


def check_capacity(trace: Record, use: MemoryUse) -> None:
    """Refuse a run that exceeds a device's memory.

    Raises:
        OutOfMemory: names the device, the excess, the time, and the largest operators resident then.
    """
    problem = trace.problem
    over = np.flatnonzero(use.peak > problem.memory_capacity)
    if len(over) == 0:
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


def _copies(trace: Record, cached: bool) -> list[tuple[IntArray, FloatArray, FloatArray, FloatArray]]:
    """Copies on other devices: device, begin, end and bytes of each."""
    problem = trace.problem
    edges = np.flatnonzero(trace.remote)
    if len(edges) == 0:
        return []
    device = trace.assignment[problem.edge_target[edges]]
    begin, end = trace.sent[edges], trace.finish[problem.edge_target[edges]]
    amount = problem.edge_bytes[edges]
    if not cached:
        return [(device, begin, end, amount)]
    groups, member = np.unique(np.stack([problem.edge_tensor[edges], device], axis=1), axis=0, return_inverse=True)
    member = member.reshape(-1)
    first, until, most = (np.full(len(groups), value) for value in (np.inf, -np.inf, 0.0))
    np.minimum.at(first, member, begin)
    np.maximum.at(until, member, end)
    np.maximum.at(most, member, amount)
    return [(groups[:, 1].astype(np.int32), first, until, most)]
