"""Observations of HetDispatch-v0; operators, edges and links are those of :mod:`hetgym.envs.place.observation`."""

from __future__ import annotations

from gymnasium import spaces

from hetgym.envs.core.features import Column, features_of
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.core.spaces import feature_box, graph_space, number_box
from hetgym.envs.place.observation import CandidateColumn, DeviceColumn, OperatorColumn


class DispatchDeviceColumn(Column):
    """Columns of ``obs["devices"]`` in HetDispatch-v0."""

    BUSY = "reference", "summed run time of the operators committed to it"
    BACKLOG = "reference", "time from now until all of these would be done"
    SHARE = "-", "share of the committed operators that it runs"
    TOTAL_COST = DeviceColumn.TOTAL_COST.unit, DeviceColumn.TOTAL_COST.meaning
    QUEUED = "1/8 operator", "operators committed to it that have not started"
    RUNNING = "1/8 operator", "operators that run on it"
    IS_ALIVE = "-", "1 unless it is lost"
    SLOWDOWN = "factor", "by which it takes longer than the costs say"


class DispatchCandidateColumn(Column):
    """Columns of ``obs["candidates"]`` in HetDispatch-v0: a row for each action."""

    COST = "reference", "run time of the operator there, slow-down included"
    READY = "reference", "arrival of its last input, from now"
    START = "reference", "start behind what is queued there, from now"
    FINISH = "reference", "finish, from now"
    WAIT = CandidateColumn.WAIT.unit, CandidateColumn.WAIT.meaning
    COST_TO_GO = CandidateColumn.COST_TO_GO.unit, CandidateColumn.COST_TO_GO.meaning
    BOUND = CandidateColumn.BOUND.unit, CandidateColumn.BOUND.meaning
    COMPLETION = "reference", "objective if list scheduling or the plan took over; the bound when switched off"
    REGRET = "reference", "completion minus the least completion of a legal action"
    UPWARD_RANK = "reference", "mean longest path to an exit, HEFT's rank_u"
    IS_WAIT = "-", "1 for the last row, which is to wait"
    NEXT_EVENT = "reference", "time until the next event, in that row"
    FLOW = "reference", "mean finish plus optimistic cost to an exit of all operators left, in that completion"


DISPATCH_DEVICE_FEATURES = features_of(DispatchDeviceColumn)  # Columns of `obs["devices"]` in HetDispatch-v0
DISPATCH_CANDIDATE_FEATURES = features_of(DispatchCandidateColumn)  # Columns of `obs["candidates"]` in HetDispatch-v0


def dispatch_space(padding: GraphPadding, candidates: int) -> spaces.Dict:
    """The space of observations of the whole graph, with ``candidates`` operators offered at a time."""
    n, d, actions = padding.operators, padding.devices, candidates * padding.devices + 1
    more = {"assignment": number_box(-1, d - 1, n), "candidate_operators": number_box(-1, n - 1, candidates)}
    more["now"] = feature_box(1)
    return graph_space(padding, actions, (OperatorColumn, DispatchDeviceColumn, DispatchCandidateColumn), **more)
