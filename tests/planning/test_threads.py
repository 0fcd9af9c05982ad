"""A batch that is spread over threads gives what its members give alone."""

from __future__ import annotations

import numpy as np
import pytest

import hetgym
from hetgym import Schedule, evaluate, simulate
from hetgym.planning import evaluation as batch
from hetgym.planning.evaluation import decode_placement
from hetgym.sim import PRESETS
from hetgym.workloads import RandomMix

PROBLEM = RandomMix()(np.random.default_rng(3))
PLACEMENTS = np.random.default_rng(4).integers(0, 4, (3 * batch.LEAST_BATCH + 1, PROBLEM.num_operators))


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_threads_change_nothing(preset: str) -> None:
    results = [evaluate(PROBLEM, PLACEMENTS, preset, threads=threads) for threads in (1, 3)]
    assert np.array_equal(*results)
    assert results[0][5] == simulate(PROBLEM, decode_placement(PROBLEM, PLACEMENTS[5]), preset).makespan


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_schedules_by_order_and_by_priority_together(preset: str) -> None:
    rank = hetgym.planning.ranks.upward_rank(PROBLEM)
    schedules = [decode_placement(PROBLEM, row) for row in PLACEMENTS[:40]]
    schedules[1::2] = [Schedule(row, priority=rank) for row in PLACEMENTS[1:40:2]]
    assert evaluate(PROBLEM, schedules, preset).tolist() == [simulate(PROBLEM, s, preset).makespan for s in schedules]
