"""Bad arguments and bad pipelines of HetPipeline-v0."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from cut_tools import CHAIN, TWO, skips

import hetgym
from hetgym.envs import (
    HetPipelineEnv,
)
from hetgym.pipeline import (
    DeviceKind,
    PipelineProblem,
    RandomChains,
    TrainingPipeline,
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "latncy"}, "did you mean 'latency'"),
        ({"schedule": "1f1d"}, "did you mean '1f1b'"),
        ({"reward": "dens"}, "did you mean 'dense'"),
        ({"observation": "grph"}, "did you mean 'graph'"),
        ({"micro_batches": 0}, "micro_batches is 0"),
        ({"requests": 2.5}, "requests is 2.5"),
        ({"chunks": True}, "chunks is True"),
        ({"problem": []}, "list is empty"),
        ({"problem": 3}, "or a path, got int"),
        ({"problem": "/nowhere/x.json"}, "no such file"),
        ({"graph": "resnet50"}, "give both"),
        ({"problem": CHAIN, "generator": RandomChains()}, "one source, not from problem and generator"),
        ({"generator": "chain"}, "expected callable"),
        ({"generator": lambda rng: CHAIN}, "pass max_blocks"),
        ({"problem": CHAIN, "max_blocks": 0}, "positive whole number"),
        ({"graph": "alexnet", "platform": "cpu-gpu", "blocks": "trunks"}, "did you mean 'trunk'"),
        ({"graph": "alexnet", "platform": "cpu-gpu", "blocks": "steps"}, "no time steps"),
        ({"graph": "alexnet", "platform": "cpu-gpu", "optimizer": "adan"}, "did you mean 'adam'"),
    ],
)
def test_bad_arguments_get_one_sentence(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(hetgym.HetgymError, match=message) as caught:
        HetPipelineEnv(**arguments)
    assert "\n" not in str(caught.value)


def test_bad_pipelines_are_refused() -> None:
    env = HetPipelineEnv(CHAIN, max_blocks=4)
    with pytest.raises(hetgym.ProblemError, match="5 blocks, observations are padded to 4"):
        env.reset(options={"problem": PipelineProblem.chain(np.ones((5, 1)), TWO)})
    with pytest.raises(hetgym.ProblemError, match="pass max_devices=3"):
        env.reset(options={"problem": PipelineProblem.chain(np.ones((4, 1)), [DeviceKind("gpu", 3)])})
    with pytest.raises(hetgym.ConfigError, match="no option 'colour'"):
        env.reset(options={"colour": 1})
    with pytest.raises(hetgym.ConfigError, match="returned int"):
        HetPipelineEnv(generator=lambda rng: 3, max_blocks=3, max_devices=2).reset(seed=0)
    with pytest.raises(gym.error.ResetNeeded):
        HetPipelineEnv(CHAIN).actions([0, 0, 1, 1])
    assert env.reset(seed=0) and env.actions([1, 1, 0, 0]) == [2, 0, 1, 0]
    with pytest.raises(hetgym.InvalidSchedule, match="cycle"):
        env.actions([0, 1, 0, 1])
    loose = HetPipelineEnv(PipelineProblem(np.ones((3, 1)), [], TWO))
    assert loose.reset(seed=0) and loose.actions([1, 0, 0]) == [2, 1, 0]
    with pytest.raises(hetgym.ConfigError, match="one stage a device"):
        loose.actions([0, 1, 0])
    with pytest.raises(hetgym.ConfigError, match="finished episode"):
        env.unrolled()
    many = [DeviceKind(f"d{k}", 1, float(k + 1)) for k in range(24)]
    with pytest.raises(hetgym.ProblemError, match="sets"):
        HetPipelineEnv(PipelineProblem.chain(np.ones((4, 24)), many)).reset(seed=0)
    with pytest.raises(hetgym.ProblemError, match="backward operators of its own"):
        HetPipelineEnv(skips(np.random.default_rng(0)), objective="training").reset(seed=0)
    for bad in ({"stash": -1.0}, {"backward": [1.0, 2.0]}, {"state": "much"}, {"weight": math.nan}):
        with pytest.raises(hetgym.ProblemError, match="training of 'four'"):
            TrainingPipeline(CHAIN, **bad)
    with pytest.raises(hetgym.ProblemError, match="holds no pipeline"):
        RandomChains(blocks=(3, 2))
