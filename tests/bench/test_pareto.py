"""Measuring quality against time; no test asserts how long anything takes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from hetgym import Problem, Schedule, baselines
from hetgym.baselines import Baseline
from hetgym.bench.loop import Progress
from hetgym.bench.pareto import UNLIMITED, measure, one_core, takes, with_gaps, within
from hetgym.bench.rows import Measured
from hetgym.workloads import Best, BestKnown, ProblemSpec, textbook

SPECS = (ProblemSpec.textbook("topcuoglu"), ProblemSpec.textbook("arabnejad-barbosa"))
GIVEN: list[tuple[str, float | None]] = []


def patient(problem: Problem, seconds: float | None = None, budget: int = 5, workers: int = 4) -> Schedule:
    """Uses all of its time, and improves with it."""
    assert (budget, workers) == (UNLIMITED, 1)
    GIVEN.append((problem.name, seconds))
    time.sleep(seconds or 0.0)
    return baselines.heft(problem) if (seconds or 0.0) > 0.003 else baselines.single_device(problem)


def quick(problem: Problem, seconds: float = 1.0) -> Schedule:
    """Finishes at once, whatever its budget."""
    GIVEN.append((problem.name, seconds))
    return baselines.heft(problem)


def broken(problem: Problem) -> Schedule:
    raise ZeroDivisionError("no")


def plugin(function: Callable[..., Schedule], kind: str = "search") -> Baseline:
    return Baseline(function.__name__, kind, function, "a test", "O(1)")


@pytest.fixture(autouse=True)
def nothing_given() -> None:
    GIVEN.clear()


def test_budgets_go_to_those_whose_function_takes_seconds() -> None:
    found = measure(SPECS, ["heft", plugin(patient)], [0.002, 0.004], ["classic", "links"])
    assert [(r.problem, r.scheduler, r.budget_s, r.runtime) for r in found.rows] == [
        (spec.name, name, budget, runtime)
        for name, budget in (("heft", None), ("patient", 0.002), ("patient", 0.004))
        for spec in SPECS
        for runtime in ("classic", "links")
    ]
    assert found.budgets == [0.002, 0.004] and not found.interrupted
    assert all(r.seconds and r.budget_s and r.seconds >= r.budget_s for r in found.rows if r.scheduler == "patient")
    mine = {
        (r.scheduler, r.budget_s): r.makespan_s
        for r in found.rows
        if r.problem == "topcuoglu" and r.runtime == "classic"
    }
    assert mine == {("heft", None): 80.0, ("patient", 0.002): 127.0, ("patient", 0.004): 80.0}


def test_who_ends_by_itself_is_not_run_with_more_time() -> None:
    found = measure(SPECS[:1], [plugin(quick)], [50.0, 100.0, 500.0])
    assert GIVEN == [("topcuoglu", 50.0)]
    assert [row.budget_s for row in found.rows] == [50.0, 100.0, 500.0]
    assert len({row.seconds for row in found.rows}) == 1


def test_exact_solvers_get_the_longest_budget_alone() -> None:
    found = measure(SPECS[:1], [plugin(quick, "exact"), plugin(patient)], [0.002, 0.004])
    assert [(r.scheduler, r.budget_s) for r in found.rows] == [("patient", 0.002), ("quick", 0.004), ("patient", 0.004)]


def test_searches_are_bounded_by_the_clock_alone() -> None:
    assert within(baselines.get("lns", seed=3), 0.5).options == {"seed": 3, "seconds": 0.5, "budget": UNLIMITED}
    assert within(baselines.get("cp-sat"), 0.5).options == {"seconds": 0.5, "workers": 1}
    for name in baselines.names("search"):
        if takes(baselines.get(name), "seconds"):
            assert within(baselines.get(name), 0.001)(textbook("topcuoglu")).makespan <= 127.0


def test_failures_are_rows_and_the_measurement_goes_on() -> None:
    found = measure(SPECS, [plugin(broken), "heft"], [])
    assert [row.status for row in found.rows] == ["ZeroDivisionError: no", "ok"] * 2
    assert [row.seconds is None for row in found.rows] == [True, False] * 2


def test_ctrl_c_keeps_the_budgets_that_are_finished() -> None:
    def impatient(problem: Problem, seconds: float) -> Schedule:
        if seconds > 0.001 and problem.name != "topcuoglu":
            raise KeyboardInterrupt
        time.sleep(seconds)
        return baselines.heft(problem)

    found = measure(SPECS, ["heft", plugin(impatient)], [0.001, 0.002, 0.003])
    assert found.interrupted and found.budgets == [0.001]
    assert [(r.scheduler, r.budget_s) for r in found.rows] == [("heft", None)] * 2 + [("impatient", 0.001)] * 2


def test_progress_counts_every_schedule_and_ends_full() -> None:
    steps: list[Progress] = []
    measure(SPECS, ["heft", plugin(patient)], [0.001, 0.002], progress=steps.append)
    assert [step.done for step in steps] == [0, 1, 2, 3, 4, 5, 6]
    assert {step.total for step in steps} == {6} and steps[-2].problem == "arabnejad-barbosa within 2 ms"


def test_gaps_are_to_the_shortest_that_anybody_knows() -> None:
    rows = [
        Measured("a", "x", "list", "classic", None, 0.1, 6.0),
        Measured("a", "y", "list", "classic", 1.0, 0.1, 5.0),
        Measured("b", "x", "list", "classic", None, 0.1, 6.0, best_known_s=4.0),
        Measured("b", "x", "list", "links", None, status="broken"),
    ]
    assert [row.gap for row in with_gaps(rows)] == pytest.approx([0.2, 0.0, 0.5, None])
    assert [row.gap for row in with_gaps(rows, {("a", "classic"): 4.0})] == pytest.approx([0.5, 0.25, 0.5, None])


def test_best_known_values_come_with_the_suite() -> None:
    known = BestKnown(textbook("topcuoglu").digest, 73.0, "CP-SAT", {"classic": Best(73.0, "cp-sat")})
    spec = ProblemSpec("topcuoglu", "topcuoglu", "textbook", lambda: textbook("topcuoglu"), known)
    found = measure([spec], ["heft"], [], ["classic", "links"])
    assert [row.best_known_s for row in found.rows] == [73.0, None]
    assert with_gaps(found.rows)[0].gap == pytest.approx(80 / 73 - 1)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_measurements_keep_to_one_core_and_give_the_others_back() -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError), one_core():
        assert len(os.sched_getaffinity(0)) == 1
        raise ZeroDivisionError
    assert os.sched_getaffinity(0) == before
