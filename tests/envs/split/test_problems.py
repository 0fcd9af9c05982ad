"""Generators of graphs on platforms."""

from __future__ import annotations

import pytest
from split_tools import at_random, machine, products, rollout

import hetgym
from hetgym.envs import (
    HetSplitEnv,
)


def test_a_generator_must_return_what_fits() -> None:
    env = HetSplitEnv(generator=lambda rng: products(), max_operators=5, max_edges=5, max_devices=2)
    with pytest.raises(hetgym.ConfigError, match="returned DataflowGraph"):
        env.reset(seed=0)
    env = HetSplitEnv(generator=lambda rng: (products(9), machine()), max_operators=5, max_edges=50, max_devices=3)
    with pytest.raises(hetgym.ProblemError, match="9 operators, observations are padded to 5"):
        env.reset(seed=0)
    env = HetSplitEnv(generator=lambda rng: (products(2), machine()), max_operators=5, max_edges=5, max_devices=3)
    assert len(rollout(env, at_random(0))[0]) == 2
