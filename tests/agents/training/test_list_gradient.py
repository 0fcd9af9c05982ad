"""Training list policies."""

from typing import Any

import numpy as np
import pytest

from hetgym.agents.lists.planner import ListPlanner
from hetgym.agents.sizes import Sizes
from hetgym.agents.training.curriculum import Part
from hetgym.agents.training.list_gradient import ListGradient, advantages
from hetgym.agents.training.settings import ListGradientSettings
from hetgym.agents.training.trainer import arrays
from hetgym.errors import ConfigError

SIZES = Sizes(embedding=8, layers=1)
SMALL = (Part("random", 6, {"operators": [8, 12], "devices": 2}), Part("random", 3, {"operators": [8, 12]}))


def training(updates: int, **changes: Any) -> ListGradient:
    given: dict[str, Any] = {"curriculum": SMALL, "problems": 3, "samples": 8, "effort": 500, "warm_up": 1}
    return ListGradient(ListGradientSettings(**(given | changes)), updates, SIZES, 3)


def excess(learner: ListGradient) -> float:
    """Mean makespan of greedy plans for the lessons, over those of the untrained policy."""
    policy, before = (ListPlanner(arrays(each.network)) for each in (learner, training(1)))
    ratios = [
        policy.plan(lesson.problem, runtime=lesson.runtime).makespan
        / before.plan(lesson.problem, runtime=lesson.runtime).makespan
        for lesson in learner.lessons
    ]
    return float(np.mean(ratios))


@pytest.mark.parametrize("imitation", [0.0, 1.0])
def test_plans_for_its_lessons_become_shorter(imitation: float) -> None:
    learner = training(80, imitation=imitation, leaders=1.0, learning_rate=1e-2, samples=24)
    while learner.update < learner.updates:
        learner.advance()
    assert excess(learner) < 0.99


def test_advantages_are_leads_over_a_quantile() -> None:
    makespans = np.array([4.0, 1.0, 3.0, 2.0])
    of_all, of_half = advantages(makespans, 1.0), advantages(makespans, 0.5)
    assert of_all == pytest.approx((2.5 - makespans) / makespans.std(), rel=0.02)
    assert of_half[[0, 2]] == pytest.approx(of_half[0]) and of_half[1] > of_half[3] > of_half[0]
    assert abs(of_all.sum()) + abs(of_half.sum()) < 1e-12
    assert not advantages(np.ones(4), 0.25).any()


def test_an_update_has_equally_many_devices() -> None:
    learner = training(4)
    for seed in range(20):
        chosen = [learner.lessons[k] for k in learner._chosen(np.random.default_rng(seed))]
        assert len(chosen) == 3 and len({lesson.problem.num_devices for lesson in chosen}) == 1


@pytest.mark.parametrize(
    "wrong", [{"samples": 1}, {"until": 2.0}, {"imitation": -1.0}, {"curriculum": ()}, {"learning_rate": 0.0}]
)
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        ListGradientSettings(**wrong)
