"""Cutting graphs: the optimum against all assignments, the rules that all methods keep, and published optima."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from pipeline_tools import best_of_all, pipelines

from hetgym import ConfigError, InvalidSchedule, ProblemError
from hetgym.baselines.pipeline import PARTITIONERS, cp_sat_cut, downset_dp
from hetgym.baselines.pipeline.downset_kernel import fill_values
from hetgym.pipeline import DeviceKind, PipelineProblem, load


@examples(150)
@given(problem=pipelines())
def test_downset_dp_is_optimal(problem: PipelineProblem) -> None:
    best = best_of_all(problem)
    if best == math.inf:
        with pytest.raises(ProblemError):
            downset_dp(problem)
        return
    assert problem.max_load(downset_dp(problem)) == pytest.approx(best, rel=1e-9)


def test_too_many_downsets() -> None:
    free = PipelineProblem(np.ones((20, 1)), [], [DeviceKind("gpu", 2)])
    with pytest.raises(ConfigError, match="more than 1000 downsets"):
        downset_dp(free, limit=1000)


@examples(60)
@given(problem=pipelines(max_operators=10))
def test_methods_are_legal_and_ordered(problem: PipelineProblem) -> None:
    value = {}
    for name, partition in PARTITIONERS.items():
        try:
            value[name] = problem.max_load(partition(problem))  # which checks all rules
        except (InvalidSchedule, ProblemError):
            value[name] = math.inf
        assert value[name] == math.inf or partition(problem).tolist() == partition(problem).tolist()
    assert value["downset-dp"] <= value["contiguous-dp"] * (1 + 1e-12)
    assert value["contiguous-dp"] <= value["equal-cut"] * (1 + 1e-12)
    assert len(fill_values.signatures) == 1


# Files of github.com/msr-fiddle/dnn-partitioning; optimal contiguous max-loads [ms], with the files' own limits.
DATA = Path(os.environ.get("HETGYM_DATA", "/nonexistent")) / "dnn-partitioning" / "throughput"
OPTIMA = {
    "bert24_inference": 17.789906, "bert24_training": 41.745813, "gnmt_inference": 32.910658,
    "gnmt_training": 107.004414, "resnet50_inference": 33.774666, "resnet50_training": 78.631813,
    "op_bert_l-3_inference": 27.918568, "op_bert_l-3_training": 65.303149,
}  # fmt: skip


@pytest.mark.skipif(not DATA.is_dir(), reason="set HETGYM_DATA to a folder that holds dnn-partitioning")
@pytest.mark.parametrize("name", OPTIMA)
def test_published_optima(name: str) -> None:
    problem = load(DATA / f"{name}.json.gz")
    assert problem.max_load(downset_dp(problem)) * 1e3 == pytest.approx(OPTIMA[name], abs=6e-7)
    cut = cp_sat_cut(problem, seconds=60.0)
    assert cut.status == "optimal"
    assert cut.max_load * 1e3 == pytest.approx(OPTIMA[name], abs=6e-7)
