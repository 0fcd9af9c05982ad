"""Cutting pipelines: optimal methods against all assignments, and the rules that all methods keep."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetgym import ConfigError, InvalidSchedule, ProblemError
from hetgym.baselines.pipeline.downset import downset_dp
from hetgym.pipeline import DeviceKind, PipelineProblem, load


@st.composite
def pipelines(draw: st.DrawFn, max_operators: int = 6) -> PipelineProblem:
    """Small graphs with colours, a mirrored backward pass, operators without work, and tight memory."""
    n = draw(st.integers(1, max_operators), label="forward operators")
    training = draw(st.booleans(), label="training")
    tight = draw(st.booleans(), label="tight memory")
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    edges = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.35]
    colour = rng.integers(0, 3, n) if rng.random() < 0.3 else np.arange(n)
    if training:
        edges += [(n + j, n + i) for i, j in edges] + [(i, n + i) for i in range(n)]
        colour = np.concatenate([colour, colour])
    total = len(colour)
    cost = np.where(rng.random((total, 1)) < 0.3, 0.0, rng.integers(1, 9, (total, 2)))
    if rng.random() < 0.3:
        cost[rng.integers(total), 0] = math.inf
    size = rng.integers(0, 4, total)
    return PipelineProblem(
        cost,
        edges,
        [
            DeviceKind("accelerator", 2, 4.0 + size.sum() // 2 if tight else math.inf),
            DeviceKind("cpu", 1, transfers=False),
        ],
        transfer=np.where(rng.random(total) < 0.4, 0.0, rng.integers(1, 5, total)),
        size=size,
        colour=colour,
        backward=np.arange(total) >= n,
    )


def best_of_all(problem: PipelineProblem) -> float:
    """Smallest max-load over all legal assignments; operators of one colour move together."""
    colours = sorted(set(problem.colour.tolist()))
    best = math.inf
    for devices in itertools.product(range(problem.num_devices), repeat=len(colours)):
        assignment = np.array(devices)[np.searchsorted(colours, problem.colour)]
        try:
            best = min(best, problem.max_load(assignment))
        except InvalidSchedule:
            continue
    return best


@settings(max_examples=150)
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
