"""Streams: operators that run beside each other on one device slow each other down.

An operator needs a share of its device, its *occupancy*, to run at full speed. While the occupancies of what runs sum
to at most 1, everything does. Beyond that all of it slows down by the sum (processor sharing). So the work that a
device does in a time, run times at full speed weighted by occupancy, never exceeds that time.
"""

from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import step
from hetgym._kernels.records import record
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.problem import ProblemArrays
from hetgym.sim.kernel import State


@record
class Streams(NamedTuple):
    """Operators that run on each device, as linked lists, and how much slower than alone."""

    first: IntArray  # [d] an operator that runs on the device; -1 if none does
    following: IntArray  # [n] the next one on the same device; -1 for the last
    stretch: FloatArray  # [n] factor by which sharing lengthens what is left of each operator; 0 before it has begun
    stirred: BoolArray  # [d] true if what runs has changed since the last settle_down


def new_streams(n: int, d: int) -> Streams:
    """Allocate for n operators on d devices; n = 0 if devices have one stream each."""
    return Streams(np.full(d, -1, np.int32), np.full(n, -1, np.int32), np.zeros(n), np.zeros(d, np.bool_))


@step
def clear(h: Streams) -> None:
    """Nothing runs."""
    for device in range(len(h.first)):
        h.first[device] = -1
        h.stirred[device] = False


@step
def join(h: Streams, operator: int, device: int) -> None:
    """An operator begins; its finish is that at full speed until the device settles down."""
    h.stretch[operator] = 1.0
    h.following[operator] = h.first[device]
    h.first[device] = operator
    h.stirred[device] = True


@step
def leave(h: Streams, operator: int, device: int) -> None:
    """An operator ends."""
    h.stirred[device] = True
    if h.first[device] == operator:
        h.first[device] = h.following[operator]
        return
    before = h.first[device]
    while h.following[before] != operator:
        before = h.following[before]
    h.following[before] = h.following[operator]


@step
def ends_next(p: ProblemArrays, s: State, h: Streams, device: int) -> int:
    """The operator that finishes first of what runs on a device, ties by topological position; -1 if nothing runs."""
    best = h.first[device]
    i = best
    while i >= 0:
        if (s.finish[i], p.position[i]) < (s.finish[best], p.position[best]):
            best = i
        i = h.following[i]
    return int(best)


@step
def settle_down(p: ProblemArrays, s: State, h: Streams, device: int, now: float) -> None:
    """Bring the finishes on a device up to date with what runs from now on."""
    h.stirred[device] = False
    total = 0.0
    i = h.first[device]
    while i >= 0:
        total += p.occupancy[i, device]
        i = h.following[i]
    stretch = max(1.0, total)
    s.free[device] = now
    i = h.first[device]
    while i >= 0:
        if h.stretch[i] != stretch:
            s.finish[i] = now + (s.finish[i] - now) * (stretch / h.stretch[i])
            h.stretch[i] = stretch
        s.free[device] = max(s.free[device], s.finish[i])
        i = h.following[i]
