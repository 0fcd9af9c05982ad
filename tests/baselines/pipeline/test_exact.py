"""Cutting by constraint programming: proofs against all assignments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from pipeline_tools import best_of_all, pipelines

from hetgym import ConfigError, ProblemError
from hetgym.baselines.pipeline import cp_sat_cut, downset_dp
from hetgym.pipeline import DeviceKind, PipelineProblem


@examples(40)
@given(problem=pipelines(max_operators=5))
def test_cp_sat_proves_the_optimum(problem: PipelineProblem) -> None:
    best = best_of_all(problem)
    if best == math.inf:
        with pytest.raises(ProblemError, match="no device can run|no contiguous cut fits"):
            cp_sat_cut(problem)
        return
    cut = cp_sat_cut(problem, workers=1)
    assert cut.status == "optimal"
    assert problem.max_load(cut.assignment) == cut.max_load == pytest.approx(best, rel=1e-6)
    assert cut.lower_bound <= best * (1 + 1e-12)
    assert cut.max_load <= cut.lower_bound * (1 + 1e-6)


def test_cp_sat_where_downsets_are_too_many() -> None:
    """Twenty operators that do not read each other have a million downsets; they divide evenly."""
    free = PipelineProblem(np.ones((20, 1)), [], [DeviceKind("gpu", 4)])
    with pytest.raises(ConfigError):
        downset_dp(free)
    cut = cp_sat_cut(free)
    assert (cut.max_load, cut.status) == (5.0, "optimal")
    assert cut.lower_bound == pytest.approx(5.0, rel=1e-6)


@pytest.mark.parametrize("options", [{"seconds": 0}, {"workers": 0}, {"seed": -1}, {"seconds": "long"}])
def test_cp_sat_cut_refuses_odd_limits(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="cp_sat_cut: "):
        cp_sat_cut(PipelineProblem.chain([[1.0]], [DeviceKind("gpu")]), **options)
