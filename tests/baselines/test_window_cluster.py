"""Windows elsewhere: parcels open as the windows that they were, and a Ray cluster finds the plan of one thread."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetgym import Problem, Schedule, _ray, plan
from hetgym.agents.pretrained import load
from hetgym.baselines.window_annealing import Resources, WindowAnnealing
from hetgym.baselines.window_cluster import tasks_of, windows_on_ray
from hetgym.baselines.window_executors import Setting, Threads, Work, anneal_window
from hetgym.errors import ClusterError, ConfigError
from hetgym.portfolio import portfolio
from hetgym.search.search import run
from hetgym.search.window_parcels import common, opened, packed
from hetgym.search.windows import Change
from hetgym.sim import PRESETS, Runtime
from hetgym.workloads import RandomMix, textbook

SIZE = 2_100  # Four windows or five, two in a round


def drawn(weights: float = 0.0) -> Problem:
    """A problem of a few windows; with ``weights``, tied ones on devices that have little room for them [byte]."""
    problem = RandomMix(("layered",), operators=(SIZE, SIZE), devices=3, ccr=(1.0,))(np.random.default_rng(0))
    if not weights:
        return problem
    edges = list(
        zip(*(rows.tolist() for rows in (problem.edge_source, problem.edge_target, problem.edge_bytes)), strict=True)
    )
    tied = [((i, i + 700, i + 1400), weights) for i in range(0, 700, 7)]
    each = [weights] * SIZE
    return Problem.from_arrays(
        problem.cost, edges, weight_bytes=each, shared_weights=tied, memory_capacity=[weights * SIZE * 0.4] * 3
    )


class Posted(Threads):
    """Sends each window through bytes to read-only arrays, as Ray does."""

    def anneal(self, cut: Any, works: Sequence[Work], setting: Setting) -> list[Change]:
        far = setting._replace(p=common(setting.p))
        found = []
        for number, work in enumerate(works):
            buffers: list[pickle.PickleBuffer] = []
            data = pickle.dumps(packed(cut(number)), 5, buffer_callback=buffers.append)
            parcel = pickle.loads(data, buffers=[bytes(buffer) for buffer in buffers])
            assert not parcel.p[0].flags.writeable
            found.append(anneal_window(opened(parcel, far.p), work, far))
        return found


def plan_of(problem: Problem, executor: Any, runtime: str | Runtime = "links", budget: int = 200_000) -> Schedule:
    search = WindowAnnealing(
        problem, "heft", runtime=runtime, resources=Resources(load("place-v2").network, 0.01, executor)
    )
    run(search, budget, None)
    return search.schedule()


def assert_same(a: Schedule, b: Schedule) -> None:
    assert a.makespan == b.makespan and np.array_equal(a.assignment, b.assignment)
    assert a.start is not None and b.start is not None and np.array_equal(a.start, b.start)


@pytest.mark.parametrize("kind", ["links", "donf", "tied weights"])
def test_a_parcel_opens_as_the_window_that_it_was(kind: str) -> None:
    problem = drawn(1e6) if kind == "tied weights" else drawn()
    runtime = replace(PRESETS["links"], memory="enforce") if kind == "tied weights" else PRESETS[kind]
    here = plan_of(problem, Threads(1), runtime)
    assert_same(plan_of(problem, Posted(), runtime), here)
    assert here.makespan < plan_of(problem, Threads(1), runtime, 0).makespan


def test_parcels_leave_out_what_can_be_made_elsewhere() -> None:
    search = WindowAnnealing(drawn(), "heft", runtime="links", resources=Resources(executor=Threads(1)))
    window = search.cutter.cut(search.cutter.survey([(512, 1024)]), 0)
    assert len(pickle.dumps(packed(window), 5)) < 0.6 * len(pickle.dumps(window, 5))
    kept = common(search.problem.arrays)
    assert len(kept.cost) == len(kept.occupancy) == 0 and kept.latency is search.problem.arrays.latency


def test_windows_share_tasks_where_tasks_are_short() -> None:
    def works(count: int, launches: int) -> list[Work]:
        return [Work(0, launches, 1.0, search_mix)] * count

    search_mix = WindowAnnealing(drawn(), "heft", resources=Resources(executor=Threads(1))).mix
    assert tasks_of(works(8, 1_000), 64) == 1
    assert tasks_of(works(48, 150_000), 64) == 20  # the root of 400
    assert tasks_of(works(48, 150_000), 4) == 4
    assert tasks_of(works(8, 10_000_000), 64) == 8


@pytest.mark.slow
def test_a_cluster_finds_the_plan_of_one_thread_though_a_worker_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    problem = drawn()
    here = plan_of(problem, Threads(1))
    assert_same(plan_of(problem, Threads(2)), here)
    for cores in (1, 2):
        with cluster_of(cores) as executor:
            assert executor.description == f"Ray, {cores} core{'s' * (cores != 1)} on 1 node"
            assert_same(plan_of(problem, executor), here)
            pids = tmp_path / str(cores)
            executor.task = executor.ray.remote(num_cpus=1, max_retries=_ray.RETRIES)(_killed_once(pids))
            assert_same(plan_of(problem, executor), here)
            assert pids.read_text() and int(pids.read_text()) != os.getpid()


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["links", "framework"])
def test_the_portfolio_plans_on_a_cluster(runtime: str) -> None:
    """Under the event loop, windows are those of the nearest runtime without it."""
    pytest.importorskip("ray")
    problem = drawn()
    with cluster_of(1) as executor:
        assert_same(
            portfolio(problem, budget=150_000, runtime=runtime, executor=executor),
            portfolio(problem, budget=150_000, runtime=runtime),
        )
        assert executor._sent is not None and executor._sent[0].p is problem.arrays


def test_a_cluster_is_refused_where_nothing_is_searched_in_windows() -> None:
    with pytest.raises(
        ConfigError, match="textbook has 10 operators, and problems of fewer than 2,000 are not searched"
    ):
        plan(textbook("topcuoglu").replace(name="textbook"), executor=Threads(1))
    shop = Problem.from_arrays(np.ones((SIZE, 2)), [(0, 1, 0.0)], name="shop")
    with pytest.raises(ConfigError, match="shop is a shop, and shops under the classic model are not searched in"):
        plan(shop, "classic", executor=Threads(1))
    with pytest.raises(ConfigError, match="executor is 'ray'; hetgym.baselines.windows_on_ray makes one"):
        load("place-v2").plan(drawn(), executor="ray", operators=0)


@pytest.mark.slow
def test_a_worker_that_is_always_lost_is_a_sentence() -> None:
    pytest.importorskip("ray")
    with cluster_of(1) as executor:
        executor.task = executor.ray.remote(num_cpus=1, max_retries=1)(_die)
        with pytest.raises(ClusterError, match="windows could not be annealed on the Ray cluster"):
            plan_of(drawn(), executor)


@pytest.mark.slow
def test_errors_of_workers_keep_their_type() -> None:
    pytest.importorskip("ray")
    with cluster_of(1) as executor:
        executor.task = executor.ray.remote(num_cpus=1)(_fail)
        with pytest.raises(ZeroDivisionError):
            plan_of(drawn(), executor)


def cluster_of(cores: int) -> Any:
    """The executor on a new Ray cluster of some cores."""
    from contextlib import contextmanager

    @contextmanager
    def opened_cluster() -> Iterator[Any]:
        import ray

        ray.init("local", num_cpus=cores, include_dashboard=False, logging_level="CRITICAL", log_to_driver=False)
        try:
            with windows_on_ray() as executor:
                yield executor
        finally:
            ray.shutdown()

    return opened_cluster()


def _killed_once(path: Path) -> Any:
    """The task of windows, whose first process is killed in the middle of its first window."""
    name = str(path)

    def work(setting: Any, windows: Any) -> Any:
        import os
        import signal
        import threading

        from hetgym.baselines.window_cluster import _work

        if not os.path.exists(name):
            with open(name, "x") as file:
                file.write(str(os.getpid()))
            threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGKILL)).start()
            for _ in range(1000):  # the first plan made here is thrown away with the process
                _work(setting, windows)
        return _work(setting, windows)

    return work


def _die(setting: Any, windows: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def _fail(setting: Any, windows: Any) -> Any:
    raise ZeroDivisionError("in a worker")
