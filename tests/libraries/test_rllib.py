"""RLlib: its module with action masks looks for them in observations, beside a vector."""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from libraries import recipe

from hetgym.envs.masked import MaskedObservation

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("tree")
    pytest.importorskip("ray.rllib")
    import ray
    import torch
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.columns import Columns
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
    from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule
    from ray.tune.registry import register_env

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library

KEYS = ("observations", "action_mask")


def configured(name: str, arguments: dict[str, Any], lanes: int) -> PPOConfig:
    """PPO with masks on an environment, all of it in this process."""
    layers = DefaultModelConfig(
        fcnet_hiddens=list(recipe.HIDDEN), head_fcnet_hiddens=[], fcnet_activation="tanh", vf_share_layers=False
    )
    register_env(name, lambda settings: MaskedObservation(gym.make(f"hetgym:{name}", **settings), KEYS))
    return (
        PPOConfig()
        .environment(name, env_config={"observation": "flat", **arguments})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=lanes)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=ActionMaskingTorchRLModule, model_config=layers))
        .debugging(seed=recipe.SEED)
    )


@pytest.mark.parametrize("name", recipe.EVERY)
def test_every_environment_is_played_within_its_masks(name: str) -> None:
    played = SingleAgentEnvRunner(config=configured(name, recipe.EVERY[name], 2)).sample(num_episodes=3)
    masks = np.concatenate([episode.get_observations()["action_mask"][:-1] for episode in played])
    actions = np.concatenate([episode.get_actions() for episode in played])
    assert len(played) >= 3 and (masks == 0).any() and (np.take_along_axis(masks, actions[:, None], 1) == 1).all()
    assert all(episode.is_done and episode.get_infos(-1)["illegal_actions"] == 0 for episode in played)


@pytest.mark.parametrize("name", recipe.EVERY)
def test_every_environment_runs_by_its_id(name: str) -> None:
    runs = PPOConfig().environment(f"hetgym:{name}", env_config={"observation": "flat"})
    runs = runs.env_runners(num_env_runners=0, num_envs_per_env_runner=2, gym_env_vectorize_mode="vector_entry_point")
    played = SingleAgentEnvRunner(config=runs.debugging(seed=0)).sample(num_episodes=2, random_actions=True)
    assert len(played) >= 2 and all(np.isfinite(episode.get_return()) for episode in played)


@pytest.mark.slow
def test_an_agent_learns() -> None:
    began = time.perf_counter()
    steps = recipe.LANES * recipe.ROUND
    config = configured("HetSchedule-v0", recipe.ARGUMENTS, recipe.LANES).training(
        train_batch_size_per_learner=steps,
        minibatch_size=recipe.BATCH,
        num_epochs=recipe.EPOCHS,
        lr=recipe.RATE,
        gamma=recipe.GAMMA,
        lambda_=recipe.LAMBDA,
        clip_param=recipe.CLIP,
        entropy_coeff=recipe.ENTROPY,
        vf_loss_coeff=recipe.VALUE,
        grad_clip=recipe.NORM,
        use_kl_loss=False,
    )
    ray.init("local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        algorithm = config.build_algo()
        for _ in range(recipe.STEPS // steps):
            algorithm.train()
        module = algorithm.get_module()
        algorithm.stop()
    finally:
        ray.shutdown()

    def choose(seen: np.ndarray, mask: np.ndarray) -> int:
        parts = (torch.as_tensor(part[None]) for part in (seen, mask.astype(np.float32)))
        with torch.no_grad():
            found = module.forward_inference({Columns.OBS: dict(zip(KEYS, parts, strict=True))})
        return int(found[Columns.ACTION_DIST_INPUTS].argmax())

    recipe.check("RLlib", recipe.played(choose), time.perf_counter() - began)
