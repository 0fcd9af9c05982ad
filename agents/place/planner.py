"""Planner: the place policy as a scheduler, alone or with the search that it guides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hetgym._input.config import read
from hetgym._input.random import generator
from hetgym._types import IntArray
from hetgym.agents.artefact import PolicyFiles, Weights
from hetgym.agents.inference import head_weights
from hetgym.agents.place import episodes, inference
from hetgym.agents.place.refinement import Refinement, Refining, settled_order
from hetgym.agents.place.tokens import EDGE_FEATURES, TOKEN_FEATURES, View, view
from hetgym.agents.planner import SchedulePlanner, limits
from hetgym.errors import ArtefactError, ConfigError
from hetgym.planning import ranks
from hetgym.planning.decode import decode_in_order, start_order
from hetgym.planning.registry import get
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.search.search import Search, clock, run
from hetgym.workloads import as_problem

PASSES = 4  # Number of orders in which the policy decides when there is no search
PERTURBATION = 0.1  # Standard deviation of the logarithm of the noise in the priorities of further passes

LONGEST, LARGEST = 10.0, 50_000
"""Estimated time of a pass [s], and operators, up to which the policy decides where no time is given. Larger problems
get the best schedule of HEFT and PEFT, and the search."""

SHARE = 0.2  # Share of a time budget that greedy passes may take; the search gets the rest


class PlacePlanner(SchedulePlanner):
    """Plans by a trained place policy.

    Called with a problem it is a scheduler: the policy plays one episode in each of a few orders of decisions and keeps
    the best. :meth:`plan` takes a time budget, within which a search guided by the policy improves the schedule.

    Args:
        weights: weights of a :class:`~hetgym.agents.networks.place.PlaceNetwork`, by name.
        card: their origin, as JSON values.
        how: settings of the search; by default those of the card, under ``search``.

    Raises:
        ArtefactError: the weights are not those of such a network.
        ConfigError: the card's settings of the search are invalid.
    """

    def __init__(self, weights: Weights, card: Mapping[str, Any] | None = None, how: Refining | None = None) -> None:
        self.card = dict(card or {})
        self.how = how or read(Refining, self.card.get("search", {}), "the card", "search")
        try:
            self.encoder, self.head = inference.encoder_weights(weights), head_weights(weights)
            hidden = self.encoder.norm.shape[1]
            fits = (
                self.encoder.embed0.shape[0] == len(TOKEN_FEATURES)
                and self.encoder.edge.shape[2] == len(EDGE_FEATURES)
                and len(self.head.rule) == episodes.COUNT + hidden
            )
        except (IndexError, KeyError, ValueError) as error:
            raise ArtefactError(f"not the weights of a place policy ({error})") from error
        if not fits:
            raise ArtefactError("the weights belong to a place policy with other features")
        if not all(np.isfinite(weight).all() for weight in (*self.encoder, *self.head)):
            raise ArtefactError("the weights of the place policy are not finite")

    def __call__(self, problem: Problem) -> Schedule:
        """The best schedule of a few greedy episodes."""
        return self.plan(problem)

    def plan(
        self,
        problem: Problem,
        budget: str | float | None = None,
        *,
        passes: int = PASSES,
        operators: int | None = None,
        seed: int = 0,
    ) -> Schedule:
        """Plan within a budget.

        Args:
            budget: wall-clock time, in seconds or as in ``"50ms"``; with it, results depend on the machine. By
                default there is no search, only greedy episodes, and none of these for problems beyond
                :data:`LONGEST` or :data:`LARGEST`.
            passes: number of greedy episodes, each in an order of its own; with little time there are fewer. If one
                would take more than :data:`SHARE` of the time, the search begins with the best schedule of HEFT, PEFT
                and, if there is time for it, the Pilot method.
            operators: largest number of operators that the search places in trials, instead of a time: the result is
                the same on every machine.
            seed: seed of the search's draws, and of orders from the fifth on.

        Returns:
            The best schedule found, never worse than the one that the search begins with.

        Raises:
            ConfigError: not a problem, or an invalid budget.
        """
        problem = as_problem(problem)
        seconds, began = limits(budget, operators)
        if passes < 1:
            raise ConfigError(f"passes is {passes}; there must be at least one")
        large = seconds is None and problem.num_operators > LARGEST
        if large or pass_seconds(problem) > (LONGEST if seconds is None else SHARE * seconds):
            return self._hurry(problem, seconds, operators, seed, began)
        seen = view(problem)
        hidden = inference.encode(problem, seen.tokens, seen.edge_features, self.encoder)
        stage = episodes.set_up(problem, seen, hidden, self.head)
        begin = clock()
        deadline = np.inf if seconds is None else began + SHARE * seconds - 0.5 * (begin - began)
        makespan, choice, order = self._decide(problem, seen, stage, passes, deadline, seed)
        if seconds is None and not operators:
            return decode_in_order(problem, choice, order)
        search: Search = Refinement(problem, stage, self.head, choice, order, self.how, seed)
        return _searched(search, operators, seconds, began)

    def _hurry(
        self, problem: Problem, seconds: float | None, operators: int | None, seed: int, began: float
    ) -> Schedule:
        """Plan when a pass of the policy would take too long: search from the best schedule of quick heuristics."""
        slow = pilot_seconds(problem) > max(0.5 * (seconds or 0.0), 1e-3)
        names = ("heft", "peft") if slow else ("heft", "peft", "pilot")
        first = min((get(name)(problem) for name in names), key=lambda schedule: schedule.makespan)
        if seconds is None and not operators:
            return first
        order = start_order(problem, first, "order")
        how = replace(self.how, policy=0.0, relocate=0.0, heat=0.5 * self.how.heat)  # large moves need time to pay
        stage = episodes.without_policy(problem, self.head)
        search: Search = Refinement(problem, stage, self.head, first.assignment, order, how, seed)
        return _searched(search, operators, seconds, began)

    def _decide(
        self, problem: Problem, seen: View, stage: episodes.Stage, passes: int, deadline: float, seed: int
    ) -> tuple[float, IntArray, IntArray]:
        """The best of greedy episodes in several orders: its makespan [s], devices [n] and order [n].

        The first order follows upward ranks; the next two the bottom levels of the previous placement; the fourth
        optimistic costs; the others alternate between upward ranks and optimistic costs with noise.
        """
        desk = episodes.new_desk(problem, self.head)
        best = (*episodes.greedy(problem, stage, self.head, desk), stage.order)
        latest = best[1]
        rng = generator(seed)
        for number in range(1, passes):
            if clock() > deadline:
                break
            if number < 3:
                order = settled_order(problem, latest)
            else:
                order = _perturbed_order(problem, seen, rng, 0.0 if number == 3 else PERTURBATION, number % 2 == 1)
            makespan, latest = episodes.greedy(problem, stage._replace(order=order), self.head, desk)
            if makespan < best[0]:
                best = makespan, latest, order
        return best


FILES = PolicyFiles("hetgym-place-policy", PlacePlanner)  # The files of these policies


def _searched(search: Search, operators: int | None, seconds: float | None, began: float) -> Schedule:
    """The best schedule that a search finds within its budget."""
    run(search, operators if operators is not None else 2**62, seconds, began=began)
    return search.schedule()


def pass_seconds(problem: Problem) -> float:
    """Estimated time of a greedy pass, including the encoder [s].

    Roll-outs take most of it: four short ones and a long one for each operator and device.
    """
    n, d = problem.num_operators, problem.num_devices
    rolled = 4 * episodes.HORIZON + min(episodes.FAR, n // 2)
    return n * d * (rolled * d * 45e-9 + 4e-6)


def pilot_seconds(problem: Problem) -> float:
    """Estimated time of the Pilot method, which rolls list scheduling out for each operator and device [s]."""
    n, d = problem.num_operators, problem.num_devices
    return 0.5 * n * n * d * d * 50e-9


def _perturbed_order(
    problem: Problem, seen: View, rng: np.random.Generator, noise: float, optimistic: bool
) -> IntArray:
    """[n] operators by descending priority times log-normal noise.

    Args:
        noise: standard deviation of its logarithm.
        optimistic: true for the priority "mean run time plus the largest optimistic cost to an exit over the
            devices", false for the upward rank.
    """
    priority = seen.tail.max(axis=1) + problem.mean_cost if optimistic else np.array(ranks.upward_rank(problem))
    return ranks.list_order(problem.arrays, priority * np.exp(noise * rng.standard_normal(len(priority))))
