"""Searches: what they find, what they may spend, and that their shortcuts change no result."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import oracle
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from steps import callable_step

from hetgym import ConfigError, Problem, Schedule, UnknownName, validate
from hetgym.baselines import anytime, get, heft, single_device
from hetgym.planning import search as searching
from hetgym.planning import timeline
from hetgym.planning import walk as walks
from hetgym.planning.ranks import assigned_bottom_level, list_order, upward_rank
from hetgym.workloads import RandomMix, textbook

accept, put, take_back = (callable_step(step) for step in (walks.accept, walks.put, walks.take_back))
try_from, try_level_order = callable_step(walks.try_from), callable_step(walks.try_level_order)
copy_prefix = callable_step(timeline.copy_prefix)

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
@settings(max_examples=40)
@given(problem=strategies.problems(max_operators=12, max_devices=4, costs=("continuous",)))
def test_pilot_equals_its_rule_without_shortcuts(name: str, problem: Problem) -> None:
    expected = plain_pilot(problem, "append" not in name, "eft" not in name)
    assert get(name)(problem).makespan == pytest.approx(expected, rel=1e-9)


@settings(max_examples=60)
@given(problem=strategies.problems())
def test_pilot_is_never_worse_than_its_heuristic(problem: Problem) -> None:
    for budget in (0, 100, 10**6):
        assert get("pilot-eft", budget=budget)(problem).makespan <= heft(problem).makespan
        assert (
            get("pilot-append-eft", budget=budget)(problem).makespan <= get("heft", insertion=False)(problem).makespan
        )


def mixed(count: int, **options: tuple[int, int]) -> list[Problem]:
    rng = np.random.default_rng(1)
    draw = RandomMix(**options)  # type: ignore[arg-type]
    return [draw(rng) for _ in range(count)]


@pytest.mark.parametrize("options", [{}, {"decode": "order"}, {"decode": "insertion"}])
@pytest.mark.parametrize("start", ["heft", "single-device", "peft"])
@settings(max_examples=30)
@given(problem=strategies.problems())
def test_annealing_is_never_worse_than_its_start(options: dict[str, str], start: str, problem: Problem) -> None:
    first = get(start)(problem).makespan
    for budget in (0, 3000):
        assert get("annealing", start=start, budget=budget, **options)(problem).makespan <= first


@settings(max_examples=40)
@given(problem=strategies.problems())
def test_searches_are_never_worse_than_what_they_start_from(problem: Problem) -> None:
    for budget in (0, 3000):
        assert get("rand-heft", budget=budget)(problem).makespan <= heft(problem).makespan
        assert get("lns", start="single-device", budget=budget)(problem).makespan <= single_device(problem).makespan
        assert get("lns", budget=budget)(problem).makespan <= heft(problem).makespan
    pilot = get("pilot")(problem).makespan
    assert get("pilot-annealing", budget=100_000)(problem).makespan <= pilot


def decoded(problem: Problem, walk: walks.Walk) -> timeline.Timeline:
    """What insertion makes of the walk's placement and order, from nothing."""
    n, d = problem.num_operators, problem.num_devices
    fresh = timeline.new_timeline(n, d)
    timeline.place_in_order(problem.arrays, fresh, walk.order, walk.fixed, np.zeros((n, d)), True)
    return fresh


def assert_exact(problem: Problem, walk: walks.Walk) -> None:
    """The walk stands on exactly the schedule that its placement and order decode to."""
    fresh = decoded(problem, walk)
    assert walk.now.assignment.tolist() == fresh.assignment.tolist()
    assert walk.now.start.tolist() == fresh.start.tolist()
    assert walk.now.finish.tolist() == fresh.finish.tolist()
    assert walk.value[walks.CURRENT] == fresh.finish.max()
    level = assigned_bottom_level(problem.arrays, walk.fixed)
    assert walk.level.tolist() == level.tolist()
    assert walk.turn[walk.order].tolist() == list(range(len(walk.order)))


@pytest.mark.parametrize("by_level", [False, True])
@settings(max_examples=150)
@given(problem=strategies.problems(), seed=st.integers(0, 2**32 - 1))
def test_a_changed_schedule_is_that_of_a_fresh_decoding(by_level: bool, problem: Problem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays, n = problem.arrays, problem.num_operators
    placement = strategies.random_assignment(problem, rng)
    rank = assigned_bottom_level(arrays, placement) if by_level else np.array(upward_rank(problem))
    walk = walks.new_walk(problem, placement, list_order(arrays, rank))
    assert_exact(problem, walk)
    for _ in range(12):
        count = 0
        for operator in rng.choice(n, min(n, int(rng.integers(1, 4))), replace=False):
            count = put(arrays, walk, count, int(operator), int(rng.integers(problem.num_devices)))
        if count == 0:
            continue
        placement = walk.fixed.copy()
        order = list_order(arrays, assigned_bottom_level(arrays, placement)) if by_level else walk.order.copy()
        truth = timeline.new_timeline(n, problem.num_devices)
        zeros = np.zeros((n, problem.num_devices))
        makespan = timeline.place_in_order(arrays, truth, order, placement, zeros, True)
        limit = float(rng.choice([np.inf, walk.value[walks.CURRENT], makespan, makespan * 0.99]))
        turns = walk.turn[walk.moved[:count]]
        if by_level:
            found = try_level_order(arrays, walk, count, limit)
        else:
            found = try_from(arrays, walk, int(turns.min()), int(turns.max()), limit)
        assert found == (makespan if makespan <= limit else np.inf)
        if found < np.inf:
            assert walk.order.tolist() == order.tolist()
            accept(arrays, walk, -1 if by_level else int(turns.max()), found)
        elif not by_level:
            take_back(walk, count)
        assert_exact(problem, walk)


@settings(max_examples=60)
@given(problem=strategies.problems(), seed=st.integers(0, 2**32 - 1), first=st.integers(0, 40))
def test_a_prefix_is_what_was_placed_before(problem: Problem, seed: int, first: int) -> None:
    arrays, n, d = problem.arrays, problem.num_operators, problem.num_devices
    walk = walks.new_walk(
        problem,
        strategies.random_assignment(problem, np.random.default_rng(seed)),
        list_order(arrays, np.array(upward_rank(problem))),
    )
    part = timeline.new_timeline(n, d)
    copy_prefix(walk.now, part, walk.turn, first)
    fresh = timeline.new_timeline(n, d)
    timeline.place_in_order(arrays, fresh, walk.order[:first], walk.fixed, np.zeros((n, d)), True)
    assert part.intervals.tolist() == fresh.intervals.tolist()
    for device in range(d):
        held = fresh.intervals[device]
        assert part.operators[device, :held].tolist() == fresh.operators[device, :held].tolist()
        assert part.busy_to[device, :held].tolist() == fresh.busy_to[device, :held].tolist()


@pytest.mark.parametrize("name", SEARCHES)
def test_parts_change_no_result_and_the_curve_falls(name: str) -> None:
    for problem in mixed(3):
        whole = get(name, budget=30_000)(problem)
        validate(problem, whole)
        curve = anytime(name, problem, points=7, budget=30_000)
        assert curve[-1, 2] == whole.makespan
        assert (np.diff(curve[:, 0]) > 0).all()
        assert (np.diff(curve[:, 1]) >= 0).all()
        assert (np.diff(curve[:, 2]) <= 0).all()
        assert curve[-1, 0] <= 30_000 + problem.num_operators * problem.num_devices + 1


@pytest.mark.parametrize("name", SEARCHES)
def test_a_wall_clock_ends_a_search(name: str) -> None:
    problem = mixed(1, operators=(400, 400))[0]
    curve = anytime(name, problem, budget=10**9, seconds=0.05)
    assert curve[-1, 1] < 1.0
    assert curve[-1, 2] <= curve[0, 2]


class Clockwork(searching.Search):
    """A search that takes a microsecond of its own clock for each operator, and long to start."""

    def __init__(self) -> None:
        self.placed, self.now, self.parts = 100, 0.004, [0]  # operators, seconds, sizes of the parts

    def advance(self, target: int, total: int) -> None:
        self.parts.append(target - self.placed)
        self.now += 1e-6 * (target - self.placed)
        self.placed = target

    def schedule(self) -> Schedule:
        raise NotImplementedError


def test_seconds_count_from_the_call_and_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    search = Clockwork()
    monkeypatch.setattr(searching, "time", SimpleNamespace(perf_counter=lambda: search.now))
    curve = searching.run(search, 2**62, 0.1, began=0.0)
    assert curve[0] == (100, 0.004, np.inf)
    assert 0.1 <= search.now <= 0.1 + 1e-6 * search.LEAST
    assert max(search.parts) == search.SLICE
    assert searching.run(Clockwork(), 1_000, None)[-1][0] == 1_000


@pytest.mark.parametrize(
    ("name", "least"),
    [("pilot", 0.08), ("rand-heft", 0.02), ("annealing", 0.08), ("pilot-annealing", 0.11), ("lns", 0.08)],
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
    with pytest.raises(UnknownName, match="unknown search that runs in parts 'heft'"):
        anytime("heft", problem)
    with pytest.raises(ConfigError, match="points is 0"):
        anytime("pilot", problem, points=0)
