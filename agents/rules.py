"""Rules made by hand: policies that weigh features of candidates, and that nothing has trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, overload

import numpy as np

from hetgym.agents.actions import COLUMNS
from hetgym.agents.artefact import Weights
from hetgym.agents.candidates import CLASSES, HEAD, SchedulePolicy, SplitPolicy
from hetgym.envs.core.kinds import IDS
from hetgym.errors import unknown_name


@dataclass(frozen=True)
class Rule:
    """A rule that takes the action with the least weighted sum of its features, the smaller number on ties."""

    kind: str  # kind of decision
    weights: Mapping[str, float]  # by name of the candidate feature
    arguments: Mapping[str, Any]  # of the environment; they give the features their meaning
    summary: str  # description in one line


RULES: dict[str, Rule] = {
    "dispatch": Rule(
        "dispatch", {"completion": 200.0, "flow": 60.0}, {}, "The action with the least completion + 0.3 flow."
    ),
    "planned-dispatch": Rule(
        "dispatch",
        {"completion": 200.0, "flow": 60.0, "is_wait": -0.001},
        {"tries": 300},
        "The same with roll-outs that follow a plan, improved before each decision; of equal actions it waits.",
    ),
    "split": Rule(
        "split",
        {"completion": 200.0},
        {"completion": True},
        "The entry of the menu that gives the shortest run if every later operator is split by one entry, too.",
    ),
}
"""Name -> rule."""

FORMER = {"dispatch-v1": "dispatch", "dispatch-v2": "planned-dispatch", "split-v1": "split"}  # Former name -> rule


@overload
def rule(name: Literal["dispatch", "planned-dispatch"]) -> SchedulePolicy: ...
@overload
def rule(name: Literal["split"]) -> SplitPolicy: ...
@overload
def rule(name: str) -> SchedulePolicy | SplitPolicy: ...
def rule(name: str) -> Any:
    """A rule as a policy, which can plan and act as trained ones do.

    Args:
        name: one of :data:`RULES`.

    Raises:
        UnknownName: no such rule.

    >>> import hetgym
    >>> problem = hetgym.workloads.textbook("topcuoglu")
    >>> hetgym.simulate(problem, hetgym.agents.rule("planned-dispatch").plan(problem)).makespan
    84.0
    """
    if name not in RULES:
        raise unknown_name("rule", name, RULES)
    return _policy(name)


@cache
def _policy(name: str) -> Any:
    chosen = RULES[name]
    network = {"view": chosen.kind, "level": "candidates"}
    card = {"name": name, "env": IDS[chosen.kind], "network": network, "arguments": dict(chosen.arguments)}
    return CLASSES[chosen.kind](linear_head(chosen), card)


def linear_head(chosen: Rule) -> Weights:
    """Weights of a candidate head without hidden units, which scores actions by a rule."""
    columns = COLUMNS[chosen.kind]
    cost = np.zeros(2 * len(columns), np.float32)
    for feature, weight in chosen.weights.items():
        cost[columns.index(feature)] = weight
    shapes = {"own.weight": (0, len(cost)), "own.bias": (0,), "all.weight": (0, len(cost))}
    shapes |= {"mix.weight": (0, 0), "mix.bias": (0,), "score.weight": (1, 0)}
    return {HEAD + key: np.zeros(shape, np.float32) for key, shape in shapes.items()} | {f"{HEAD}rule": cost}
