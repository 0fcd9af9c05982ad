r"""Run gradient: REINFORCE through simulated runs whose decisions follow a network's outputs.

The first updates are those of :mod:`hetgym.agents.training.list_gradient`, which learn from schedules and from plans to
imitate. The others are alike, but with runs in place of schedules: the decisions of :mod:`hetgym.agents.lists.online`,
under the noise and the changes of the recipe's environment. All runs of a lesson in an update meet the same ones, so
that their makespans differ by decisions alone.

In some runs a job has the machine to itself, in others up to as many jobs as in the environment arrive one by one, on
the machine of the first. The network looks at each job by itself all the same: gradients of the makespan of all jobs
belong to the outputs for each.

Gradients grow with the inverse of the temperature. Without a bound it can fall until a single operator's gradient
outweighs all others, and training collapses. Temperatures below ``COLDEST`` are therefore raised to it, and no gradient
leads them lower.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hetgym._kernels.draws import new_draws
from hetgym._types import FloatArray
from hetgym.agents.evaluation import Evaluator
from hetgym.agents.lists import decoder, dispatcher, online
from hetgym.agents.lists.dispatcher import Dispatching, ListDispatcher
from hetgym.agents.networks.lists import ListNetwork
from hetgym.agents.run import TrainingRun
from hetgym.agents.sizes import Sizes
from hetgym.agents.training.list_gradient import Lesson, ListGradient, mean_gradient
from hetgym.agents.training.settings import RunGradientSettings
from hetgym.agents.training.trainer import Trained, improve
from hetgym.envs.dispatch.conditions import Conditions, Drawn, given, noisy, with_changes
from hetgym.envs.dispatch.jobs import apart, poisson, side_by_side
from hetgym.problem import Problem
from hetgym.sim.decisions import new_run
from hetgym.sim.run import online_setting

COLDEST = 0.03  # least temperature of the draws in training


class RunGradient(ListGradient):
    """A training in progress; for arguments see :class:`~hetgym.agents.training.trainer.Learner`.

    Args:
        conditions: the noise and the changes of runs, the most jobs of one, and the mean gap between arrivals.
    """

    settings: RunGradientSettings
    whole = online.WHOLE

    def __init__(
        self, settings: RunGradientSettings, updates: int, sizes: Sizes, seed: int, conditions: Conditions
    ) -> None:
        super().__init__(settings, updates, sizes, seed)
        self.conditions = conditions

    @property
    def draws_plans(self) -> bool:
        """True while updates draw schedules."""
        return self.update < self.settings.plans * self.updates

    @property
    def imitation(self) -> float:
        """The present weight of the plan to imitate."""
        return super().imitation if self.draws_plans else 0.0

    def arranged(self, lessons: list[Lesson], rng: np.random.Generator) -> list[Lesson]:
        """Some jobs alone, others together with jobs of similar run times."""
        most = self.conditions.jobs
        if self.draws_plans or most == 1:
            return lessons
        waiting, found = sorted(lessons, key=lambda lesson: lesson.problem.mean_cost.mean()), []
        while waiting:
            count = 1 if rng.random() < self.settings.alone else int(rng.integers(2, most + 1))
            found.append(together(waiting[:count]))
            waiting = waiting[count:]
        return found

    def gradient(self, lesson: Lesson, outputs: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """[n, width] gradient of the loss by the outputs on a problem, and the best makespan over the mean."""
        least = np.log(COLDEST)
        cold = outputs[:, -1] < least
        outputs = np.column_stack([outputs[:, :-1], np.maximum(outputs[:, -1], least)])
        found, best = self._found(lesson, outputs, rng)
        found[cold, -1] = np.minimum(found[cold, -1], 0.0)
        return found, best

    def _found(self, lesson: Lesson, outputs: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """What :meth:`gradient` returns, at the temperatures given."""
        if self.draws_plans:
            shared = np.r_[: 1 + lesson.problem.num_devices + decoder.COUNT, -1]
            found = np.zeros_like(outputs)
            found[:, shared], best = super().gradient(lesson, np.ascontiguousarray(outputs[:, shared]), rng)
            return found, best
        problem, jobs, conditions = lesson.problem, lesson.jobs, self.conditions
        runtime = noisy(lesson.runtime, conditions.noise, rng)
        gap = conditions.mean_gap(jobs, lesson.runtime) if len(jobs) > 1 else 0.0
        release = np.repeat(poisson(len(jobs), gap, rng), [job.num_operators for job in jobs])
        drawn = given(problem, conditions, runtime, release)
        seen = dispatcher.joined(outputs, lesson.views)
        desk = online.new_desk(problem, *seen, release, conditions.offered(()))
        calm, _ = played(problem, drawn, desk)
        drawn = with_changes(problem, drawn, conditions, float(calm[0]), rng)
        makespans, slopes = played(problem, drawn, desk, self.settings.samples, int(rng.integers(2**62)))
        found = mean_gradient(makespans, slopes, self.leaders)
        found[:, 0] *= seen.scale / seen.scale[0]  # the outputs' priorities are in units of their own jobs
        return found, float(makespans.min() / makespans.mean())


def together(lessons: list[Lesson]) -> Lesson:
    """One lesson: the jobs of some lessons on the machine of the first."""
    if len(lessons) == 1:
        return lessons[0]
    problems = [lesson.problem for lesson in lessons]
    return Lesson(side_by_side(problems), lessons[0].runtime, apart(problems))


def played(
    problem: Problem, drawn: Drawn, desk: online.Desk, samples: int = 0, seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Makespans of runs [s], and the gradients of their log-probabilities; without samples one run, the most probable.

    Args:
        drawn: the conditions of all runs.
    """
    how = online_setting(problem, drawn.runtime)
    changes = drawn.devices, drawn.factors, drawn.moments
    run = new_run(problem.arrays, how.switches, how.factor, drawn.release, *changes)
    makespans, slopes = np.zeros(samples or 1), np.zeros((samples or 1, *(desk.outputs.shape if samples else (0, 0))))
    online.play_runs(
        problem.arrays, *run, how.switches, desk, drawn.release, drawn.moments, new_draws(seed), samples == 0,
        makespans, slopes,
    )  # fmt: skip
    return makespans, slopes


class TrainedDispatcher(Trained):
    """A trained dispatch policy; for arguments see :class:`~hetgym.agents.training.trainer.Trained`."""

    files = dispatcher.FILES

    def makespans(self, planner: ListDispatcher, evaluator: Evaluator) -> list[float]:
        """Makespans [s] of the policy's runs of the held-out episodes."""
        lanes: Any = evaluator.lanes
        acting = Dispatching(planner)

        def decide(_: Any) -> Any:
            if not lanes.state.turn.any():
                acting.begin(lanes)
            return acting.decide()

        found: list[float] = evaluator.play(decide).tolist()
        return found


def train(run: TrainingRun) -> ListNetwork:
    """Train by run gradients; steps of the recipe are updates. See :attr:`hetgym.agents.Algorithm.trainer`."""
    recipe, lanes = run.recipe, run.evaluator.lanes
    run.wrap = TrainedDispatcher
    conditions: Conditions = getattr(lanes, "conditions")  # noqa: B009
    training = RunGradient(recipe.parsed_settings(), recipe.steps, recipe.network, recipe.seed, conditions)
    network: ListNetwork = improve(run, training, training.advance)
    return network
