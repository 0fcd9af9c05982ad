"""Following the completion gives the best cut."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym.envs import (
    CUT_FEATURES,
    HetPipelineEnv,
)
from hetgym.pipeline import (
    SCHEDULES,
)

COLUMN = {feature.name: k for k, feature in enumerate(CUT_FEATURES)}


@pytest.mark.parametrize("objective", ["throughput", "latency"])
def test_who_follows_the_completion_cuts_best(objective: str) -> None:
    """It is the value of a cut that can be played, so it never rises on the way; off, it is the bound."""
    env = HetPipelineEnv(objective=objective)
    blind = HetPipelineEnv(objective=objective, completion=False)
    for seed in range(25):
        (obs, info), (other, _) = env.reset(seed=seed), blind.reset(seed=seed)
        done, expected = False, np.inf
        while not done:
            legal = np.flatnonzero(info["action_mask"])
            table, bounds = obs["candidates"][legal], other["candidates"][legal]
            completion, bound = table[:, COLUMN["completion"]], table[:, COLUMN["bound"]]
            assert (completion >= bound).all() and (bounds[:, COLUMN["completion"]] == bound).all()
            assert table[:, COLUMN["regret"]] == pytest.approx(
                np.minimum(10.0, completion - completion.min()), abs=1e-5
            )
            assert completion.min() <= expected * (1 + 1e-6)
            expected, action = completion.min(), int(legal[np.argmin(completion)])
            obs, _, done, _, info = env.step(action)
            other = blind.step(action)[0]
        assert info["value"] == pytest.approx(info["optimal"], rel=1e-6 if objective == "throughput" else 0.01)
        assert expected == pytest.approx(info["value"] / info["reference"], rel=1e-5)


def test_completions_of_training_steps_keep_the_memory() -> None:
    """Under every schedule the cut that was promised can be played, and takes about as long."""
    for schedule in SCHEDULES:
        env = HetPipelineEnv(objective="training", schedule=schedule)
        returns = []
        for seed in range(25):
            obs, info = env.reset(seed=seed)
            done = False
            while not done:
                value = np.where(info["action_mask"], obs["candidates"][:, COLUMN["completion"]], np.inf)
                obs, _, done, _, info = env.step(int(value.argmin()))
            returns.append(1 - info["value"] / info["reference"])
            assert info["value"] / info["reference"] == pytest.approx(value.min(), rel=0.15)
        assert np.mean(returns) > 0.2 and min(returns) > -0.1
