"""The least value of a cut along one order, against all cuts."""

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
from hetgym.baselines.pipeline import optima, optimum
from hetgym.pipeline import CutProblem, DeviceKind, Objective, PipelineProblem, Stage, cut_problem


def best_of_all_cuts(cuts: CutProblem) -> float:
    n, best = len(cuts.names), math.inf
    for p in range(1, min(n, cuts.problem.num_devices) + 1):
        for ends in itertools.combinations(range(1, n), p - 1):
            limits = [0, *ends, n]
            for devices in itertools.permutations(range(cuts.problem.num_devices), p):
                cut = [Stage(limits[k], limits[k + 1], devices[k]) for k in range(p)]
                best = min(best, cuts.evaluate(cut).value if cuts.fits(cut) else math.inf)
    return best


@examples(40)
@given(seed=st.integers(0, 2**32 - 1), name=st.sampled_from(["throughput", "latency"]), requests=st.integers(1, 9))
def test_no_cut_is_better(seed: int, name: str, requests: int) -> None:
    try:
        cuts = cut_problem(small_chain(np.random.default_rng(seed), 5), Objective(name, requests=requests))
    except ProblemError:
        return
    if cuts.within_memory:
        assert optimum(cuts) == pytest.approx(best_of_all_cuts(cuts), rel=1e-12)
    else:
        assert math.isnan(optimum(cuts))


def test_where_it_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = PipelineProblem.chain([[1.0]] * 4, [DeviceKind("gpu", 2)])
    assert math.isnan(optimum(cut_problem(chain, Objective("training"))))
    assert optimum(cut_problem(chain)) == 2.0
    monkeypatch.setattr(optima, "MAX_STEPS", 1)
    assert math.isnan(optimum(cut_problem(chain))) and math.isnan(optimum(cut_problem(chain, Objective("latency"))))
