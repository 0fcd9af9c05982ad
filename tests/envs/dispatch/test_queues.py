"""Long streams beside the formulas of queueing theory: M/D/1 and M/M/1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetgym import Problem
from hetgym.envs import HetDispatchEnv

WARM_UP = 10_000  # jobs of each episode that are left out, by which it forgets that it began empty
STUDENT = 2.576  # of the normal distribution, for 99 %; the quantile of Student's is a little larger, see `width`


def mean_flow(env: Any, seed: int) -> float:
    """Mean flow time of the jobs of one episode, first come, first served, after the warm-up [s]."""
    env.reset(seed=seed)
    over = False
    while not over:
        _, _, over, _, info = env.step(0)
    return float(info["jobs"].flow[WARM_UP:].mean())


def holds(env: Any, episodes: int, expected: float, share: float) -> None:
    """Check that theory lies in the 99 % interval of the means of episodes, which is at most so wide."""
    found = np.array([mean_flow(env, seed) for seed in range(episodes)])
    width = STUDENT * (1.0 + 2.0 / (episodes - 1)) * found.std(ddof=1) / np.sqrt(episodes)
    assert abs(found.mean() - expected) <= width, (found.mean(), expected, width)
    assert width <= share * expected, (width / expected, share)


@pytest.mark.slow
@pytest.mark.parametrize(("load", "episodes", "share"), [(0.3, 10, 0.01), (0.7, 16, 0.01), (0.9, 12, 0.05)])
def test_constant_service(load: float, episodes: int, share: float) -> None:
    """M/D/1: the mean flow time is 1 + load / (2 (1 - load))."""
    one = Problem.from_arrays([[1.0]], [])
    env = HetDispatchEnv(
        one, jobs=110_000, load=load, rule="fifo", completion="off", candidates=1, observation="candidates"
    )
    holds(env, episodes, 1.0 + load / (2.0 * (1.0 - load)), share)


@pytest.mark.slow
@pytest.mark.parametrize(("load", "episodes", "share"), [(0.3, 10, 0.01), (0.7, 40, 0.01), (0.9, 24, 0.05)])
def test_exponential_service(load: float, episodes: int, share: float) -> None:
    """M/M/1: the mean flow time is 1 / (1 - load). The jobs are the operators of one problem, released one by one."""
    count = 110_000
    env = HetDispatchEnv(
        generator=lambda rng: Problem.from_arrays(rng.exponential(1.0, (count, 1)), []),
        release=lambda rng, jobs: np.cumsum(rng.exponential(1.0 / load, jobs)),
        max_operators=count, max_edges=0, max_devices=1, rule="fifo", completion="off", candidates=1,
        observation="candidates",
    )  # fmt: skip
    holds(env, episodes, 1.0 / (1.0 - load), share)
