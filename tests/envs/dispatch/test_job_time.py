"""The mean time of jobs as the objective of dispatch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetgym import Problem
from hetgym.envs import HetDispatchEnv
from hetgym.planning.ranks import upward_rank
from hetgym.sim import online


def job_of(problem: Problem) -> Any:
    return np.array([int(name.partition("/")[0].removeprefix("job")) for name in problem.operator_names])


def mean_time(trace: Any, release: Any) -> float:
    job = job_of(trace.problem)
    return float(np.mean([trace.finish[job == j].max() - release[job == j].min() for j in range(job.max() + 1)]))


@pytest.mark.parametrize("reward", ["dense", "sparse"])
def test_the_return_compares_mean_times_of_jobs(reward: str) -> None:
    env = HetDispatchEnv(noise=0.2, jobs=3, gap=0.3, slow_downs=1, objective="job-time", reward=reward)
    rng = np.random.default_rng(0)
    for seed in range(3):
        _, info = env.reset(seed=seed)
        total, done = 0.0, False
        while not done:
            _, gain, done, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
            total += gain
        release = env.lanes.drawn(0).release  # type: ignore[attr-defined]
        assert info["value"] == pytest.approx(mean_time(info["trace"], release), rel=1e-12)
        assert info["makespan"] == info["trace"].finish.max() > info["value"]
        assert total == pytest.approx(1 - info["value"] / info["reference"], abs=1e-9)
        assert sum(info["reward_terms"].values()) == pytest.approx(total, abs=1e-9)


def test_the_reference_is_the_mean_time_of_jobs_of_its_run() -> None:
    env = HetDispatchEnv(runtime="links", noise=0.2, jobs=3, gap=0.3, objective="job-time")
    env.reset(seed=5)
    lanes: Any = env.lanes
    drawn, rank = lanes.drawn(0), upward_rank(env.problem)

    def heft(now: Any) -> tuple[int, int]:
        operator = max(now.ready.tolist(), key=lambda i: rank[i])
        return operator, int(now.estimate(operator).finish.argmin())

    trace = online(env.problem, heft, drawn.runtime, drawn.release)
    assert lanes.instance(0).reference == pytest.approx(mean_time(trace, drawn.release), rel=1e-12)


def chain(*costs: float) -> Problem:
    return Problem.from_arrays([[cost] for cost in costs], [(k, k + 1, 0.0) for k in range(len(costs) - 1)])


def test_two_jobs_on_one_device_by_hand() -> None:
    """Work of 1 + 4 and of 2 + 1: the shorter job first ends after 3, the other after 8, in the mean 5.5.

    The first operator of the longer job has to wait until the second one of the shorter job opens. If it is committed
    as soon as it can be, the jobs end after 4 and 8.
    """
    jobs = [chain(1.0, 4.0), chain(2.0, 1.0)]
    env = HetDispatchEnv(
        generator=lambda rng: jobs[0], jobs=2, gap=0.0, objective="job-time",
        max_operators=4, max_edges=2, max_devices=1,
    )  # fmt: skip
    obs, info = env.reset(seed=0, options={"problem": jobs})
    assert obs["candidate_operators"][:2].tolist() == [2, 0], "least work left first"
    found: Any = env.lanes.state.completion[0]  # type: ignore[attr-defined]
    assert found[0] == 5.5, "2, 1, 1, 4: ends at 3 and 8"
    for eager, value in ((True, 6.0), (False, 5.5)):
        obs, info = env.reset(seed=0, options={"problem": jobs})
        done = False
        while not done:
            legal = np.flatnonzero(info["action_mask"])
            action = 0 if eager else int(legal[found[legal].argmin()])
            obs, _, done, _, info = env.step(action)
        assert (info["value"], info["makespan"]) == (value, 8.0)


def test_jobs_that_have_not_arrived_change_nothing() -> None:
    """Two episodes whose later job differs look the same, in seconds, until it arrives."""
    first, late = chain(1.0, 1.0, 1.0), (chain(5.0, 7.0), chain(1.0, 2.0))
    found = []
    for second in late:
        env = HetDispatchEnv(
            generator=lambda rng: first, jobs=2, gap=50.0, objective="job-time", tries=5,
            max_operators=5, max_edges=3, max_devices=1,
        )  # fmt: skip
        env.reset(seed=1, options={"problem": [first, second]})
        state: Any = env.lanes.state  # type: ignore[attr-defined]
        found.append((state.completion[0].tolist(), state.bound.tolist(), state.flow[0].tolist()))
    assert found[0] == found[1]
    assert found[0][0][0] == 1.5, "3 s of the first of two jobs"


def test_the_reference_serves_the_least_work_first_and_no_random_agent_beats_it() -> None:
    """Eight jobs of one operator on one device, all there at once: shortest first is optimal."""
    costs = np.array([5.0, 1.0, 8.0, 3.0, 7.0, 2.0, 6.0, 4.0])
    jobs = [Problem.from_arrays([[cost]], []) for cost in costs]
    env = HetDispatchEnv(jobs, jobs=8, gap=0.0, objective="job-time", completion="off")
    returns = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        _, info = env.reset(seed=seed, options={"problem": jobs})
        over, total = False, 0.0
        while not over:
            _, reward, over, _, info = env.step(int(rng.choice(np.flatnonzero(info["action_mask"]))))
            total += float(reward)
        returns.append(total)
    assert info["reference"] == np.cumsum(np.sort(costs)).mean() == 15.0
    assert max(returns) <= 1e-12 and np.mean(returns) < -0.1
