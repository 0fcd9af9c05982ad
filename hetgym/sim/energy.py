"""Energy and rent of a run, from its trace.

Nothing in a run depends on power or price, so both are computed after it. Every device draws its idle power throughout
the makespan. While it runs an operator at a clock of ``f`` times the full one, it draws ``(power_busy - power_idle) *
f**3`` on top: the dynamic power of CMOS circuits is proportional to the clock and to the square of the voltage, and the
voltage is taken as proportional to the clock (Weiser, Welch, Demers, Shenker, "Scheduling for reduced CPU energy", OSDI
1994). Links draw no power of their own.
"""

import heapq
from dataclasses import dataclass

import numpy as np

from hetgym._text import brief
from hetgym._types import FloatArray
from hetgym.errors import ProblemError
from hetgym.problem import Problem
from hetgym.sim.record import Record

EXPONENT = 3  # Exponent of the clock in the power that a busy device draws beyond its idle power

_HOUR = 3600.0


@dataclass(frozen=True, eq=False)
class EnergyUse:
    """Energy of a run, device by device."""

    idle: FloatArray  # [d] idle power over the makespan [J]
    dynamic: FloatArray  # [d] power beyond that while operators run [J]

    __repr__ = brief

    @property
    def total(self) -> float:
        """Energy of all devices [J]."""
        return float((self.idle + self.dynamic).sum())


def has_power(problem: Problem) -> bool:
    """True if a problem states the power of its devices."""
    return bool(problem.power_busy.any())


def has_price(problem: Problem) -> bool:
    """True if a problem states the price of its devices."""
    return bool(problem.price.any())


def energy_use(trace: Record) -> EnergyUse:
    """Integrate the power of each device over a run.

    Where several streams run operators of one device at different clocks, the highest clock is charged.

    Raises:
        ProblemError: the problem does not state the power of its devices.
    """
    p = trace.problem
    if not has_power(p):
        raise ProblemError(f"problem {p.name!r} does not state power_busy and power_idle of all devices")
    rate = np.ones(p.num_operators) if trace.speed is None else trace.speed**EXPONENT
    if trace.switches.streams == 1:
        begun = trace.assignment >= 0
        spent = (rate * (trace.finish - trace.start))[begun]
        work = np.bincount(trace.assignment[begun], spent, minlength=p.num_devices)
    else:
        work = np.array([_union(trace, device, rate) for device in range(p.num_devices)])
    return EnergyUse(p.power_idle * trace.makespan, (p.power_busy - p.power_idle) * work)


def _union(trace: Record, device: int, rate: FloatArray) -> float:
    """Integral over time of the largest rate among the operators that run on a device [s]."""
    here = np.flatnonzero((trace.assignment == device) & (trace.finish > trace.start))
    here = here[np.argsort(trace.start[here], kind="stable")]
    moments = np.unique(np.concatenate([trace.start[here], trace.finish[here]]))
    running: list[tuple[float, float]] = []  # minus the rate, and the finish
    total, following = 0.0, 0
    for begin, end in zip(moments[:-1].tolist(), moments[1:].tolist(), strict=True):
        while following < len(here) and trace.start[here[following]] <= begin:
            heapq.heappush(running, (-float(rate[here[following]]), float(trace.finish[here[following]])))
            following += 1
        while running and running[0][1] <= begin:
            heapq.heappop(running)
        if running:
            total -= running[0][0] * (end - begin)
    return total


def rent(trace: Record) -> FloatArray:
    """[d] rent of each device for the time in which the run holds it [currency].

    A run holds a device from the first to the last moment at which the device runs an operator, or sends or receives a
    tensor. A device that takes no part costs nothing.

    Raises:
        ProblemError: the problem does not state the price of its devices.
    """
    p = trace.problem
    if not has_price(p):
        raise ProblemError(f"problem {p.name!r} does not state the price of all devices")
    first, last = np.full(p.num_devices, np.inf), np.full(p.num_devices, -np.inf)
    begun, remote = trace.assignment >= 0, trace.remote
    source, target = trace.assignment[p.edge_source[remote]], trace.assignment[p.edge_target[remote]]
    for device, begin, end in (
        (trace.assignment[begun], trace.start[begun], trace.finish[begun]),
        (source, trace.sent[remote], trace.arrived[remote]),
        (target, trace.sent[remote], trace.arrived[remote]),
    ):
        np.minimum.at(first, device, begin)
        np.maximum.at(last, device, end)
    return p.price * np.where(last > first, last - first, 0.0) / _HOUR
