"""Searches: their results, and that shortcuts change no result."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import oracle
import pytest
import strategies
from effort import examples
from hypothesis import given

from hetgym import ConfigError, Problem, Runtime, UnknownName
from hetgym.baselines import get, heft, single_device
from hetgym.baselines.region_search import RegionAnnealing
from hetgym.planning.timeline import with_times
from hetgym.schedule import Schedule
from hetgym.search.search import run
from hetgym.search.walk import PLACED
from hetgym.workloads import RandomMix, textbook

PILOTS = ("pilot", "pilot-append", "pilot-append-eft", "pilot-eft")
SEARCHES = (*PILOTS, "rand-heft", "annealing", "pilot-annealing", "lns")


def plain_pilot(problem: Problem, insertion: bool, optimistic: bool) -> float:
    """The rule of Pilot without any shortcut."""
    n, d = problem.num_operators, problem.num_devices
    order = oracle.list_order(problem, oracle.upward_rank(problem))
    bonus = oracle.optimistic_cost(problem) if optimistic else None
    fixed = [-1] * n
    for operator in order:
        best = oracle.place(problem, order, fixed, bonus, insertion)
        for device in range(d):
            if problem.cost[operator, device] < np.inf and device != best.assignment[operator]:
                fixed[operator] = device
                plan = oracle.place(problem, order, fixed, bonus, insertion)
                if plan.makespan < best.makespan * (1 - 1e-12):
                    best = plan
        fixed[operator] = best.assignment[operator]
    return oracle.place(problem, order, fixed, bonus, insertion).makespan


@pytest.mark.parametrize("name", PILOTS)
@examples(40)
@given(problem=strategies.problems(max_operators=12, max_devices=4, costs=("continuous",)))
def test_pilot_equals_its_rule_without_shortcuts(name: str, problem: Problem) -> None:
    expected = plain_pilot(problem, "append" not in name, "eft" not in name)
    assert get(name)(problem).makespan == pytest.approx(expected, rel=1e-9)


@examples(60)
@given(problem=strategies.problems())
def test_pilot_is_never_worse_than_its_heuristic(problem: Problem) -> None:
    for budget in (0, 100, 10**6):
        assert get("pilot-eft", budget=budget)(problem).makespan <= heft(problem).makespan
        assert (
            get("pilot-append-eft", budget=budget)(problem).makespan <= get("heft", insertion=False)(problem).makespan
        )


@examples(40)
@given(problem=strategies.problems(), runtime=strategies.runtimes(noise=0.0))
def test_under_any_runtime_searches_are_never_worse_than_what_they_start_from(
    problem: Problem, runtime: Runtime
) -> None:
    start = get("heft")(problem, runtime).makespan
    for name in ("cpgc", "annealing", "lns", "rand-heft", "pilot-eft", "tabu"):
        for budget in (0, 2000):
            assert get(name, budget=budget)(problem, runtime).makespan <= start, name
    pilot = get("pilot", budget=500)(problem, runtime).makespan
    assert get("pilot-annealing", budget=20_000)(problem, runtime).makespan <= pilot
    alone = get("single-device")(problem, runtime).makespan
    assert all(get(name)(problem, runtime).makespan <= alone for name in ("cpgc", "cpgc-partition", "key-operators"))


@pytest.mark.parametrize(
    ("name", "least"), [("cpgc", 0.1), ("pilot", 0.1), ("annealing", 0.1), ("lns", 0.15), ("rand-heft", 0.05)]
)
def test_searches_shorten_plans_for_links(name: str, least: float) -> None:
    """Over the plan of HEFT that knows the links, too."""
    search = get(name, budget=100_000)
    ratios = [search(p, "links").makespan / get("heft")(p, "links").makespan for p in mixed(12)]
    assert np.mean(ratios) < 1 - least


def mixed(count: int, **options: tuple[int, int]) -> list[Problem]:
    rng = np.random.default_rng(1)
    draw = RandomMix(**options)  # type: ignore[arg-type]
    return [draw(rng) for _ in range(count)]


@pytest.mark.parametrize("options", [{}, {"decode": "order"}, {"decode": "insertion"}])
@pytest.mark.parametrize("start", ["heft", "single-device", "peft"])
@examples(30)
@given(problem=strategies.problems())
def test_annealing_is_never_worse_than_its_start(options: dict[str, str], start: str, problem: Problem) -> None:
    first = get(start)(problem).makespan
    for budget in (0, 3000):
        assert get("annealing", start=start, budget=budget, **options)(problem).makespan <= first


@examples(40)
@given(problem=strategies.problems())
def test_searches_are_never_worse_than_what_they_start_from(problem: Problem) -> None:
    for budget in (0, 3000):
        assert get("rand-heft", budget=budget)(problem).makespan <= heft(problem).makespan
        assert get("lns", start="single-device", budget=budget)(problem).makespan <= single_device(problem).makespan
        assert get("lns", budget=budget)(problem).makespan <= heft(problem).makespan
    pilot = get("pilot")(problem).makespan
    assert get("pilot-annealing", budget=100_000)(problem).makespan <= pilot


@pytest.mark.parametrize(
    ("name", "least"),
    [("pilot", 0.08), ("rand-heft", 0.02), ("annealing", 0.08), ("pilot-annealing", 0.1), ("lns", 0.08)],
)
def test_searches_shorten_schedules_of_heft(name: str, least: float) -> None:
    ratios = [get(name, budget=100_000)(problem).makespan / heft(problem).makespan for problem in mixed(12)]
    assert np.mean(ratios) < 1 - least


@pytest.mark.parametrize("name", ["rand-heft", "annealing", "pilot-annealing", "lns"])
def test_searches_follow_their_seed(name: str) -> None:
    problems = mixed(4)
    runs = [[get(name, seed=seed, budget=50_000)(p).start.tolist() for p in problems] for seed in (0, 1, 0)]
    assert runs[0] == runs[2]
    assert runs[0] != runs[1]


def test_more_budget_finds_the_optimum_of_the_textbook_example() -> None:
    assert get("annealing")(textbook("topcuoglu")).makespan == 73.0  # proved optimal
    assert get("lns")(textbook("topcuoglu")).makespan == 73.0


def test_what_searches_refuse() -> None:
    problem = textbook("topcuoglu")
    for name in SEARCHES:
        with pytest.raises(ConfigError, match="budget is -1"):
            get(name, budget=-1)(problem)
        with pytest.raises(ConfigError, match="seconds is 0"):
            get(name, seconds=0)(problem)
    with pytest.raises(UnknownName, match="unknown completion 'insert'"):
        get("pilot", completion="insert")(problem)
    with pytest.raises(UnknownName, match="unknown decode 'insert'"):
        get("annealing", decode="insert")(problem)
    with pytest.raises(UnknownName, match="unknown scheduler 'hetf'"):
        get("lns", start="hetf")(problem)
    with pytest.raises(ConfigError, match="heat is 0"):
        get("pilot-annealing", heat=0)(problem)
    with pytest.raises(ConfigError, match="size is 0"):
        get("lns", size=0)(problem)
    with pytest.raises(ConfigError, match="sigma is -1"):
        get("rand-heft", sigma=-1)(problem)


def job_shop(rng: np.random.Generator, jobs: int, machines: int) -> Problem:
    """Each job visits all machines in an order of its own."""
    cost = np.full((jobs * machines, machines), np.inf)
    for job in range(jobs):
        cost[job * machines + np.arange(machines), rng.permutation(machines)] = rng.integers(1, 100, machines)
    steps = [i for i in range(jobs * machines) if (i + 1) % machines]
    return Problem.from_arrays(cost, [(i, i + 1, 0.0) for i in steps])


@pytest.mark.parametrize("name", ["tabu", "portfolio"])
def test_tabu_search_finds_the_optima_of_small_job_shops(name: str) -> None:
    pytest.importorskip("ortools")
    rng = np.random.default_rng(5)
    for _ in range(3):
        problem = job_shop(rng, 6, 4)
        optimum = get("cp-sat")(problem)
        found = get(name, budget=1_000_000)(problem)
        assert found.makespan == optimum.makespan < get("heft")(problem).makespan


def test_tabu_search_beats_region_annealing_on_job_shops() -> None:
    rng = np.random.default_rng(6)
    shops = [job_shop(rng, 15, 15) for _ in range(3)]
    found, annealed = (
        np.array([get(name, budget=500_000)(shop).makespan for shop in shops]) for name in ("tabu", "region-annealing")
    )
    assert (found <= annealed).all()
    assert found.sum() < 0.98 * annealed.sum()
    for problem in mixed(8):
        start = get("peft")(problem)
        better = get("tabu", start="peft")(problem)
        assert better.makespan <= start.makespan


@pytest.mark.parametrize("runtime", ["links", "ready"])
def test_region_annealing_exchanges_regions(runtime: str) -> None:
    """Each operator runs faster on the other's device, but two on one device take longer than both as they are."""
    problem = Problem.from_arrays([[3.0, 2.0], [2.0, 3.0]], [])
    start = with_times(problem, Schedule([0, 1], order=[[0], [1]]), runtime)
    search = RegionAnnealing(problem, start, heat=1e-6, runtime=runtime)
    run(search, 1_000, None)
    assert search.schedule().makespan == 2.0


def test_cpgc_shares_its_budget_over_the_starts_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third for the first of three starts; what a start leaves goes to the others."""
    module, seen = sys.modules["hetgym.baselines.cpgc"], []
    correct = module._correct

    def record(*arguments: Any) -> None:
        correct(*arguments)
        seen.append((arguments[-1], int(arguments[1].counts[PLACED])))

    monkeypatch.setattr(module, "_correct", record)
    for budget, problem in itertools.product((300, 2000), mixed(4)):
        seen.clear()
        get("cpgc", budget=budget)(problem)
        left = budget
        for starts, (target, placed) in zip((3, 2, 1), seen, strict=True):
            assert target == left // starts
            left -= placed


def test_more_passes_of_peft_return_the_best_of_all() -> None:
    """Later passes are often worse than earlier ones."""
    for problem in mixed(12):
        makespans = [get("peft", passes=passes)(problem).makespan for passes in (1, 2, 3, 4)]
        assert makespans == sorted(makespans, reverse=True)
