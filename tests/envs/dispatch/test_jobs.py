"""Several jobs on one machine, side by side and one after the other."""

from __future__ import annotations

import numpy as np
import pytest

import hetgym
from hetgym.envs import HetDispatchEnv
from hetgym.envs.dispatch.jobs import arrivals, counted, deadlines, side_by_side
from hetgym.errors import ConfigError
from hetgym.workloads import textbook


def test_late_jobs_are_not_seen_before_they_arrive() -> None:
    env = HetDispatchEnv(textbook("topcuoglu"), jobs=2, gap=1.0)
    obs, info = env.reset(seed=1)
    assert obs["operator_mask"].sum() == 10 and not obs["costs"][10:].any() and not obs["operators"][10:].any()
    assert obs["edge_mask"].sum() == 15 and not obs["edge_transfer"][15:].any()
    done, seen = False, []
    while not done:
        obs, _, done, _, info = env.step(int(info["action_mask"].argmax()))
        seen.append(int(obs["operator_mask"].sum()))
    assert set(seen) == {10, 20} and obs["edge_mask"].sum() == 30
    release = env.lanes.drawn(0).release
    assert (info["trace"].start >= release).all() and release[10] == release[19] > 0


def test_jobs_side_by_side() -> None:
    one = textbook("topcuoglu")
    both = side_by_side([one, one])
    assert (both.num_operators, both.num_edges, both.num_devices) == (20, 30, 3)
    assert np.array_equal(both.cost[10:], one.cost) and (both.edge_source[15:] >= 10).all()
    assert len(np.unique(both.edge_tensor)) == 2 * len(np.unique(one.edge_tensor))
    alone = hetgym.Problem.from_arrays([[1.0]], [])
    with pytest.raises(ConfigError, match="equally many devices"):
        side_by_side([one, alone])


def test_jobs_arrive_in_a_poisson_process_and_end_by_deadlines_of_their_own() -> None:
    one, two = textbook("topcuoglu"), hetgym.Problem.from_arrays([[2.0, 2.0, 2.0]] * 3, [])
    jobs, draws = [one, two, two], np.random.default_rng(0)
    release = arrivals(jobs, 5.0, np.random.default_rng(0))
    second = draws.exponential(5.0)
    third = second + draws.exponential(5.0)
    assert release.tolist() == [0.0] * 10 + [second] * 3 + [third] * 3
    every, due = deadlines(jobs, release, 1.5, hetgym.Runtime())
    assert every.job.tolist() == [0] * 10 + [1] * 3 + [2] * 3 and every.came.tolist() == [0.0, second, third]
    assert due.tolist() == [1.5 * 80.0, second + 1.5 * 2.0, third + 1.5 * 2.0]
    whole = counted(jobs, release, "makespan")
    assert not whole.job.any() and len(whole.job) == 16 and whole.came.tolist() == [0.0]
