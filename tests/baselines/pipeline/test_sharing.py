"""Devices that share a memory: no method exceeds it, and those that try all cuts find the best one."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from pipeline_tools import best_of_all, distinct_colours

from hetgym import InvalidSchedule, ProblemError
from hetgym.baselines.pipeline import (
    PARTITIONERS,
    annealed_cut,
    contiguous_dp,
    cp_sat_cut,
    pipedream,
    plan_pipeline,
)
from hetgym.pipeline import DeviceKind, Objective, PipelineProblem, cut_problem


def pooled(rng: np.random.Generator, n: int = 5) -> PipelineProblem:
    """A chain on a GPU and a CPU with one memory that is rarely large enough, and two cards."""
    cost, size = rng.integers(1, 9, (n, 3)).astype(float), rng.integers(1, 5, n).astype(float)
    most = float(size.sum())
    kinds = [
        DeviceKind("gpu", 1, round(0.6 * most), pool="unified"),
        DeviceKind("cards", 2, round(rng.choice([0.2, 0.5]) * most)),
        DeviceKind("cpu", 1, round(0.7 * most), pool="unified"),
    ]
    return PipelineProblem.chain(cost, kinds, rng.integers(0, 2, n).astype(float), size)


@pytest.mark.slow
@examples(40)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_best_cut_that_respects_pools(seed: int) -> None:
    problem = pooled(np.random.default_rng(seed))
    best = best_of_all(distinct_colours(problem))
    for name in ("contiguous-dp", "downset-dp", "even-cut"):
        if best == np.inf:
            with pytest.raises(ProblemError):
                PARTITIONERS[name](problem)
        else:
            assert problem.max_load(PARTITIONERS[name](problem)) == best


@examples(20)
@given(seed=st.integers(0, 2**32 - 1))
def test_searches_respect_pools(seed: int) -> None:
    problem = pooled(np.random.default_rng(seed))
    cuts = cut_problem(problem, Objective("latency"))
    if cuts.within_memory:
        problem.check(cuts.assignment(annealed_cut(cuts, tries=200)))
        problem.check(plan_pipeline(problem, 3, objective="balance"))


def test_constraint_programming_respects_pools() -> None:
    pytest.importorskip("ortools")
    for seed in range(6):
        problem = pooled(np.random.default_rng(seed), n=4)
        best = best_of_all(distinct_colours(problem))
        if best < np.inf:
            found = cp_sat_cut(problem, workers=1)
            assert problem.max_load(found.assignment) == found.max_load == best and found.status == "optimal"


def delayed(rng: np.random.Generator, turns: bool) -> PipelineProblem:
    """A chain on a CPU, a delegate that takes time to enter and may take turns with it, and a card."""
    cost = rng.integers(1, 9, (4, 3)).astype(float)
    kinds = [
        DeviceKind("cpu", turns=turns),
        DeviceKind("npu", entry=float(rng.integers(0, 6)), turns=turns),
        DeviceKind("card", entry=1.0),
    ]
    return PipelineProblem.chain(cost, kinds, rng.integers(0, 2, 4).astype(float))


@examples(40)
@given(seed=st.integers(0, 2**32 - 1), turns=st.booleans())
def test_devices_that_are_entered_and_take_turns(seed: int, turns: bool) -> None:
    """Entering is priced exactly; where devices take turns, no cut is worse than without one of them."""
    problem = delayed(np.random.default_rng(seed), turns)
    best = best_of_all(distinct_colours(problem))
    alone = min(float(problem.cost[:, k].sum()) + problem.kinds[k].entry for k in range(3))
    for name in ("contiguous-dp", "downset-dp", "even-cut"):
        reached = problem.max_load(PARTITIONERS[name](problem))
        assert best <= reached <= alone and (turns or reached == best)
    assert problem.max_load(plan_pipeline(problem, 2)) <= alone


def test_constraint_programming_knows_entries_and_turns() -> None:
    pytest.importorskip("ortools")
    for seed in range(6):
        problem = delayed(np.random.default_rng(seed), seed % 2 == 0)
        found = cp_sat_cut(problem, workers=1)
        assert found.max_load == best_of_all(distinct_colours(problem)) and found.status == "optimal"


def test_loads_of_devices_that_take_turns_add_up() -> None:
    kinds = [DeviceKind("cpu", turns=True), DeviceKind("npu", entry=5.0, turns=True), DeviceKind("gpu")]
    chain = PipelineProblem.chain([[4.0, 1.0, 3.0]] * 4, kinds)
    assert chain.loads([0, 1, 1, 1]).tolist() == [4.0, 8.0, 0.0] and chain.max_load([0, 1, 1, 1]) == 12.0
    assert chain.max_load([0, 0, 2, 2]) == 8.0 and chain.max_load([1, 1, 1, 2]) == 8.0
    with pytest.raises(ProblemError, match="only plan_pipeline and linked_dp cut pipelines"):
        cut_problem(chain)
    plain = PipelineProblem.chain([[4.0, 1.0, 3.0]] * 4, [DeviceKind("cpu"), DeviceKind("npu"), DeviceKind("gpu")])
    assert plain.digest != chain.digest
    with pytest.raises(ProblemError, match="entry is -1"):
        DeviceKind("npu", entry=-1.0)
    slow = PipelineProblem.chain([[9.0]] * 2, [DeviceKind("npu", 2, entry=5.0)])
    assert pipedream(slow).seconds == 11.5  # one stage on both: (2 x 9 + 5) / 2


def test_a_memory_is_counted_once() -> None:
    """Ten layers of 9 bytes on two devices that share 64 and 48: 90 do not fit, 60 do, and the sum is what counts."""
    kinds = [DeviceKind("gpu", memory=48.0, pool="unified"), DeviceKind("cpu", memory=64.0, pool="unified")]
    large = PipelineProblem.chain(np.ones((10, 2)), kinds, size=9.0)
    with pytest.raises(ProblemError, match="the layers take 90 B, and there are 64 B: 26 B are missing"):
        contiguous_dp(large)
    with pytest.raises(InvalidSchedule, match="devices 0 and 1 share 64 bytes, and together they hold 90"):
        large.check([0] * 5 + [1] * 5)
    assert not cut_problem(large).within_memory
    small = PipelineProblem.chain(np.ones((10, 2)), kinds, size=6.0)
    assert small.max_load(contiguous_dp(small)) == 5.0
    apart = PipelineProblem.chain(
        np.ones((10, 2)), [DeviceKind("gpu", memory=48.0), DeviceKind("cpu", memory=64.0)], size=9.0
    )
    assert apart.max_load(contiguous_dp(apart)) == 5.0 and apart.digest != large.digest


def test_replicas_share_a_memory() -> None:
    """Copies of 8 bytes fit on two devices of 10 bytes each, and not on two that share 10."""
    shared, own = (PipelineProblem.chain([[8.0]], [DeviceKind("gpu", 2, 10.0, pool=p)], size=8.0) for p in ("u", ""))
    assert pipedream(own).seconds == 4.0 and len(pipedream(own).stages[0].devices) == 2
    assert pipedream(shared).seconds == 8.0 and len(pipedream(shared).stages[0].devices) == 1
