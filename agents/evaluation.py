"""Evaluation: makespans of a policy relative to those of baselines, on problems held out of training.

Every policy and every baseline gets the same problems under the same conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray
from hetgym.agents.actions import CANDIDATES
from hetgym.agents.recipe import Recipe
from hetgym.envs.core.autoreset import make_lanes
from hetgym.envs.dispatch.lanes import DispatchLanes
from hetgym.envs.improve.lanes import ImproveLanes
from hetgym.envs.place.lanes import PlaceLanes
from hetgym.errors import ConfigError, UnknownName, suggestion, unknown_name
from hetgym.planning import get, names
from hetgym.sim import simulate

Decide = Callable[[Any], npt.NDArray[np.int64]]  # `decide(observations [L, …]) -> actions [L]`

IN_PLACE = {
    "reference": "what the environment's return compares with",
    "optimal": "the best of all actions, where HetPipeline-v0 works it out",
    "uniform": "legal actions with equal probability",
    "greedy:<column>": "the legal action of the smallest candidate feature, such as greedy:completion",
}
"""Baselines that play in the environment itself; others are names of schedulers, if problems are scheduled."""


class Evaluator:
    """The held-out problems of a recipe, and the makespans of baselines on them.

    Raises:
        ConfigError: a baseline that does not exist under these conditions, or arguments that the environment does not
            have.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        wanted, arguments = recipe.evaluation, recipe.environment(evaluation=True)
        self.lanes = make_lanes(recipe.env, wanted.episodes, **arguments)
        self.observation_space = self.lanes.observation_space
        self.reference: FloatArray = np.zeros(0)
        self._optimal: FloatArray = np.zeros(0)
        self.baselines = {name: self._baseline(name) for name in wanted.baselines}

    def play(self, decide: Decide) -> FloatArray:
        """[E] makespans of one episode on each problem; actions for finished lanes are ignored."""
        lanes, seed = self.lanes, self.recipe.evaluation.seed
        for lane in range(lanes.count):
            lanes.prepare(lane, lanes.generator(seed + lane)[0], {}, seed + lane)
        lanes.open()
        while not lanes.over.all():
            lanes.step(np.asarray(decide(lanes.seen), np.int64), ~lanes.over)
        results = [lanes.result(lane) for lane in range(lanes.count)]
        self.reference = np.array([result["reference"] for result in results])
        self._optimal = np.array([result.get("optimal", np.nan) for result in results])
        return np.array([result["makespan"] for result in results])

    def judge(self, decide: Decide) -> dict[str, float]:
        """Play the held-out problems, and compare the makespans with those of the baselines.

        Returns ``return``, the mean, with its standard error ``return_error``, and ``ratio_<name>`` for each baseline:
        the mean over problems of the makespan divided by the baseline's.
        """
        return self.compare(self.play(decide))

    def problems(self) -> list[Any]:
        """The held-out problems."""
        self.play(lambda _: self.lanes.mask.argmax(axis=1))
        return [self.lanes.problem(lane) for lane in range(self.lanes.count)]

    def compare(self, makespans: FloatArray) -> dict[str, float]:
        """Compare makespans [E] with those of the baselines; see :meth:`judge`."""
        returns = 1.0 - makespans / self.reference
        found = {
            "return": float(returns.mean()),
            "return_error": float(returns.std(ddof=1) / np.sqrt(len(returns))) if len(returns) > 1 else 0.0,
        }
        for name, other in self.baselines.items():
            ratios = (makespans / other)[np.isfinite(other)]
            if len(ratios):
                found[f"ratio_{name}"] = float(ratios.mean())
        return found

    def _baseline(self, name: str) -> FloatArray:
        """[E] makespans of a baseline; NaN where it gives no schedule."""
        if name in ("reference", "optimal"):
            if not len(self.reference):
                self.play(lambda _: self.lanes.mask.argmax(axis=1))
            return self.reference if name == "reference" else self._optimal
        if name == "uniform":
            rng = np.random.default_rng(self.recipe.evaluation.seed)
            return self.play(lambda _: (rng.random(self.lanes.mask.shape) * self.lanes.mask).argmax(axis=1))
        if name.startswith("greedy:"):
            return self.play(self._greedy(name.removeprefix("greedy:")))
        return self._scheduled(name)

    def _greedy(self, feature: str) -> Decide:
        if self.lanes.level == "flat":
            raise ConfigError(f"baseline 'greedy:{feature}' reads observation='graph' or 'candidates', not 'flat'")
        columns = {column.label: column for column in CANDIDATES[self.lanes.kind]}
        if feature not in columns:
            raise ConfigError(f"baseline 'greedy:{feature}': no such candidate feature; {suggestion(feature, columns)}")
        column, lanes = columns[feature], self.lanes
        return lambda seen: np.where(lanes.mask > 0, seen["candidates"][..., column], np.inf).argmin(axis=1)

    def _scheduled(self, name: str) -> FloatArray:
        """[E] makespans of a registered scheduler that plans for the environment's runtime if it can, under that.

        Plans do not account for noise; run times are those of the episodes.
        """
        lanes = self.lanes
        calm = not isinstance(lanes, DispatchLanes) or replace(lanes.conditions, noise=0.0).calm
        if not isinstance(lanes, PlaceLanes | DispatchLanes | ImproveLanes) or not calm:
            raise ConfigError(
                f"baseline {name!r}: schedulers are compared in HetSchedule-v0, HetImprove-v0, and in HetDispatch-v0 "
                f"without arrivals and changes; here there are {', '.join(IN_PLACE)}"
            )
        try:
            scheduler, runtime = get(name), lanes.rules.simulated
        except UnknownName:
            raise unknown_name("baseline", name, [*IN_PLACE, *names()]) from None
        plans = [(p, scheduler(p, runtime)) for p in self.problems()]
        runs = [lanes.drawn(k).runtime if isinstance(lanes, DispatchLanes) else runtime for k in range(lanes.count)]
        return np.array([simulate(p, plan, run).makespan for (p, plan), run in zip(plans, runs, strict=True)])
