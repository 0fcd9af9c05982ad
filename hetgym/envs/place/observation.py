"""Observations of placing operators, as fixed-shape padded arrays.

Every column is a member of an enum below, from which the documentation's tables are made. Times are divided by the
reference makespan and clipped to ``[0, CLIP]``, so that values are comparable between a model of microseconds and a
workflow of hours.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hetgym._kernels.interpreted import interpreted
from hetgym._kernels.jit import lean
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array, IntArray
from hetgym.envs.core.features import Column, features_of
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.core.scaling import CLIP, scale_of, share
from hetgym.envs.core.spaces import blank, graph_space, number_box
from hetgym.envs.place.instance import ScheduleInstance
from hetgym.problem import ProblemArrays


class OperatorColumn(Column):
    """Columns of ``obs["operators"]``."""

    MEAN_COST = "reference", "mean run time over the devices"
    LEAST_COST = "reference", "run time on the fastest device"
    UPWARD_RANK = "reference", "mean longest path to an exit, HEFT's rank_u"
    DOWNWARD_RANK = "reference", "mean longest path from an entry"
    OUTPUT_TRANSFER = "reference", "mean time to send its largest output"
    IN_DEGREE = "1/8 edge", "incoming edges"
    OUT_DEGREE = "1/8 edge", "outgoing edges"
    TURN = "episode", "position in the order of decisions, 0 first to 1 last"
    IS_PLACED = "-", "1 if decided"
    IS_CURRENT = "-", "1 if to be decided now"
    START = "reference", "start, 0 while not placed"
    FINISH = "reference", "finish, 0 while not placed"


class DeviceColumn(Column):
    """Columns of ``obs["devices"]``."""

    BUSY = "reference", "summed run time of its operators"
    AVAILABLE = "reference", "finish of its last operator"
    SHARE = "-", "share of the placed operators that it runs"
    TOTAL_COST = "reference / d", "run time of the whole graph on it alone"


class CandidateColumn(Column):
    """Columns of ``obs["candidates"]``: a row for each device, if the current operator is placed there."""

    COST = "reference", "run time of the current operator"
    READY = "reference", "arrival of its last input"
    START = "reference", "start, idle gaps filled"
    FINISH = "reference", "earliest finish time, EFT"
    WAIT = "reference", "start minus ready: time that it waits for the device"
    COST_TO_GO = "reference", "optimistic cost from there to an exit, PEFT's table"
    BOUND = "reference", "lower bound on the makespan after the decision, proven in `classic`"
    COMPLETION = "reference", "makespan in `classic` if a heuristic placed the rest; the bound when switched off"
    REGRET = "reference", "completion minus the best device's completion"


OPERATOR_FEATURES = features_of(OperatorColumn)  # Columns of `obs["operators"]`
DEVICE_FEATURES = features_of(DeviceColumn)  # Columns of `obs["devices"]`
CANDIDATE_FEATURES = features_of(CandidateColumn)  # Columns of `obs["candidates"]`


def place_space(padding: GraphPadding) -> spaces.Dict:
    """The space of observations of the whole graph."""
    n, d = padding.operators, padding.devices
    more = {"assignment": number_box(-1, d - 1, n), "current": number_box(0, n - 1, 1)}
    return graph_space(padding, d, (OperatorColumn, DeviceColumn, CandidateColumn), **more)


def fixed(instance: ScheduleInstance, padding: GraphPadding, whole: bool = True) -> dict[str, npt.NDArray[Any]]:
    """The part of a problem's observations that stays the same from step to step, padding included.

    Args:
        instance: the problem, which must fit within the padding.
        whole: false to fill in only what the levels ``candidates`` and ``flat`` contain.

    Returns:
        Arrays by key of :func:`place_space`; those that are left out are zeros, and columns that change have
        their values at the start of an episode.
    """
    problem, scale = instance.problem, scale_of(instance.reference)
    devices = np.zeros((padding.devices, len(DeviceColumn)), np.float32)
    if not whole:
        _write_devices(problem.arrays, scale, devices)
        return {"devices": devices}
    seen = {key: np.zeros(shape, dtype) for key, shape, dtype in _known_shapes(padding)}
    seen["devices"] = devices
    mean_bytes = float(problem.edge_bytes.mean()) if problem.num_edges else 0.0
    ranks = instance.order, instance.upward, instance.downward, problem.mean_cost, problem.mean_communication
    _write_fixed(problem.arrays, *ranks, mean_bytes, scale, Fixed(*(seen[key] for key in Fixed._fields)))
    return seen


@record
class Fixed(NamedTuple):
    """The arrays that :func:`fixed` fills; see :func:`place_space`."""

    operators: npt.NDArray[np.float32]
    costs: npt.NDArray[np.float32]
    assignment: Int64Array
    edges: Int64Array
    edge_transfer: npt.NDArray[np.float32]
    devices: npt.NDArray[np.float32]
    links: npt.NDArray[np.float32]
    operator_mask: npt.NDArray[np.int8]
    edge_mask: npt.NDArray[np.int8]
    device_mask: npt.NDArray[np.int8]


@lean
def _write_devices(p: ProblemArrays, scale: float, devices: npt.NDArray[np.float32]) -> None:
    """Write each device's share of the run time of the whole graph."""
    n, d = p.cost.shape
    for a in range(d):
        total = 0.0
        for i in range(n):
            if p.cost[i, a] < np.inf:
                total += p.cost[i, a]
        devices[a, DeviceColumn.TOTAL_COST] = share(total / d, scale)


@interpreted
@lean
def _write_fixed(
    p: ProblemArrays,
    order: IntArray,
    upward: FloatArray,
    downward: FloatArray,
    mean_cost: FloatArray,
    transfer: FloatArray,
    mean_bytes: float,
    scale: float,
    seen: Fixed,
) -> None:
    """Fill blank observations; ``mean_cost`` [n] and ``transfer`` [e] are means over devices [s]."""
    n, d = p.cost.shape
    _write_devices(p, scale, seen.devices)
    for k in range(len(seen.assignment)):
        seen.assignment[k] = -1
    for edge in range(len(transfer)):
        source = p.edge_source[edge]
        seen.edges[0, edge], seen.edges[1, edge] = source, p.successor[edge]
        seen.edge_transfer[edge] = share(transfer[edge], scale)
        seen.edge_mask[edge] = 1
        row = seen.operators[source]
        row[OperatorColumn.OUTPUT_TRANSFER] = max(row[OperatorColumn.OUTPUT_TRANSFER], seen.edge_transfer[edge])
    for turn in range(n):
        i = order[turn]
        row = seen.operators[i]
        least = np.inf
        for a in range(d):
            least = min(least, p.cost[i, a])
            seen.costs[i, a] = share(p.cost[i, a], scale)
        row[OperatorColumn.MEAN_COST] = share(mean_cost[i], scale)
        row[OperatorColumn.LEAST_COST] = share(least, scale)
        row[OperatorColumn.UPWARD_RANK] = share(upward[i], scale)
        row[OperatorColumn.DOWNWARD_RANK] = share(downward[i], scale)
        row[OperatorColumn.IN_DEGREE] = min((p.predecessor_pointer[i + 1] - p.predecessor_pointer[i]) / 8, CLIP)
        row[OperatorColumn.OUT_DEGREE] = min((p.successor_pointer[i + 1] - p.successor_pointer[i]) / 8, CLIP)
        row[OperatorColumn.TURN] = turn / max(1, n - 1)
        seen.operator_mask[i] = 1
    for a in range(d):
        seen.device_mask[a] = 1
        for other in range(d):
            seen.links[a, other] = share(p.latency[a, other] + mean_bytes / p.bandwidth[a, other], scale)


@lru_cache(maxsize=16)
def _known_shapes(padding: GraphPadding) -> tuple[tuple[str, tuple[int, ...], Any], ...]:
    """Keys of :func:`place_space` with the shapes and dtypes of their arrays."""
    return tuple((key, array.shape, array.dtype) for key, array in blank(place_space(padding)).items())


def turns(count: int) -> npt.NDArray[np.float64]:
    """[count] positions in an order of decisions, from 0 for the first to 1 for the last."""
    return np.arange(count) / max(1, count - 1)
