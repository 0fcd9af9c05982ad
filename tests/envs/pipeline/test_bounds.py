"""Bounds are never exceeded, and values equal those of the library's functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cut_tools import worth

import hetgym
from hetgym.envs import (
    CUT_FEATURES,
    HetPipelineEnv,
)
from hetgym.pipeline import (
    SCHEDULES,
    RandomChains,
    TrainingPipeline,
)

COLUMN = {feature.name: k for k, feature in enumerate(CUT_FEATURES)}


CASES: list[dict[str, Any]] = [
    {},
    {"objective": "latency", "requests": 3},
    *({"objective": "training", "schedule": name, "micro_batches": 4} for name in sorted(SCHEDULES)),
    {"objective": "training", "schedule": "interleaved", "micro_batches": 6, "chunks": 3},
]


@pytest.mark.parametrize("arguments", CASES, ids=lambda a: "-".join(str(v) for v in a.values()) or "throughput")
def test_bounds_are_bounds_and_values_are_the_librarys(arguments: dict[str, Any]) -> None:
    env, rng = HetPipelineEnv(generator=RandomChains(), **arguments), np.random.default_rng(1)
    for seed in range(40):
        obs, info = env.reset(seed=seed)
        bounds, total, done = [], 0.0, False
        while not done:
            action = int(rng.choice(np.flatnonzero(info["action_mask"])))
            bounds.append(float(obs["candidates"][action, COLUMN["bound"]]))
            obs, reward, done, _, info = env.step(action)
            total += reward
        assert total == pytest.approx(1 - info["value"] / info["reference"], abs=1e-9)
        assert total == pytest.approx(sum(info["reward_terms"].values()), abs=1e-9)
        assert max(bounds) <= min(10.0, info["value"] / info["reference"]) * (1 + 1e-6)
        plan = tuple(tuple(stage) for stage in info["stages"])
        step = TrainingPipeline(env.problem)
        if arguments.get("objective") != "training" and info["within_memory"]:
            assert info["value"] == worth(step, plan, arguments)  # to the last bit
        elif arguments.get("objective") == "training":
            assert info["value"] == pytest.approx(worth(step, plan, arguments), rel=1e-12)
        if info["schedule"] is not None:
            problem, schedule = env.unrolled()
            assert hetgym.simulate(problem, schedule).makespan == info["value"]
            assert hetgym.simulate(problem, info["schedule"]).makespan == info["value"]
