"""Degree of node first against a plain-Python runtime loop, in all three communication models."""

from __future__ import annotations

import oracle
import pytest
import strategies
from hypothesis import given, settings

from hetgym import Problem
from hetgym.baselines import donf
from hetgym.baselines.donf import COMMUNICATION
from hetgym.sim.ranks import weighted_out_degree


@pytest.mark.parametrize("model", COMMUNICATION)
@settings(max_examples=150)
@given(problem=strategies.problems(max_operators=25))
def test_equals_oracle(model: str, problem: Problem) -> None:
    schedule = donf(problem, communication=model)
    plan = oracle.donf(problem, weighted_out_degree(problem).tolist(), model)
    assert schedule.assignment.tolist() == plan.assignment
    assert schedule.start.tolist() == plan.start
    assert schedule.finish.tolist() == plan.finish
