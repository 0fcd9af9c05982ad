"""Evaluation: the same problems for all policies, and baselines that are what their names say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hetgym
from hetgym import baselines, simulate
from hetgym._input.config import read
from hetgym.agents.evaluation import Evaluator
from hetgym.agents.recipe import Recipe
from hetgym.errors import ConfigError, UnknownName


def evaluator(env: str = "HetSchedule-v0", names: tuple[str, ...] = ("reference",), **arguments: Any) -> Evaluator:
    evaluation = {"episodes": 6, "baselines": list(names)}
    recipe = {"algorithm": "ppo", "env": env, "steps": 1, "arguments": arguments, "evaluation": evaluation}
    return Evaluator(read(Recipe, recipe, "here"))


def test_heft_as_an_agent_is_heft_as_a_scheduler() -> None:
    found = evaluator(names=("reference", "greedy:finish", "heft", "uniform", "donf"), observation="candidates")
    of = found.baselines
    assert np.allclose(of["reference"], of["heft"]) and np.allclose(of["reference"], of["greedy:finish"], rtol=1e-3)
    assert (of["uniform"] > of["heft"]).all() and not np.allclose(of["donf"], of["heft"])
    problems = [found.lanes.problem(lane) for lane in range(6)]
    donf = baselines.get("donf")
    assert of["donf"].tolist() == [simulate(p, donf(p)).makespan for p in problems]
    judged = found.judge(lambda seen: np.where(found.lanes.mask > 0, seen["candidates"][..., 3], 99).argmin(1))
    assert judged["ratio_reference"] == pytest.approx(1.0, abs=1e-3) and judged["return"] == pytest.approx(0, abs=1e-3)
    assert judged["ratio_uniform"] == pytest.approx(float((of["heft"] / of["uniform"]).mean()), rel=1e-3)
    assert judged == found.judge(lambda seen: np.where(found.lanes.mask > 0, seen["candidates"][..., 3], 99).argmin(1))


def test_runs_are_compared_under_the_runtime_of_the_environment() -> None:
    found = evaluator(names=("heft",), runtime="links", observation="candidates", completion="off")
    problems = [found.lanes.problem(lane) for lane in range(6)]
    heft = baselines.get("heft")
    assert found.baselines["heft"].tolist() == [simulate(p, heft(p, "links"), "links").makespan for p in problems]


def test_under_noise_a_plan_meets_the_run_times_of_the_episode() -> None:
    """On one device every order takes the sum of the run times."""
    problem = hetgym.Problem.from_arrays(np.array([[1.0], [2.0], [3.0]]), [])
    found = evaluator("HetDispatch-v0", ("reference", "heft"), problem=problem, noise=0.5)
    assert np.allclose(found.baselines["heft"], found.baselines["reference"])
    assert len(set(found.baselines["heft"])) == 6 and not np.allclose(found.baselines["heft"], 6.0)


def test_the_optimum_of_pipelines() -> None:
    found = evaluator("HetPipeline-v0", ("optimal", "greedy:bound", "reference"))
    assert (found.baselines["optimal"] <= found.baselines["greedy:bound"] * (1 + 1e-12)).all()


@pytest.mark.parametrize(
    ("env", "name", "arguments", "message"),
    [
        ("HetSplit-v0", "heft", {}, "'heft': schedulers are compared in HetSchedule-v0"),
        ("HetDispatch-v0", "heft", {"slow_downs": 1}, "without arrivals and changes"),
        ("HetSchedule-v0", "hetf", {}, "unknown baseline 'hetf'; did you mean .*'heft'"),
        ("HetSchedule-v0", "unifrom", {}, "unknown baseline 'unifrom'; did you mean .*'uniform'"),
        ("HetSplit-v0", "reference", {"tiles": 2}, "HetSplit-v0 got an unexpected keyword argument 'tiles'"),
        ("HetSchedule-v0", "greedy:finsh", {}, "no such candidate feature; did you mean 'finish'"),
    ],
)
def test_baselines_that_there_are_not(env: str, name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, UnknownName), match=message):
        evaluator(env, (name,), **arguments)


def test_figures_of_a_comparison_by_hand() -> None:
    """Returns of 0.5, 0 and -0.5, whose standard deviation is 0.5; a baseline that gave no schedule does not count."""
    found = object.__new__(Evaluator)
    found.reference, found.baselines = (
        np.array([2.0, 2.0, 4.0]),
        {"a": np.array([1.0, 4.0, np.nan]), "b": np.full(3, np.nan)},
    )
    assert found.compare(np.array([1.0, 2.0, 6.0])) == pytest.approx(
        {"return": 0.0, "return_error": 0.5 / 3**0.5, "ratio_a": (1.0 + 0.5) / 2}
    )
    found.reference, found.baselines = np.array([2.0]), {}
    assert found.compare(np.array([1.0])) == {"return": 0.5, "return_error": 0.0}
