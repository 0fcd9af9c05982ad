"""Several jobs on one machine, side by side and one after the other."""

from __future__ import annotations

import numpy as np
import pytest

import hetgym
from hetgym import Problem
from hetgym.envs import HetDispatchEnv
from hetgym.envs.dispatch.conditions import deadlines
from hetgym.envs.dispatch.jobs import arriving, poisson, side_by_side, together
from hetgym.errors import ConfigError
from hetgym.sim import SlowDown
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
    with pytest.raises(ConfigError, match="the same number of devices"):
        side_by_side([one, alone])


def test_jobs_arrive_in_a_poisson_process_and_end_by_deadlines_of_their_own() -> None:
    one, two = textbook("topcuoglu"), hetgym.Problem.from_arrays([[2.0, 2.0, 2.0]] * 3, [])
    jobs, draws = [one, two, two], np.random.default_rng(0)
    second = draws.exponential(5.0)
    third = second + draws.exponential(5.0)
    assert poisson(3, 5.0, np.random.default_rng(0)).tolist() == [0.0, second, third]
    release = np.repeat([0.0, second, third], [10, 3, 3])
    every, due = deadlines(jobs, release, 1.5, hetgym.Runtime())
    assert every.job.tolist() == [0] * 10 + [1] * 3 + [2] * 3 and every.came.tolist() == [0.0, second, third]
    assert due.tolist() == [1.5 * 80.0, second + 1.5 * 2.0, third + 1.5 * 2.0]
    whole = together(arriving(jobs, release))
    assert not whole.job.any() and len(whole.job) == 16 and whole.came.tolist() == [0.0]


def test_ratios_are_there_only_where_both_sides_live_in_the_same_world() -> None:
    one, row = Problem.from_arrays([[1.0]], []), Problem.from_arrays(np.ones((9, 1)), [])

    def last(**arguments: object) -> dict:
        env = HetDispatchEnv(completion="off", **arguments)
        _, info = env.reset(seed=0)
        over = False
        while not over:
            _, _, over, _, info = env.step(int(info["action_mask"].argmax()))
        return info

    assert last(problem=row)["speedup"] == last(problem=row)["slr"] / 9 == 1.0
    slower = (SlowDown(device=0, at=0.0, factor=4.0),)
    for conditions in (
        {"problem": one, "jobs": 9, "gap": 5.0},
        {"problem": row, "noise": 0.5},
        {"problem": row, "changes": slower},
    ):
        assert not {"speedup", "slr"} & last(**conditions).keys()


def test_gaps_have_one_unit_whatever_job_comes_first() -> None:
    """Of two jobs of 1 and 99 s, gaps are 50 s in the mean, in either order."""
    small, large = (Problem.from_arrays([[cost]], []) for cost in (1.0, 99.0))
    env = HetDispatchEnv([small, large], jobs=2, gap=1.0, completion="off")
    came = []
    for seed in range(200):
        env.reset(seed=seed)
        came.append(env.lanes.drawn(0).release.max())
    assert 35 < np.mean(came) < 65
    _, _ = env.reset(seed=0, options={"problem": [small, small]})
    assert env.lanes.drawn(0).release.max() < 10
