"""Pretrained policies in the table of schedulers, where ``hetgym bench`` finds them."""

from __future__ import annotations

import numpy as np

from hetgym.agents.place.planner import decoded
from hetgym.agents.pretrained import load
from hetgym.planning.registry import register
from hetgym.planning.search import check_limits
from hetgym.problem import Problem
from hetgym.schedule import Schedule

_CITATION = "hetgym; self-labelling after Corsini et al., NeurIPS 2024; roll-outs after PEFT"


@register("place-v1", kind="policy", citation=_CITATION, complexity="O(n p (e p + h^2))")
def place_v1(problem: Problem, passes: int = 4) -> Schedule:
    """The pretrained place policy, greedy: the best of an episode in each of a few orders of decisions.

    Args:
        problem: what is to be scheduled.
        passes: number of orders.

    Raises:
        ConfigError: not one pass.
    """
    return load("place-v1").plan(problem, passes=passes)


@register("place-v1-search", kind="policy", citation=_CITATION, complexity="O(trials (e + n))")
def place_v1_search(problem: Problem, seed: int = 0, budget: int = 1_000_000, seconds: float | None = None) -> Schedule:
    """The pretrained place policy, and the large-neighbourhood search in which it puts operators back.

    Args:
        problem: what is to be scheduled.
        seed: of all draws.
        budget: most operators placed in trials.
        seconds: most wall-clock time [s]; by default none, and results do not depend on the machine.

    Raises:
        ConfigError: a negative budget, or no time.
    """
    check_limits("place-v1-search", budget, seconds)
    return load("place-v1").plan(problem, seconds, operators=budget, seed=seed)


@register("dispatch-v1", kind="policy", citation="hetgym; PPO: Schulman et al., 2017", complexity="O(n k d (e + n))")
def dispatch_v1(problem: Problem) -> Schedule:
    """The pretrained dispatch policy: its run without noise or changes, operators inserted in order of their starts.

    Args:
        problem: what is to be scheduled.
    """
    trace = load("dispatch-v1").play(problem=problem)["trace"]
    order = np.lexsort((problem.arrays.position, trace.finish, trace.start)).astype(np.int32)
    return decoded(problem, trace.assignment, order)
