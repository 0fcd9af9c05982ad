r"""List gradient: REINFORCE through the list scheduler that decodes a network's outputs, with a decaying imitation.

Top to bottom:

1. Draw a fixed set of problems. Each update takes some of them, all with equally many devices.
2. The network looks at them in one pass. For each, the decoder draws schedules, which the simulator prices, and returns
   the gradients of their log-probabilities by the outputs.
3. The gradient of the loss by the outputs is :math:`-\frac1K \sum_k A_k \nabla \log \pi(s_k)` (Williams, Machine
   Learning 8, 1992). The advantage :math:`A_k` of a schedule is its lead over a quantile of the :math:`K` schedules, 0
   for longer ones, standardised, so that the best of some plans become better (risk-seeking policy gradients:
   Petersen et al., "Deep symbolic regression", ICLR 2021). At the end it is that over their mean, for the greedy plan.
   To that comes
   :math:`-\frac{\lambda}{n} \nabla \log \pi(s^*)` for the plan :math:`s^*` of a search, with a weight
   :math:`\lambda` that falls to 0. PyTorch takes it from there through the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from hetgym._types import FloatArray, IntArray
from hetgym.agents.evaluation import Evaluator
from hetgym.agents.lists import decoder
from hetgym.agents.lists import planner as lists
from hetgym.agents.lists.planner import ListPlanner, priced
from hetgym.agents.lists.tokens import EDGE_FEATURES, TOKEN_FEATURES, View, view
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.lists import ListNetwork
from hetgym.agents.pretrained import load
from hetgym.agents.run import TrainingRun
from hetgym.agents.sizes import Sizes
from hetgym.agents.training.curriculum import draw
from hetgym.agents.training.settings import ListGradientSettings
from hetgym.agents.training.trainer import Learner, Trained, improve
from hetgym.planning.ranks import assigned_bottom_level, list_order
from hetgym.planning.timeline import new_timeline
from hetgym.problem import Problem
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime

FINISH = 0.8  # share of the updates after which all schedules are compared with their mean
STEADY = 0.003  # added to deviations of makespans, relative to their mean, before leads are divided by them


@dataclass
class Lesson:
    """A problem of the curriculum with the plan to imitate, or several problems side by side."""

    problem: Problem  # the problem, or all of them together
    runtime: Runtime  # the runtime for which it is planned
    jobs: Sequence[Problem] = ()  # each by itself; by default the problem is the only one
    views: Sequence[View] = ()  # the policy's view of each job, after the first visit
    turns: IntArray | None = None  # [n] operators of the plan to imitate in their order; None before it is needed
    devices: IntArray | None = None  # [n] their devices

    def __post_init__(self) -> None:
        self.jobs = self.jobs or [self.problem]


class ListGradient(Learner):
    """A training in progress; for arguments see :class:`~hetgym.agents.training.trainer.Learner`."""

    settings: ListGradientSettings
    network: ListNetwork
    whole: ClassVar[int] = decoder.COUNT + 2  # outputs for an operator, bonuses aside

    def __init__(self, settings: ListGradientSettings, updates: int, sizes: Sizes, seed: int = 0) -> None:
        super().__init__(settings, updates, sizes, seed)
        runtimes = [as_runtime(name) for name in settings.runtimes]
        self.lessons = [
            Lesson(problem, runtimes[k % len(runtimes)]) for k, problem in enumerate(draw(settings.curriculum, seed))
        ]
        by_devices: dict[int, list[int]] = {}
        for k, lesson in enumerate(self.lessons):
            by_devices.setdefault(lesson.problem.num_devices, []).append(k)
        self.groups = [np.array(by_devices[d]) for d in sorted(by_devices)]

    def new_network(self, sizes: Sizes) -> ListNetwork:
        """The untrained network."""
        hidden = 0 if self.settings.linear else sizes.embedding
        return ListNetwork(len(TOKEN_FEATURES), len(EDGE_FEATURES), hidden, sizes.layers, self.whole)

    @property
    def imitation(self) -> float:
        """The present weight of the plan to imitate."""
        weight, until = self.settings.imitation, self.settings.until
        return weight * max(0.0, 1.0 - self.update / max(1.0, until * self.updates))

    def advance(self) -> dict[str, float]:
        """Make one update.

        Returns ``gradient``, its norm; and ``best``, the least makespan of the schedules of a problem over their mean.
        """
        settings, rng = self.settings, np.random.default_rng([self.seed, 1, self.update])
        lessons = self.arranged([self.lessons[k] for k in self._chosen(rng)], rng)
        for lesson in lessons:
            lesson.views = lesson.views or [view(job, lesson.runtime) for job in lesson.jobs]
            if self.imitation > 0 and lesson.turns is None:
                self._label(lesson)
        outputs = look(self.network, lessons)
        parts = outputs.detach().double().split([lesson.problem.num_operators for lesson in lessons])
        played = [self.gradient(lesson, part.numpy(), rng) for lesson, part in zip(lessons, parts, strict=True)]
        slope = np.concatenate([found for found, _ in played]) / sum(len(lesson.jobs) for lesson in lessons)
        self.optimizer.zero_grad()
        outputs.backward(torch.from_numpy(slope).float())
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), settings.clip)
        pace = min(1.0, (self.update + 1) / settings.warm_up) * 0.5 * (1.0 + np.cos(np.pi * self.update / self.updates))
        for group in self.optimizer.param_groups:
            group["lr"] = settings.learning_rate * max(pace, 0.01)
        self.optimizer.step()
        self.update += 1
        return {"gradient": float(norm), "best": float(np.mean([best for _, best in played]))}

    @property
    def leaders(self) -> float:
        """Share of the schedules that become more probable at present."""
        return self.settings.leaders if self.update < FINISH * self.updates else 1.0

    def _chosen(self, rng: np.random.Generator) -> IntArray:
        """Numbers of the problems of an update, all with equally many devices."""
        shares = np.array([len(group) for group in self.groups], float)
        group = self.groups[int(rng.choice(len(shares), p=shares / shares.sum()))]
        found: IntArray = rng.choice(group, min(self.settings.problems, len(group)), replace=False)
        return found

    def arranged(self, lessons: list[Lesson], rng: np.random.Generator) -> list[Lesson]:
        """The lessons of an update, from those of the problems that it has drawn."""
        return lessons

    def gradient(self, lesson: Lesson, outputs: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """[n, width] gradient of the loss by the outputs on a problem, and the best makespan over the mean."""
        problem, n = lesson.problem, lesson.problem.num_operators
        desk = decoder.new_desk(problem, new_timeline(problem, lesson.runtime), lesson.views[0].scale)
        uniform = rng.random((self.settings.samples, n, 2))
        plans, slopes = decoder.sample_with_gradients(problem, desk, outputs, uniform)
        makespans = priced(problem, lesson.runtime, plans)
        found = mean_gradient(makespans, slopes, self.leaders)
        if self.imitation > 0:
            assert lesson.turns is not None and lesson.devices is not None
            found -= self.imitation / n * decoder.gradient_of(problem, desk, outputs, lesson.turns, lesson.devices)
        return found, float(makespans.min() / makespans.mean())

    def _label(self, lesson: Lesson) -> None:
        """Search for a plan to imitate; its operators take their turns by the bottom levels of its devices."""
        plan = load("place-v2").plan(lesson.problem, runtime=lesson.runtime, operators=self.settings.effort)
        lesson.devices = np.array(plan.assignment, np.int32)
        lesson.turns = list_order(lesson.problem.arrays, assigned_bottom_level(lesson.problem.arrays, lesson.devices))


def look(network: ListNetwork, lessons: list[Lesson]) -> Tensor:
    """[N, width] outputs for the operators of some problems, one problem after the other."""
    tokens, edges, features, graph, base, first = [], [], [], [], [], 0
    jobs = [pair for lesson in lessons for pair in zip(lesson.jobs, lesson.views, strict=True)]
    for number, (job, seen) in enumerate(jobs):
        tokens.append(seen.tokens)
        edges.append(np.stack([job.edge_source, job.edge_target]).astype(np.int64) + first)
        features.append(seen.edge_features)
        graph.append(np.full(job.num_operators, number))
        base.append(np.concatenate([seen.priority[:, None], seen.bonus], 1))
        first += job.num_operators
    pairs, between, begin = (torch.from_numpy(np.concatenate(part)).float() for part in (tokens, features, base))
    ends, which = torch.from_numpy(np.concatenate(edges, 1)), torch.from_numpy(np.concatenate(graph))
    found: Tensor = network(pairs, ends, between, which, begin)
    return found


def mean_gradient(makespans: FloatArray, slopes: FloatArray, leaders: float) -> FloatArray:
    """[n, width] gradient of the loss by the outputs, from the makespans of K schedules and [K, n, width] slopes."""
    found: FloatArray = -np.tensordot(advantages(makespans, leaders), slopes, 1) / len(makespans)
    return found


def advantages(makespans: FloatArray, leaders: float) -> FloatArray:
    """[K] leads of schedules over their quantile ``leaders``, 0 for longer ones, standardised; see the module."""
    relative = makespans / makespans.mean()
    bar = np.sort(relative)[min(int(leaders * len(relative)), len(relative) - 1)]
    lead = np.maximum(0.0, bar - relative) / (relative.std() + STEADY)
    found: FloatArray = (lead - lead.mean()) / (lead.std() + STEADY)
    return found


class TrainedLists(Trained):
    """A trained list policy; for arguments see :class:`~hetgym.agents.training.trainer.Trained`."""

    files = lists.FILES

    def makespans(self, planner: ListPlanner, evaluator: Evaluator) -> list[float]:
        """Makespans [s] of the policy's plans for the held-out problems, each of one greedy pass."""
        lanes: Any = evaluator.lanes
        runtime = lanes.rules.simulated
        return [planner.plan(problem, runtime=runtime).makespan for problem in evaluator.problems()]


def train(run: TrainingRun) -> ListNetwork:
    """Train by list gradients; steps of the recipe are updates. See :attr:`hetgym.agents.Algorithm.trainer`."""
    recipe = run.recipe
    run.wrap = TrainedLists
    training = ListGradient(recipe.parsed_settings(), recipe.steps, recipe.network, recipe.seed)
    network: ListNetwork = improve(run, training, training.advance)
    return network
