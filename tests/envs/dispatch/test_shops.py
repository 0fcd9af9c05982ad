"""Job shops in HetDispatch-v0: all jobs are offered, rules serve them, and the optimum is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym import Problem
from hetgym.baselines import get
from hetgym.workloads.job_shops import JobShops, known_optimum
from tests.workloads.test_job_shops import FT06


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    file = tmp_path / "ft06.jsp"
    file.write_text(FT06)
    return file


def test_all_jobs_are_offered_and_the_optimum_is_in_the_info(shop: Path) -> None:
    env: Any = gym.make("HetDispatch-v0", problem=str(shop), completion="off")
    _, info = env.reset(seed=0)
    assert env.action_space.n == 8 * 6 + 1 and info["hidden"] == 0 and info["action_mask"][:-1].sum() == 6
    info = hetgym.agents.play(env, hetgym.agents.in_turn(), seed=0).info
    assert info["optimum"] == 55 <= info["makespan"] and len(info["jobs"].flow) == 6
    ten = Problem.from_arrays(np.where(np.eye(10), 1.0, np.inf), [])
    wide: Any = gym.make("HetDispatch-v0", problem=[str(shop), ten], completion="off", max_devices=10)
    assert wide.action_space.n == 10 * 10 + 1, "one candidate for each job of the largest"
    sizes = {"max_operators": 36, "max_edges": 24, "max_devices": 3}
    drawn: Any = gym.make(
        "HetDispatch-v0", generator=JobShops(jobs=(3, 12), machines=(3, 3)), completion="off", **sizes
    )
    assert drawn.action_space.n == 12 * 3 + 1, "of the largest that may be drawn"
    dense: Any = gym.make("HetDispatch-v0", problem=Problem.from_arrays(np.ones((10, 2)), []), completion="off")
    assert dense.action_space.n == 8 * 2 + 1, "operators that may run everywhere are not a shop"


def test_optima_are_those_of_the_literature(shop: Path) -> None:
    problem = hetgym.load_problem(shop)
    assert known_optimum(problem) == 55 and known_optimum(problem.replace(name="other")) == 55
    cost = problem.cost.copy()
    cost[0, 2] += 1.0
    assert known_optimum(problem.replace(cost=cost)) is None
    pytest.importorskip("ortools")
    assert get("cp-sat")(problem).makespan == 55


@pytest.mark.parametrize(("name", "makespan"), [("fifo", 65.0), ("spt", 88.0), ("mwkr", 61.0), ("mor", 59.0)])
def test_rules_are_schedulers_and_rules_of_the_environment(shop: Path, name: str, makespan: float) -> None:
    """SPT on ft06 takes 88, as published; both ways to serve by a rule agree on every operator."""
    problem = hetgym.load_problem(shop)
    plan = get(name)(problem)
    env: Any = gym.make("HetDispatch-v0", problem=problem, rule=name, completion="off")
    info = hetgym.agents.play(env, hetgym.agents.in_turn(), seed=0).info
    assert (plan.makespan, info["makespan"], info["reference"]) == (makespan,) * 3
