"""Remainders against all ways of cutting what is left."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from pipeline_tools import small_chain

from hetgym import ProblemError
from hetgym.pipeline import CutProblem, Objective, Stage, cut_problem
from hetgym.pipeline import remainders as module
from hetgym.pipeline.remainders import with_remainders


def best_rest(cuts: CutProblem, start: int, devices: tuple[int, ...], value: str) -> float:
    """Least max-load or sum of loads of blocks from ``start`` on, on some of the devices."""
    n, best = len(cuts.names), math.inf
    for p in range(1, min(n - start, len(devices)) + 1):
        for ends in itertools.combinations(range(start + 1, n), p - 1):
            limits = [start, *ends, n]
            for chosen in itertools.permutations(devices, p):
                stages = [Stage(limits[k], limits[k + 1], chosen[k]) for k in range(p)]
                if cuts.fits(stages):
                    loads = [cuts.evaluate([stage]).forward[0] for stage in stages]
                    best = min(best, max(loads) if value == "max" else sum(loads))
    return best


@examples(25)
@given(seed=st.integers(0, 2**32 - 1), objective=st.sampled_from(["throughput", "latency"]))
def test_best_cuts_of_what_is_left(seed: int, objective: str) -> None:
    try:
        cuts = with_remainders(cut_problem(small_chain(np.random.default_rng(seed), 5), Objective(objective)))
    except ProblemError:
        return
    t = cuts.tables
    for start in range(5):
        for devices in ((0,), (2,), (0, 1), (1, 2), (0, 1, 2)):
            members = int(sum(t.stride[t.kind[d]] for d in devices))
            found, value = t.rest_sum[-1, 1, members, start], "max" if objective == "throughput" else "sum"
            assert found == pytest.approx(best_rest(cuts, start, devices, value))
            assert t.rest_load[-1, 1, members, start] <= found or found == math.inf
    assert (t.rest_sum[1:] <= t.rest_sum[:-1]).all()  # looser limits


def test_stages_are_told_apart_for_training() -> None:
    """More stages never make the remainder worse, and one stage is one device."""
    for seed in range(20):
        try:
            cuts = cut_problem(small_chain(np.random.default_rng(seed), 5), Objective("training", micro_batches=4))
        except ProblemError:
            continue
        t = with_remainders(cuts).tables
        assert t.rest_sum.shape == (len(module.SLACK), 4, 6, 6)
        assert (t.rest_sum[:, 1:] <= t.rest_sum[:, :-1]).all()
        loose = t.rest_sum[-1, 1, int(t.free[0]), 0]
        alone = [cuts.evaluate([Stage(0, 5, d)]) for d in range(3) if cuts.fits([Stage(0, 5, d)])]
        assert loose == pytest.approx(min((float((v.forward + v.backward)[0]) for v in alone), default=math.inf))


def test_large_problems_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 10)
    cuts = cut_problem(small_chain(np.random.default_rng(1)))
    assert with_remainders(cuts) is cuts and cuts.tables.rest_sum.size == 0
