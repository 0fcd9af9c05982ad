"""Observations of improving a plan: the tables of HetSchedule-v0 for a complete plan, and a row for each move."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from hetgym.envs.core.features import Column, features_of
from hetgym.envs.core.padding import GraphPadding
from hetgym.envs.core.spaces import feature_box, graph_space, number_box
from hetgym.envs.place.observation import DeviceColumn, OperatorColumn


class MoveColumn(Column):
    """Columns of ``obs["candidates"]``: a row for each move; times are of the operator with which it begins."""

    IS_REGION = "-", "1 if operators go to another device"
    IS_TURN = "-", "1 if an operator gets another place in the order of its device"
    SIZE = "1/8 operator", "operators that it moves"
    RUN_HERE = "reference", "run time where it is"
    RUN_THERE = "reference", "run time where it goes"
    SAVED = "reference", "run and transfer time saved if all others stayed, 0 if none"
    LOST = "reference", "run and transfer time added if all others stayed, 0 if none"
    FINISH = "reference", "arrival of its last input where it goes, plus run time"
    LOAD_HERE = "reference", "run time of all operators of its device"
    LOAD_THERE = "reference", "run time of all operators of the other device"
    SLACK = "reference", "time by which it may finish later without a longer plan, 0 if devices keep no order"
    EARLIER = "-", "places by which it goes to an earlier turn, as a share of all"
    LATER = "-", "places by which it goes to a later turn, as a share of all"
    MAKESPAN = "reference", "makespan after the move; the current one with `gains=False` or if it does nothing"


class PlanColumn(Column):
    """Numbers of ``obs["plan"]``."""

    CURRENT = "reference", "makespan of the plan"
    BEST = "reference", "makespan of the best plan so far"
    LEFT = "-", "share of the steps that are left"


MOVE_FEATURES = features_of(MoveColumn)  # Columns of `obs["candidates"]`
PLAN_FEATURES = features_of(PlanColumn)  # Numbers of `obs["plan"]`


def improve_space(padding: GraphPadding, actions: int) -> spaces.Dict:
    """The space of observations of the whole graph."""
    n, d = padding.operators, padding.devices
    more: dict[str, spaces.Space[np.ndarray]] = {
        "assignment": number_box(-1, d - 1, n),
        "operator": number_box(-1, n - 1, actions),
        "device": number_box(-1, d - 1, actions),
        "plan": feature_box(len(PlanColumn)),
    }
    return graph_space(padding, actions, (OperatorColumn, DeviceColumn, MoveColumn), **more)
