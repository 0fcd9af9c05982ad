"""ListPlanner: plans by one look of a network at the problem, and a list scheduler that decodes what it says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hetgym._input.random import generator
from hetgym._types import FloatArray
from hetgym.agents.artefact import PolicyFiles, Weights
from hetgym.agents.lists import decoder, inference
from hetgym.agents.lists.tokens import EDGE_FEATURES, TOKEN_FEATURES, view
from hetgym.agents.planner import SchedulePlanner
from hetgym.envs.core.arguments import whole_number
from hetgym.planning.capacity import fitted
from hetgym.planning.ranks import assigned_bottom_level, list_order
from hetgym.planning.timeline import as_run, new_timeline, rows_of
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime
from hetgym.sim.run import new_workspace, run, setting
from hetgym.workloads import as_problem

ORDERS = 4
"""Most plans with the most probable devices, each in an order of its own, if there are to be several."""

HEAT = 1.2  # what draws add to logarithms of temperatures, to differ more than in training


class ListPlanner(SchedulePlanner):
    """Plans by a trained list policy: a network looks at the problem once, and a list scheduler decodes what it says.

    There are no roll-outs and no search, so that a plan takes milliseconds, a further one a fraction of one.

    Args:
        weights: weights of a :class:`~hetgym.agents.networks.lists.ListNetwork`, by name.
        card: their origin, as JSON values.

    Raises:
        ArtefactError: the weights are not those of such a network.
    """

    def __init__(self, weights: Weights, card: Mapping[str, Any] | None = None) -> None:
        self.card = dict(card or {})
        self.weights = inference.checked(weights, len(TOKEN_FEATURES), len(EDGE_FEATURES), decoder.COUNT + 2)

    def __call__(self, problem: Problem, runtime: str | Runtime = "classic") -> Schedule:
        """The plan of the most probable decisions."""
        return self.plan(problem, runtime=runtime)

    def plan(
        self,
        problem: Problem,
        *,
        runtime: str | Runtime = "classic",
        samples: int = 1,
        orders: int | None = None,
        seed: int = 0,
    ) -> Schedule:
        """The best of some plans after one look at the problem.

        Args:
            samples: number of plans: first the most probable ones in some orders, then ones that are drawn, each of
                them also in the order of the bottom levels of its devices.
            orders: number of orders. The first is that of the policy's priorities, each further one that of the bottom
                levels of the plan before it. By default a quarter of the samples, from 1 to :data:`ORDERS`.
            seed: seed of the draws.

        Raises:
            ConfigError: not a problem, or a number of plans that is not positive.
            OutOfMemory: the runtime enforces capacities, and no plan that fits was found.
        """
        problem, how = as_problem(problem), as_runtime(runtime)
        samples = whole_number("samples", samples, 1, 1_000_000)
        orders = min(ORDERS, max(1, samples // 4)) if orders is None else whole_number("orders", orders, 1, samples)
        seen = view(problem, how)
        outputs = inference.outputs(problem, seen, self.weights)
        uniform = generator(seed).random((samples - orders, problem.num_operators, 2))

        def place(room: FloatArray) -> Schedule:
            desk = decoder.new_desk(problem, new_timeline(problem, how, room), seen.scale)
            return self._best(problem, how, plans_of(problem, desk, outputs, orders, uniform))

        return fitted(problem, how, place)

    def _best(self, problem: Problem, runtime: Runtime, plans: decoder.Plans) -> Schedule:
        """The shortest of some plans, with its times."""
        best = int(np.argmin(priced(problem, runtime, plans))) if len(plans.turns) > 1 else 0
        rows, name = rows_of(plans.order[best], plans.pointer[best]), self.card.get("name", "list policy")
        return as_run(problem, Schedule.timed(plans.devices[best], rows, None, None, name), runtime)


def plans_of(
    problem: Problem, desk: decoder.Desk, outputs: FloatArray, orders: int, uniform: FloatArray
) -> decoder.Plans:
    """The most probable plans in some orders, then those drawn with uniform numbers [K, n, 2], in two orders each."""
    found, priority = [], outputs[:, 0]
    for _ in range(orders):
        found.append(decoder.decode(problem, desk, outputs, list_order(problem.arrays, priority)[None]))
        priority = assigned_bottom_level(problem.arrays, found[-1].devices[0])
    if len(uniform):
        hot = outputs.copy()
        hot[:, -1] += HEAT
        drawn = decoder.sample(problem, desk, hot, uniform)
        found += [drawn, decoder.reordered(problem, desk, outputs, drawn)]
    return decoder.joined(found)


def priced(problem: Problem, runtime: Runtime, plans: decoder.Plans) -> FloatArray:
    """[K] simulated makespans of plans [s]."""
    how = setting(problem, runtime)
    priority = np.zeros(plans.order.shape)
    if how.switches.work_conserving:
        np.put_along_axis(priority, plans.order, -np.arange(float(problem.num_operators))[None], axis=1)
    room = new_workspace(problem.arrays, how)
    return run(problem.arrays, room, plans.devices, plans.order, plans.pointer, priority, how)[0]


FILES = PolicyFiles("hetgym-list-policy", ListPlanner)  # The files of these policies
