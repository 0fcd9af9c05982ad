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
