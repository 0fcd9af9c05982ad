"""Teachers: the actions that a rule or a scheduler's plan approves of, in the states that a policy visits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hetgym._types import BoolArray
from hetgym.agents.actions import CANDIDATES
from hetgym.envs.core.lanes import Lanes
from hetgym.envs.improve.observation import MoveColumn
from hetgym.errors import ConfigError, unknown_name
from hetgym.planning import get
from hetgym.sim import Trace, simulate

RULE = "greedy:"
"""Prefix of rules: ``greedy:<column>`` approves of the actions of the smallest candidate feature."""

Plans = list[Trace]  # the plan of each lane, simulated
Seen = Mapping[str, Any]  # observations, [L, …] by key


class Teacher:
    """A teacher of all lanes.

    Args:
        name: ``greedy:<column>``, or the name of a scheduler, whose plan for the runtime of the episodes is followed.
        lanes: the lanes; for a scheduler with ``observation="graph"``.
        plays: number of lanes in a row that play the same problem.

    Raises:
        ConfigError: an environment without plans, or one that does not show the graph.
        UnknownName: no such scheduler or column.
    """

    def __init__(self, name: str, lanes: Lanes, plays: int) -> None:
        self.name, self.lanes, self.plays = name, lanes, plays
        self.plans: Plans = []
        if name.startswith(RULE):
            columns = {column.label: column for column in CANDIDATES[lanes.kind]}
            label = name.removeprefix(RULE)
            if label not in columns:
                raise unknown_name("candidate feature", label, columns)
            self._column = columns[label]
        else:
            get(name)
            if lanes.kind not in _FOLLOWS or lanes.level != "graph":
                raise ConfigError(
                    f"imitate={name!r}: plans are imitated in environments of {', '.join(_FOLLOWS)} with "
                    f"observation='graph'; elsewhere write {RULE}<column>"
                )

    def begin(self) -> None:
        """Plan the problems of the episodes that have begun."""
        if not self.name.startswith(RULE):
            runtime: Any = getattr(self.lanes, "rules").simulated  # noqa: B009
            problems = [self.lanes.problem(lane) for lane in range(0, self.lanes.count, self.plays)]
            runs = [simulate(problem, get(self.name)(problem, runtime), runtime) for problem in problems]
            self.plans = [run for run in runs for _ in range(self.plays)]

    def approved(self) -> BoolArray:
        """[L, A] actions that the teacher approves of now; none in a lane where it has no advice."""
        lanes, legal = self.lanes, self.lanes.mask > 0
        seen: Any = lanes.seen
        if self.name.startswith(RULE):
            value = np.where(legal, seen["candidates"][..., self._column], np.inf)
            best: BoolArray = legal & (value == value.min(axis=1, keepdims=True))
            return best
        found: BoolArray = legal & _FOLLOWS[lanes.kind](seen, self.plans)
        return found


def _place(seen: Seen, plans: Plans) -> BoolArray:
    """The device that the plan gives the current operator."""
    device = np.array([p.assignment[i] for p, i in zip(plans, seen["current"][:, 0], strict=True)])
    found: BoolArray = device[:, None] == np.arange(seen["action_mask"].shape[1])
    return found


def _dispatch(seen: Seen, plans: Plans) -> BoolArray:
    """The operators offered that come next on their devices in the plan; if there is none, waiting."""
    found = np.zeros(seen["action_mask"].shape, np.bool_)
    devices = seen["devices"].shape[1]
    for lane, plan in enumerate(plans):
        first = np.full(devices, np.inf)  # start of the next operator of each device
        left = seen["assignment"][lane, : len(plan.start)] < 0  # operators of later jobs are in no plan
        np.minimum.at(first, plan.assignment[left], plan.start[left])
        for k, i in enumerate(seen["candidate_operators"][lane].tolist()):
            if 0 <= i < len(left) and plan.start[i] <= first[plan.assignment[i]]:
                found[lane, k * devices + plan.assignment[i]] = True
        found[lane, -1] = not found[lane].any()
    return found


def _improve(seen: Seen, plans: Plans) -> BoolArray:
    """All moves of an operator to the device that it has in the plan."""
    there = np.stack([p.assignment[np.maximum(of, 0)] for p, of in zip(plans, seen["operator"], strict=True)])
    moved: BoolArray = seen["candidates"][..., MoveColumn.IS_REGION] > 0
    moved &= there == seen["device"]
    return moved


_FOLLOWS: dict[str, Callable[[Seen, Plans], BoolArray]] = {
    "place": _place,
    "dispatch": _dispatch,
    "improve": _improve,
}
"""Kind of decision -> function from observations and plans to the actions that lead to the plans."""
