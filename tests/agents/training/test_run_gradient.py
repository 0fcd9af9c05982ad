"""Training list policies that decide during runs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from hetgym import Problem
from hetgym.agents import play
from hetgym.agents.lists import online
from hetgym.agents.lists.dispatcher import ListDispatcher
from hetgym.agents.lists.tokens import view
from hetgym.agents.sizes import Sizes
from hetgym.agents.training import run_gradient
from hetgym.agents.training.curriculum import Part
from hetgym.agents.training.list_gradient import Lesson, look
from hetgym.agents.training.run_gradient import COLDEST, RunGradient, played, together
from hetgym.agents.training.settings import RunGradientSettings
from hetgym.agents.training.trainer import arrays
from hetgym.envs import HetDispatchEnv
from hetgym.envs.dispatch.conditions import Conditions, Drawn, given, noisy, with_changes
from hetgym.sim import runtime

SMALL = (Part("random", 6, {"operators": [8, 12], "devices": 2}), Part("random", 3, {"operators": [8, 12]}))
NOISY = Conditions(noise=0.2, slow_downs=1)


def training(updates: int) -> RunGradient:
    settings = RunGradientSettings(
        curriculum=SMALL, problems=6, samples=64, effort=500, plans=0.2, warm_up=1, learning_rate=3e-3
    )
    return RunGradient(settings, updates, Sizes(embedding=8, layers=1), 5, NOISY)


def makespans(learner: RunGradient) -> np.ndarray:
    """Of greedy runs of the lessons under some conditions."""
    policy, found = ListDispatcher(arrays(learner.network)), []
    for k, lesson in enumerate(learner.lessons):
        rng = np.random.default_rng(k % 3)
        for _ in range(10):
            n = lesson.problem.num_operators
            drawn = given(lesson.problem, NOISY, noisy(lesson.runtime, 0.2, rng), np.zeros(n))
            drawn = with_changes(lesson.problem, drawn, NOISY, 4.0 * float(lesson.problem.mean_cost.mean()), rng)
            desk = online.new_desk(lesson.problem, *policy.look(lesson.jobs, lesson.runtime), drawn.release, 8)
            found.append(float(played(lesson.problem, drawn, desk)[0][0]))
    return np.array(found)


@pytest.mark.slow
def test_runs_of_its_lessons_become_shorter() -> None:
    learner = training(80)
    before = makespans(learner)
    while learner.update < learner.updates:
        learner.advance()
    assert (makespans(learner) / before).mean() < 0.99


def test_each_job_of_a_run_is_looked_at_and_learns_by_itself(monkeypatch: Any) -> None:
    learner = RunGradient(replace(training(1).settings, plans=0.0), 1, Sizes(8, 1), 3, Conditions(jobs=2))
    both = together([learner.lessons[k] for k in learner.groups[0][:2]])
    both.views = [view(job, both.runtime) for job in both.jobs]
    alone = [Lesson(job, both.runtime, views=[seen]) for job, seen in zip(both.jobs, both.views, strict=True)]
    outputs = look(learner.network, [both])
    assert torch.equal(outputs, look(learner.network, alone))
    seen = []

    def constant(_: Problem, drawn: Drawn, desk: online.Desk, samples: int = 1, seed: int = 0) -> Any:
        seen.append((drawn.release, desk.outputs))
        count = np.arange(1.0, samples + 1)
        return count, count[:, None, None] * np.ones(outputs.shape)

    monkeypatch.setattr(run_gradient, "played", constant)
    found, _ = learner.gradient(both, outputs.detach().double().numpy(), np.random.default_rng(0))
    one, other = both.views
    later, unit = slice(both.jobs[0].num_operators, None), other.scale / one.scale
    assert found[later, 0] == pytest.approx(unit * found[0, 0]) and found[later, 1] == pytest.approx(found[0, 0])
    release, given_outputs = seen[0]
    assert set(release[: later.start]) == {0.0} and (release[later] > 0).all() and np.ptp(release[later]) == 0
    assert given_outputs[later, 0] == pytest.approx(unit * outputs[later, 0].detach().double().numpy())


@pytest.mark.parametrize(("jobs", "alone"), [(1, 0.0), (3, 1.0), (3, 0.0)])
def test_an_update_takes_each_of_its_problems_once(jobs: int, alone: float) -> None:
    learner = RunGradient(
        replace(training(1).settings, plans=0.0, alone=alone), 1, Sizes(8, 1), 3, Conditions(jobs=jobs)
    )
    for seed in range(5):
        found = learner.arranged(learner.lessons[:6], np.random.default_rng(seed))
        sizes = [len(lesson.jobs) for lesson in found]
        assert sum(sizes) == 6 and (max(sizes) == 1 if jobs == 1 or alone else set(sizes[:-1]) <= {2, 3})
        costs = [cost for lesson in found for cost in lesson.problem.cost.sum(1)]
        assert sorted(costs) == sorted(cost for lesson in learner.lessons[:6] for cost in lesson.problem.cost.sum(1))


def test_a_job_makes_way_for_one_that_can_run_on_one_device_only() -> None:
    """The first loses little on the other device; the second arrives when the first has begun."""
    first, second = (Problem.from_arrays([cost], []) for cost in ([2.0, 2.2], [2.0, 9.0]))
    settings = RunGradientSettings(problems=2, samples=64, plans=0.0, alone=0.0, warm_up=1, learning_rate=1e-2)
    learner = RunGradient(settings, 30, Sizes(embedding=8, layers=1), 3, Conditions(jobs=2, gap=0.25))
    learner.lessons, learner.groups = [Lesson(job, runtime("links")) for job in (first, second)], [np.arange(2)]
    env, episode = (
        HetDispatchEnv(problem=first, runtime="links", jobs=2),
        {"problem": [first, second], "arrivals": [0.0, 0.5]},
    )

    def makespan() -> float:
        return float(play(env, ListDispatcher(arrays(learner.network)), options=episode).info["makespan"])

    assert makespan() == 4.0
    while learner.update < learner.updates:
        learner.advance()
    assert makespan() == 2.5


def test_temperatures_below_the_coldest_are_raised_to_it_and_not_led_lower() -> None:
    learner = training(80)
    learner.advance()
    learner.update, lessons = 79, [lesson for lesson in learner.lessons if lesson.views]
    assert not learner.draws_plans
    found = []
    for cold in (-1000.0, np.log(COLDEST)):
        outputs = [look(learner.network, [lesson]).detach().double().numpy() for lesson in lessons]
        for some in outputs:
            some[:, -1] = cold
        each = zip(lessons, outputs, strict=True)
        found.append([learner.gradient(lesson, some, np.random.default_rng(0))[0] for lesson, some in each])
    least, bound = (np.concatenate([some[:, [0, 1, -1]] for some in slopes]) for slopes in found)
    assert np.array_equal(least[:, :-1], bound[:, :-1]) and bound.any(axis=0).all()
    assert bound[:, -1].max() > 0 and np.array_equal(least[:, -1], np.minimum(bound[:, -1], 0.0))
