"""Training list policies that decide during runs."""

from typing import Any

import numpy as np
import pytest
import torch

from hetgym.agents import TrainingRun, load, load_recipe
from hetgym.agents.lists import online
from hetgym.agents.lists.dispatcher import ListDispatcher
from hetgym.agents.sizes import Sizes
from hetgym.agents.training.curriculum import Part
from hetgym.agents.training.list_gradient import look
from hetgym.agents.training.run_gradient import COLDEST, RunGradient, played
from hetgym.agents.training.settings import RunGradientSettings
from hetgym.agents.training.trainer import arrays
from hetgym.envs.dispatch.conditions import Conditions, given, noisy, with_changes

SMALL = (Part("random", 6, {"operators": [8, 12], "devices": 2}), Part("random", 3, {"operators": [8, 12]}))
NOISY = Conditions(noise=0.2, slow_downs=1)


def training(updates: int) -> RunGradient:
    settings = RunGradientSettings(
        curriculum=SMALL, problems=6, samples=64, effort=500, plans=0.2, warm_up=1, learning_rate=1e-2
    )
    return RunGradient(settings, updates, Sizes(embedding=8, layers=1), 3, NOISY)


def makespans(learner: RunGradient) -> np.ndarray:
    """Of greedy runs of the lessons under some conditions."""
    policy, found = ListDispatcher(arrays(learner.network)), []
    for k, lesson in enumerate(learner.lessons):
        rng = np.random.default_rng(k % 3)
        for _ in range(10):
            n = lesson.problem.num_operators
            drawn = given(lesson.problem, NOISY, noisy(lesson.runtime, 0.2, rng), np.zeros(n))
            drawn = with_changes(lesson.problem, drawn, NOISY, 4.0 * float(lesson.problem.mean_cost.mean()), rng)
            desk = online.new_desk(lesson.problem, *policy.look(lesson.problem, lesson.runtime), 8)
            found.append(float(played(lesson.problem, drawn, desk)[0][0]))
    return np.array(found)


def test_runs_of_its_lessons_become_shorter() -> None:
    learner = training(80)
    before = makespans(learner)
    while learner.update < learner.updates:
        learner.advance()
    assert (makespans(learner) / before).mean() < 0.99


def test_temperatures_below_the_coldest_are_raised_to_it_and_not_led_lower() -> None:
    learner = training(80)
    learner.advance()
    learner.update, lessons = 79, [lesson for lesson in learner.lessons if lesson.view is not None]
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


def test_a_killed_run_ends_with_the_same_weights(tmp_path: Any) -> None:
    settings = {"curriculum": [{"kind": "random", "count": 4, "arguments": {"operators": [8, 10]}}], "problems": 2}
    recipe = load_recipe(
        "gnn-dispatch", steps=6, checkpoint_every=2, network={"embedding": 8, "layers": 1},
        settings=settings | {"samples": 4, "effort": 200},
        evaluation={"every": 3, "episodes": 2, "baselines": ["reference"]},
    )  # fmt: skip
    whole = TrainingRun(recipe, tmp_path / "whole").train()

    def stop(step: int, judged: Any) -> None:
        if step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        TrainingRun(recipe, tmp_path / "killed", watch=stop).train()
    resumed = TrainingRun(recipe, tmp_path / "killed")
    assert resumed.checkpoint is not None and resumed.checkpoint.step == 4
    again = resumed.train()
    for one, other in zip(whole.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    assert isinstance(load(tmp_path / "killed" / "policy.safetensors"), ListDispatcher)
