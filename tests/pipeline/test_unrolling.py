"""Unrolled pipelines: passes as operators, under several runtimes."""

from __future__ import annotations

import numpy as np
import pytest

import hetgym
from hetgym import simulate
from hetgym.pipeline import Objective, orders, run, unroll
from hetgym.pipeline.unrolling import schedule_of, unroll_cut


def test_slow_stages_and_transfers() -> None:
    trace = run(orders("gpipe", 2, 3), [1.0, 2.0], [2.0, 4.0], transfer=0.5)
    # F0 arrives at stage 1 at 1.5; three forward passes end at 7.5, three backward passes at 19.5; then 0.5 and 2.
    assert trace.makespan == 22.0
    problem, schedule = unroll(orders("1f1b", 3, 4), np.array([1.0, 3.0, 2.0]), 2.0, transfer=0.25)
    assert simulate(problem, schedule, "links").makespan >= simulate(problem, schedule).makespan > 4 * 5


def test_chunks_may_differ() -> None:
    passes = orders("interleaved", 2, 2, 2)
    even = run(passes, [2.0, 2.0], 2.0).makespan
    assert run(passes, [[1.0, 1.0], [1.0, 1.0]], 2.0).makespan == even
    problem, _ = unroll(passes, [[0.5, 1.0], [1.5, 3.0]], 2.0)
    cost = dict(zip(problem.operator_names, problem.cost.min(axis=1).tolist(), strict=True))
    assert [cost[f"F1.{piece}"] for piece in range(4)] == [0.5, 1.0, 1.5, 3.0] and cost["B0.3"] == 1.0
    with pytest.raises(hetgym.ConfigError, match="must be one time"):
        run(passes, [[1.0, 1.0]], 2.0)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zb-h1"])
def test_cuts_unroll_to_runs_of_their_value(schedule: str) -> None:
    rng = np.random.default_rng(0)
    for objective in (Objective("latency", requests=3), Objective("training", schedule=schedule, micro_batches=4)):
        times = rng.uniform(0.5, 2.0, (3, objective.rounds, 2))
        found = unroll_cut(objective, *times)
        assert found is not None
        known = schedule_of(objective, 2, objective.rounds, "agent")
        assert known is not None and known.scheduler == "agent"
        assert simulate(found[0], known).makespan == simulate(*found).makespan
    assert unroll_cut(Objective(), *times) is None and schedule_of(Objective(), 2, 1) is None
