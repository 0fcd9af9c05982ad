"""Pipelines with their backward passes: copies, pickles, and tables that are refused."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import hetgym
from hetgym.pipeline import DeviceKind, PipelineProblem, RandomChains, TrainingPipeline


def test_copies_and_pickles_are_equal_and_read_only() -> None:
    step = RandomChains()(np.random.default_rng(3))
    assert copy.deepcopy(step) is step and copy.deepcopy(step.problem) is step.problem
    again = pickle.loads(pickle.dumps(step))
    assert again.digest == step.digest and again.id == step.id and again.problem.id == step.problem.id
    assert not again.problem.cost.flags.writeable and not again.stash.flags.writeable
    other = TrainingPipeline(step.problem, stash=1.0)
    assert other.digest != step.digest and other.problem.digest == step.problem.digest
    wider = PipelineProblem.chain(step.problem.cost, [DeviceKind("accelerator", 3), DeviceKind("cpu", 2)])
    assert wider.digest != step.problem.digest


def test_bad_tables() -> None:
    chain = PipelineProblem.chain([[4.0], [1.0]], [DeviceKind("gpu", 2)], name="two")
    for bad in ({"stash": -1.0}, {"backward": [1.0, 2.0]}, {"state": "much"}, {"weight": math.nan}):
        with pytest.raises(hetgym.ProblemError, match="training of 'two'"):
            TrainingPipeline(chain, **bad)  # type: ignore[arg-type]
