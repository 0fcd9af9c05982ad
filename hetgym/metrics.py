"""Metrics: ratios by which schedules are compared across problems of any size.

Makespans of different problems cannot be compared directly; these ratios can. Definitions follow Topcuoglu, Hariri,
Wu, "Performance-effective and low-complexity task scheduling for heterogeneous computing", IEEE TPDS
13(3), 2002, section 6.1, unless a function says otherwise.
"""

import math
from collections.abc import Iterable

import numpy as np

from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.planning import ranks
from hetgym.planning.decode import decode_placement
from hetgym.planning.list_scheduling import fastest_device, single_device_placement
from hetgym.problem import Problem
from hetgym.sim import Runtime, simulate
from hetgym.sim.runtime import runtime as as_runtime


def ratio(value: float, reference: float) -> float:
    """``value / reference`` of two times [s]; 0 / 0 counts as 1.

    >>> ratio(3.0, 2.0), ratio(0.0, 0.0), ratio(1.0, 0.0)
    (1.5, 1.0, inf)
    """
    if reference > 0:
        return value / reference
    return 1.0 if value == 0 else math.inf


def schedule_length_ratio(makespan: float, critical_path: float) -> float:
    """SLR: makespan over :func:`hetgym.baselines.critical_path_bound`, the critical path with free transfers.

    At least 1 for a correct schedule; smaller is better (Topcuoglu 2002, equation 10).

    >>> round(schedule_length_ratio(80.0, 41.0), 3)
    1.951
    """
    return ratio(makespan, critical_path)


def speedup(makespan: float, single_device: float) -> float:
    """Speed-up: :func:`single_device_makespan` over the makespan of the schedule.

    The numerator of the source (Topcuoglu 2002, equation 11) is the least column sum of the cost table. That sum
    is infinite if every device has an operator that it cannot run. hetgym therefore takes the simulated makespan
    of the ``single-device`` baseline, which is the same number wherever one device can run everything.
    """
    return ratio(single_device, makespan)


def single_device_makespan(
    problem: Problem, runtime: str | Runtime = "classic", order: IntArray | None = None
) -> float:
    """Simulated makespan of the ``single-device`` baseline: all operators on the one best device [s].

    Args:
        order: [n] operators by descending upward rank, if that is known already.

    >>> from hetgym.workloads import textbook
    >>> single_device_makespan(textbook("topcuoglu"))
    127.0
    """
    switches, device = as_runtime(runtime), fastest_device(problem)
    plain = (switches.noise, switches.dispatch, switches.streams) == (0, 0, 1)
    if plain and not problem.has_partitions and np.isfinite(problem.cost[:, device]).all():
        if order is None:
            order = ranks.list_order(problem.arrays, ranks.upward_rank(problem))
        return float(np.cumsum(problem.cost[order, device])[-1])  # one after the other, nothing to transfer
    schedule = decode_placement(problem, single_device_placement(problem))
    return simulate(problem, schedule, switches).makespan


def efficiency(speedup_value: float, devices: int) -> float:
    """Speed-up per device: 1 if every device contributes as much as the best one alone; ValueError without devices."""
    if devices < 1:
        raise ValueError(f"efficiency over {devices} devices is not defined; there must be at least one")
    return speedup_value / devices


def gap(makespan: float, reference: float) -> float:
    """Excess over a reference, the best known makespan or a lower bound: 0.05 means 5 % longer.

    >>> round(gap(84.0, 80.0), 3)
    0.05
    """
    return ratio(makespan, reference) - 1.0


def arithmetic_mean(values: Iterable[float]) -> float:
    """Arithmetic mean; ValueError without values."""
    items = list(values)
    if not items:
        raise ValueError("the mean of an empty list is not defined")
    return math.fsum(items) / len(items)


def geometric_mean(values: Iterable[float]) -> float:
    """Geometric mean, the mean for ratios: inverting all ratios inverts the mean; a zero makes it 0.

    Fleming, Wallace, "How not to lie with statistics: the correct way to summarize benchmark
    results", Commun. ACM 29(3), 1986.

    Raises:
        ValueError: no values, or a negative one.

    >>> geometric_mean([0.5, 2.0])
    1.0
    """
    items = list(values)
    if not items or min(items) < 0:
        raise ValueError("the geometric mean needs values, none of them negative")
    if 0.0 in items:
        return 0.0
    return math.exp(math.fsum(math.log(value) for value in items) / len(items))


def nondominated(points: FloatArray) -> BoolArray:
    """[k] True for points of the Pareto front: no other point is at most as large everywhere and smaller somewhere.

    Args:
        points: [k, m] the values of m objectives, each to be small. Of equal points only the first is on the front.

    >>> nondominated(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 4.0], [1.0, 3.0]]))
    array([ True,  True, False, False])
    """
    kept = np.zeros(len(points), np.bool_)
    for k in np.lexsort((np.arange(len(points)), *points.T[::-1])):  # whatever dominates a point comes before it
        kept[k] = not (points[kept] <= points[k]).all(axis=1).any()
    return kept
