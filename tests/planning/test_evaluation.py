"""evaluate: what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetgym import ConfigError, InvalidSchedule, Problem, Schedule, UnknownName, evaluate, simulate
from hetgym.planning import decode_placement, ranks
from hetgym.planning.evaluation import LEAST_BATCH
from hetgym.sim import PRESETS
from hetgym.workloads import RandomMix

PROBLEM = Problem.from_arrays([[1.0, 2.0], [np.inf, 3.0]], [(0, 1, 1.0)])
LARGE = RandomMix()(np.random.default_rng(3))
PLACEMENTS = np.random.default_rng(4).integers(0, 4, (3 * LEAST_BATCH + 1, LARGE.num_operators))


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([0, 1], "shape"),
        ([[0, 1, 0]], "shape"),
        ([[0, 2]], "placement 0 puts operator 1 .* on device 2"),
        ([[0, 1], [0, -1]], "placement 1 puts operator 1 .* on device -1"),
        ([[0.5, 1]], "device 0.5"),
        ([[0, 2**32 + 1]], "placement 0 puts operator 1 .* on device 4.29497e\\+09"),
        ([[0, 1e300]], "device 1e\\+300"),
        ([[float("inf"), 1]], "device inf"),
        ([[float("nan"), 1]], "device nan"),
        ([[0, 0]], "operator 1 .* on device 0, which does not exist or cannot run it"),
        ([["a", "b"]], "not a table"),
        (Schedule([0, 1], order=[[0], [1]]), "not a table"),
        ([Schedule([0, 1], order=[[0], [1]]), [0, 1]], "not both"),
        ([[0, 1], Schedule([0, 1], order=[[0], [1]])], "not both"),
    ],
)
def test_bad_placements(candidates: Any, message: str) -> None:
    with pytest.raises(InvalidSchedule, match=message):
        evaluate(PROBLEM, candidates)


def test_an_illegal_schedule_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="placement: operator 1"):
        evaluate(PROBLEM, [Schedule([0, 0], order=[[0, 1], []])])


def test_unknown_decode() -> None:
    with pytest.raises(UnknownName, match="unknown decode 'insert'; did you mean 'insertion'"):
        evaluate(PROBLEM, [[0, 1]], decode="insert")


def test_nothing_to_evaluate() -> None:
    assert evaluate(PROBLEM, np.empty((0, 2))).tolist() == []


def test_the_callers_array_is_left_alone() -> None:
    placements = np.array([[0, 1], [1, 1]], np.int32)
    placements.setflags(write=False)
    assert evaluate(PROBLEM, placements).tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (Schedule([0], order=[[0], []]), "coverage: 1 operators are assigned"),
        (Schedule([0, 1], order=[[0, 1]]), "coverage: orders for 1 devices"),
        (Schedule([0, 1], order=[[0], []]), "coverage: operator 1 .* is in no"),
        (Schedule([0, 1], order=[[0, 0], []]), "coverage: operator 0 .* is listed on devices 0 and 0"),
        (Schedule([0, 1], order=[[0], [5]]), "coverage: device 1 lists operator 5"),
        (Schedule([0, 1], order=[[-1], [1]]), "coverage: device 0 lists operator -1"),
        (Schedule([0, 1], order=[[1], [0]]), "listed on device 0 but assigned to device 1"),
        (Schedule([0, 2], order=[[0], [1]]), "coverage: operator 1 .* is on device 2"),
        (Schedule([0, 0], priority=[1.0, 0.0]), "placement: operator 1 .* cannot run"),
        (Schedule([1, 1], order=[[], [1, 0]]), "deadlock: operator 1 .* waits for operator 0"),
        (Schedule([0, 1], start=[0.0, 0.5]), "precedence: operator 1"),
    ],
)
def test_illegal_schedules_are_refused_by_name(schedule: Schedule, message: str) -> None:
    """One among legal ones, whose makespans are worked out together."""
    legal = Schedule([0, 1], order=[[0], [1]])
    assert evaluate(PROBLEM, [legal] * 3).tolist() == [5.0] * 3
    with pytest.raises(InvalidSchedule, match=message):
        evaluate(PROBLEM, [legal, schedule, legal])


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_bad_threads(threads: Any) -> None:
    with pytest.raises(ConfigError, match="threads is .*; it must be a whole number of at least 1"):
        evaluate(PROBLEM, [[0, 1]], threads=threads)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_threads_change_nothing(preset: str) -> None:
    results = [evaluate(LARGE, PLACEMENTS, preset, threads=threads) for threads in (1, 3)]
    assert np.array_equal(*results)
    assert results[0][5] == simulate(LARGE, decode_placement(LARGE, PLACEMENTS[5]), preset).makespan


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_schedules_by_order_and_by_priority_together(preset: str) -> None:
    rank = ranks.upward_rank(LARGE)
    schedules = [decode_placement(LARGE, row) for row in PLACEMENTS[:40]]
    schedules[1::2] = [Schedule(row, priority=rank) for row in PLACEMENTS[1:40:2]]
    assert evaluate(LARGE, schedules, preset).tolist() == [simulate(LARGE, s, preset).makespan for s in schedules]


@pytest.mark.parametrize("runtime", ["classic", "links", "links,memory=enforce"])
def test_no_placements_have_no_makespans(runtime: str) -> None:
    problem = Problem.from_arrays(np.ones((3, 2)), [])
    assert evaluate(problem, np.zeros((0, 3), np.int32), runtime).shape == (0,)
