"""Objectives other than times: energy, rent and weighted sums, which lanes pay when an episode ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hetgym._types import BoolArray
from hetgym.envs.core.memory import Remembered
from hetgym.planning.registry import get
from hetgym.problem import Problem
from hetgym.sim import Objective, Runtime, Trace, simulate


class Weighed:
    """An objective of lanes; ``runtime`` is that of HEFT's plans, to which the value is relative."""

    def __init__(self, objective: Objective, runtime: Runtime, lanes: int, kept: int) -> None:
        self.objective, self.runtime = objective, runtime
        self.found: list[dict[str, Any]] = [{} for _ in range(lanes)]
        self._references: Remembered[Problem, Trace] = Remembered(kept)

    def pay(self, lanes: Any, active: BoolArray, run: Callable[[int], Trace]) -> None:
        """Pay nothing before the end of an episode, and then one minus the objective's value for its run."""
        lanes.reward[active] = 0.0
        for lane in np.flatnonzero(lanes.over & active).tolist():
            found = self.found[lane] = self._judged(lanes.problem(lane), run(lane))
            lanes.reward[lane] = 1.0 - found["objective"]

    def _judged(self, problem: Problem, trace: Trace) -> dict[str, Any]:
        """What the last info of an episode says of its run."""
        plan = get("heft")
        reference = self._references.get(problem, lambda: simulate(problem, plan(problem, self.runtime), self.runtime))
        value = self.objective.value(trace, reference)
        found = {"objective": value, "reward_terms": {"reference": 1.0, "objective": -value}}
        if problem.power_busy.any():
            found["energy"] = trace.energy.total
        if problem.price.any():
            found["cost"] = trace.cost
        return found
