from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetgym import simulate, validate
from hetgym.baselines import get
from hetgym.baselines.spliced_annealing import LEAST, LEG, LEGS, SplicedAnnealing
from hetgym.errors import OutOfMemory
from hetgym.problem import Problem
from hetgym.search import course
from hetgym.search.search import run
from hetgym.search.splices import splice
from hetgym.sim import PRESETS
from hetgym.workloads import RandomMix


def two_blocks() -> Problem:
    """Two chains in a row of four operators each, with free transfers: the first is fast on 0, the second on 1."""
    cost = np.array([[1.0, 3.0]] * 4 + [[3.0, 1.0]] * 4)
    return Problem.from_arrays(cost, [(i, i + 1, 0.0) for i in range(7)], latency=np.zeros((2, 2)))


def test_a_splice_joins_the_good_halves() -> None:
    problem, runtime = two_blocks(), PRESETS["links"]
    order = np.arange(8, dtype=np.int32)
    here, there = np.zeros(8, np.int32), np.ones(8, np.int32)
    line = course.new_course(problem, runtime, here, order)
    assert line.value[course.BEST] == 16.0
    splice(problem, line, [(there, order)], course.switches_of(problem, runtime))
    assert line.value[course.BEST] == 8.0
    assert line.best_assignment.tolist() == [0] * 4 + [1] * 4


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_splices_are_plans_as_they_will_run(preset: str) -> None:
    for seed in range(3):
        problem = RandomMix(operators=(20, 60), devices=2 + seed)(np.random.default_rng(seed))
        plans = [get(name)(problem, preset) for name in ("heft", "peft-again", "single-device")]
        first, *others = [(plan.assignment, course.turns_of(problem, plan)) for plan in plans]
        line = course.new_course(problem, PRESETS[preset], *first)
        before = float(line.value[course.BEST])
        splice(problem, line, others, course.switches_of(problem, PRESETS[preset]))
        found = course.best_plan(problem, line)
        validate(problem, found)
        again = course.new_course(problem, PRESETS[preset], line.best_assignment, line.best_order)
        assert again.value[course.BEST] == line.value[course.BEST] <= before


def test_the_number_of_legs_follows_the_budget_and_parts_change_nothing() -> None:
    problem = RandomMix(operators=(20, 20))(np.random.default_rng(5))
    n = problem.num_operators
    for effort, legs in ((LEAST * LEG - 1, 1), (LEAST * LEG + 1, LEAST), (20 * LEG, LEGS)):
        plans = []
        for parts in (1, 9):
            search = SplicedAnnealing(problem, seed=3, runtime="links")
            run(search, effort * n**2, None, parts)
            assert len(search.found) == legs - 1
            plan = search.schedule()
            assert plan.makespan == search.makespan == simulate(problem, plan, "links").makespan
            plans.append(plan)
        assert plans[0].makespan == plans[1].makespan
        assert (plans[0].assignment == plans[1].assignment).all()


def test_capacities_hold_in_long_searches() -> None:
    problem = RandomMix(operators=(20, 20))(np.random.default_rng(6))
    weight = np.full(problem.num_operators, 10)
    tight = problem.replace(weight_bytes=weight, memory_capacity=np.full(problem.num_devices, 100.0))
    search = SplicedAnnealing(tight, seed=1, runtime=replace(PRESETS["links"], memory="enforce"))
    run(search, (LEAST + 1) * LEG * problem.num_operators**2, None)
    plan = search.schedule()
    validate(tight, plan)
    assert len(search.found) == LEAST
    assert (np.bincount(plan.assignment, weight, problem.num_devices) <= tight.memory_capacity).all()


def test_legs_that_find_no_plan_that_fits_are_as_many_as_others() -> None:
    problem = Problem.from_arrays(
        np.ones((6, 2)), [(k, k + 1, 1.0) for k in range(5)], weight_bytes=10.0, memory_capacity=20.0
    )
    search = SplicedAnnealing(problem, runtime=replace(PRESETS["links"], memory="enforce"))
    run(search, 20 * LEG * problem.num_operators**2, None)
    assert search.ended == LEGS - 1
    with pytest.raises(OutOfMemory, match="the weights take"):
        search.schedule()
