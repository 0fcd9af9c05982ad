"""Searches in windows: plans of large problems, the same for any number of threads."""

from __future__ import annotations

import signal
from dataclasses import replace

import numpy as np
import pytest

from hetgym import Problem, simulate, validate
from hetgym.baselines import get, region_search, window_annealing
from hetgym.baselines.launch_annealing import LaunchAnnealing, nearest
from hetgym.baselines.region_annealing import annealing
from hetgym.baselines.region_search import RegionAnnealing
from hetgym.baselines.surrogate_annealing import SurrogateAnnealing
from hetgym.baselines.window_annealing import Resources, WindowAnnealing, divided
from hetgym.baselines.window_executors import Threads
from hetgym.errors import OutOfMemory
from hetgym.planning import Baseline
from hetgym.planning.starts import best_start
from hetgym.schedule import Schedule
from hetgym.search.search import beginning, ended_by_interrupt, run
from hetgym.sim import PRESETS, Runtime
from hetgym.workloads import RandomMix

COUNT = 300


@pytest.fixture(autouse=True)
def short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows in problems of some hundred operators."""
    monkeypatch.setattr(region_search, "LARGE", COUNT // 2)
    monkeypatch.setattr("hetgym.baselines.region_annealing.LARGE", COUNT // 2)
    monkeypatch.setattr("hetgym.baselines.surrogate_annealing.LARGE", COUNT // 2)
    monkeypatch.setattr(window_annealing, "LENGTH", 64)


def drawn(seed: int = 0, **options: object) -> Problem:
    return RandomMix(operators=(COUNT, COUNT), devices=3, ccr=(1.0,), **options)(np.random.default_rng(seed))


def same(a: Schedule, b: Schedule) -> bool:
    rows = zip(a.order or (), b.order or (), strict=True)
    return np.array_equal(a.assignment, b.assignment) and all(np.array_equal(x, y) for x, y in rows)


@pytest.mark.parametrize("preset", ["classic", "links", "donf"])
def test_windows_shorten_plans_the_same_way_on_any_number_of_threads(preset: str) -> None:
    problem, plans = drawn(), []
    for threads in (1, 3):
        search = WindowAnnealing(problem, "heft", runtime=preset, resources=Resources(executor=Threads(threads)))
        start = search.makespan
        run(search, 400_000, None)
        plans.append(search.schedule())
        assert plans[-1].makespan < start == get("heft")(problem, preset).makespan
        validate(problem, plans[-1])
        assert simulate(problem, plans[-1], preset).makespan == plans[-1].makespan
    assert same(*plans)


BY_PRIORITY = Runtime(communication="fifo", order="priority")


@pytest.mark.parametrize(
    "runtime",
    [
        PRESETS["ready"],
        pytest.param(BY_PRIORITY, marks=pytest.mark.slow),
        pytest.param(Runtime("fifo", "aggregated", order="ready"), marks=pytest.mark.slow),
    ],
)
def test_windows_shorten_plans_whose_order_the_run_chooses(runtime: Runtime) -> None:
    problem, plans = drawn(3), []
    for threads in (1, 3):
        search = annealing(problem, "heft", runtime=runtime, resources=Resources(executor=Threads(threads)))
        assert isinstance(search, LaunchAnnealing)
        start = search.makespan
        run(search, 400_000, None)
        plans.append(search.schedule())
        assert plans[-1].makespan < start
        assert simulate(problem, plans[-1], runtime).makespan == plans[-1].makespan
    assert same(*plans)


def test_the_model_has_the_times_of_the_run_in_the_order_of_its_launches() -> None:
    problem = drawn(4)
    search = LaunchAnnealing(problem, "heft", runtime="ready")
    for target in (50_000, 150_000):
        search.advance(target, 150_000)
        rows = tuple(search.course.order[search.course.assignment[search.course.order] == a] for a in range(3))
        told = simulate(problem, Schedule(search.course.assignment, order=rows), "ready")
        assert told.finish is not None
        np.testing.assert_array_equal(search.course.now.finish, told.finish)


def test_the_parts_of_a_search_do_not_change_its_plan() -> None:
    found = []
    for points in (1, 7):
        search = annealing(drawn(), "heft", runtime="links")
        assert isinstance(search, WindowAnnealing)
        run(search, 300_000, None, points)
        found.append(search.schedule())
    assert found[0].makespan == pytest.approx(found[1].makespan, rel=0.05)


def test_small_problems_and_event_loops_are_searched_whole() -> None:
    small = RandomMix(operators=(40, 60))(np.random.default_rng(0))
    assert type(annealing(small, "heft", runtime="links")) is RegionAnnealing
    assert type(annealing(drawn(), "heft", runtime="framework")) is RegionAnnealing


def heavy(weights: np.ndarray, capacity: float) -> Problem:
    """A problem whose operators read these weights, on devices of this capacity."""
    p = drawn(1)
    edges = list(zip(p.edge_source.tolist(), p.edge_target.tolist(), p.edge_bytes.tolist(), strict=True))
    return Problem.from_arrays(p.cost, edges, weight_bytes=weights, memory_capacity=np.full(3, capacity))


@pytest.mark.parametrize("runtime", ["links", pytest.param("framework", marks=pytest.mark.slow), "ready"])
def test_plans_respect_memory(runtime: str) -> None:
    weights = np.random.default_rng(5).uniform(1e6, 4e6, COUNT)
    problem = heavy(weights, 0.36 * weights.sum())
    switches = replace(PRESETS[runtime], memory="enforce")
    search = (SurrogateAnnealing if runtime == "framework" else annealing)(problem, runtime=switches)
    start = search.makespan
    run(search, 300_000, None)
    plan = search.schedule()
    assert simulate(problem, plan, switches).makespan == plan.makespan < start
    held = np.bincount(plan.assignment, weights, 3)
    assert (held <= problem.memory_capacity).all()


@pytest.mark.parametrize("runtime", ["links", "ready"])
def test_a_start_that_does_not_fit_leads_to_a_plan_that_does(runtime: str) -> None:
    weights = np.full(COUNT, 1e6)
    problem, switches = heavy(weights, 0.45 * weights.sum()), replace(PRESETS[runtime], memory="enforce")
    start = get("heft")(problem.replace(memory_capacity=np.full(3, np.inf)), replace(switches, memory="off"))
    assert np.bincount(start.assignment, weights, 3).max() > 0.45 * weights.sum()
    search = annealing(problem, start, runtime=switches)
    run(search, 100_000, None)
    plan = search.schedule()
    assert simulate(problem, plan, switches).makespan == plan.makespan
    assert (np.bincount(plan.assignment, weights, 3) <= problem.memory_capacity).all()


def test_what_never_fits_is_said() -> None:
    search = WindowAnnealing(
        heavy(np.full(COUNT, 1e6), 1e6 * COUNT / 6), runtime=replace(PRESETS["links"], memory="enforce")
    )
    run(search, 50_000, None)
    with pytest.raises(OutOfMemory):
        search.schedule()


def test_a_surrogate_is_never_longer_than_its_start_and_runs_as_said() -> None:
    problem, runtime = drawn(2), PRESETS["framework"]
    search = SurrogateAnnealing(problem, "heft", runtime=runtime)
    assert nearest(runtime).keeps_order
    start, curve = search.makespan, []
    for target in (100_000, 250_000, 400_000):
        search.advance(target, 400_000)
        curve.append(search.schedule().makespan)
    assert start >= curve[0] >= curve[1] >= curve[2] and curve[2] < start
    plan = search.schedule()
    assert simulate(problem, plan, runtime).makespan == plan.makespan


def test_windows_cover_the_plan_once() -> None:
    for n in (64, 65, 300, 1000):
        for offset in range(0, 64, 16):
            spans = divided(n, offset)
            assert spans[0][0] == 0 and spans[-1][1] == n
            assert all(a[1] == b[0] and b[0] % 16 == 0 for a, b in zip(spans, spans[1:], strict=False))


def test_an_interrupt_or_the_clock_leaves_further_starts_out(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, tried = drawn(), []

    def noted(name: str) -> Baseline:
        tried.append(name)
        if interrupt:
            signal.raise_signal(signal.SIGINT)
        return get(name)

    monkeypatch.setattr(region_search, "get", noted)
    interrupt = True
    with ended_by_interrupt() as interrupts:
        search = annealing(problem, runtime="links")
    assert interrupts.came and tried == ["single-device"]
    assert search.makespan == get("single-device")(problem, "links").makespan
    interrupt = False
    with beginning(0.0, 1e-9):  # long ago
        annealing(problem, runtime="links")
    assert tried == ["single-device"] * 2
    annealing(problem, runtime="links")
    assert tried == ["single-device"] * 2 + list(region_search.STARTS)


def test_attempts_at_a_start_end_when_they_should() -> None:
    problem, asked = drawn(), []

    def ended() -> bool:
        asked.append(True)
        return True

    found = best_start(problem, "links", ended=ended)
    assert asked and found.scheduler == "heft"
    assert best_start(problem, "links").makespan <= found.makespan <= get("heft")(problem, "links").makespan
