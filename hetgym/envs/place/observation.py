"""Observations of placing operators, as fixed-shape padded arrays.

Every column is a member of an enum below, from which the documentation's tables are made. Times are divided by the
reference makespan and clipped to ``[0, CLIP]``, so that values are comparable between a model of microseconds and a
workflow of hours.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from hetgym.envs.core.features import Column, features_of
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.core.scaling import CLIP, scale_of, shares
from hetgym.envs.core.spaces import blank, feature_box
from hetgym.envs.place.instance import ScheduleInstance


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
    COMPLETION = "reference", "makespan if a heuristic placed the rest; the bound when switched off"
    REGRET = "reference", "completion minus the best device's completion"


OPERATOR_FEATURES = features_of(OperatorColumn)
"""Columns of ``obs["operators"]``."""

DEVICE_FEATURES = features_of(DeviceColumn)
"""Columns of ``obs["devices"]``."""

CANDIDATE_FEATURES = features_of(CandidateColumn)
"""Columns of ``obs["candidates"]``."""

NARROW = ("candidates", "devices", "action_mask")
"""Keys that the levels ``candidates`` and ``flat`` contain; ``flat`` concatenates them in this order, row by row."""


def place_space(padding: GraphPadding) -> spaces.Dict:
    """The space of observations of the whole graph."""
    n, e, d = padding.operators, max(1, padding.edges), padding.devices
    return spaces.Dict(
        {
            "operators": feature_box(n, len(OperatorColumn)),
            "costs": feature_box(n, d),
            "assignment": spaces.Box(-1, d - 1, (n,), np.int64),
            "edges": spaces.Box(0, n - 1, (2, e), np.int64),
            "edge_transfer": feature_box(e),
            "devices": feature_box(d, len(DeviceColumn)),
            "links": feature_box(d, d),
            "candidates": feature_box(d, len(CandidateColumn)),
            "current": spaces.Box(0, n - 1, (1,), np.int64),
            "operator_mask": spaces.MultiBinary(n),
            "edge_mask": spaces.MultiBinary(e),
            "device_mask": spaces.MultiBinary(d),
            "action_mask": spaces.MultiBinary(d),
        }
    )


def fixed(instance: ScheduleInstance, padding: GraphPadding, whole: bool = True) -> dict[str, npt.NDArray[Any]]:
    """The part of a problem's observations that stays the same from step to step, padding included.

    Args:
        instance: the problem, which must fit within the padding.
        padding: sizes of the observations.
        whole: false to fill in only what the levels ``candidates`` and ``flat`` contain.

    Returns:
        Arrays by key of :func:`place_space`, of which those that are left out are zeros; columns that change have
        their values at the start of an episode.
    """
    problem, scale = instance.problem, scale_of(instance.reference)
    n, e, d = problem.num_operators, problem.num_edges, problem.num_devices
    devices = np.zeros((padding.devices, len(DeviceColumn)), np.float32)
    finite = np.where(np.isfinite(problem.cost), problem.cost, 0.0).sum(axis=0)
    devices[:d, DeviceColumn.TOTAL_COST] = shares(finite / d, scale)
    if not whole:
        return {"devices": devices}
    seen = blank(_known_space(padding))
    seen["devices"] = devices
    transfer = shares(problem.mean_communication, scale)
    largest = np.zeros(n, np.float32)
    np.maximum.at(largest, problem.edge_source, transfer)
    table = seen["operators"]
    table[:n, OperatorColumn.MEAN_COST] = shares(problem.mean_cost, scale)
    table[:n, OperatorColumn.LEAST_COST] = shares(problem.cost.min(axis=1), scale)
    table[:n, OperatorColumn.UPWARD_RANK] = shares(instance.upward, scale)
    table[:n, OperatorColumn.DOWNWARD_RANK] = shares(instance.downward, scale)
    table[:n, OperatorColumn.OUTPUT_TRANSFER] = largest
    table[:n, OperatorColumn.IN_DEGREE] = np.minimum(np.diff(problem.predecessors.pointer) / 8, CLIP)
    table[:n, OperatorColumn.OUT_DEGREE] = np.minimum(np.diff(problem.successors.pointer) / 8, CLIP)
    table[instance.order, OperatorColumn.TURN] = turns(n)
    seen["costs"][:n, :d] = shares(problem.cost, scale)
    seen["assignment"][:] = -1
    seen["edges"][:, :e] = problem.edge_source, problem.edge_target
    seen["edge_transfer"][:e] = transfer
    mean_bytes = float(problem.edge_bytes.mean()) if e else 0.0
    seen["links"][:d, :d] = shares(problem.latency + mean_bytes / problem.bandwidth, scale)
    for key, size in (("operator_mask", n), ("edge_mask", e), ("device_mask", d)):
        seen[key][:size] = 1
    return seen


@lru_cache(maxsize=16)
def _known_space(padding: GraphPadding) -> spaces.Dict:
    """As :func:`place_space`, made once; it must not be changed."""
    return place_space(padding)


def turns(count: int) -> npt.NDArray[np.float64]:
    """[count] positions in an order of decisions, from 0 for the first to 1 for the last."""
    return np.arange(count) / max(1, count - 1)
