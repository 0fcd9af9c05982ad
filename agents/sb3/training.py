"""Training by PPO of Stable-Baselines3 and MaskablePPO of sb3-contrib, from a recipe."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from hetgym._kernels.threads import cores
from hetgym.agents.checkpoint import Checkpoint, numpy_state, restore_numpy
from hetgym.agents.distributed.crew import RayCluster
from hetgym.agents.distributed.lanes import RayLanes
from hetgym.agents.network_policy import check_fits, start_from
from hetgym.agents.networks._torch import torch
from hetgym.agents.networks.actor_critic import ActorCritic
from hetgym.agents.recipe import Recipe
from hetgym.agents.run import TrainingRun
from hetgym.agents.sb3.loading import algorithm_class
from hetgym.agents.sb3.policies import POLICIES
from hetgym.agents.sb3.settings import PPOSettings
from hetgym.envs.sb3 import LaneVecEnv, make_vec_env
from hetgym.errors import ArtefactError, ConfigError, require

if TYPE_CHECKING:
    BaseCallback: Any
    KVWriter: Any
    Logger: Any
else:
    BaseCallback = require("stable_baselines3.common.callbacks", "agents", "training").BaseCallback
    _logger = require("stable_baselines3.common.logger", "agents", "training")
    KVWriter, Logger = _logger.KVWriter, _logger.Logger


def train(run: TrainingRun) -> ActorCritic:
    """Train by PPO or MaskablePPO; see :attr:`hetgym.agents.Algorithm.trainer`."""
    recipe = run.recipe
    torch.set_num_threads(min(recipe.threads, cores()))
    model = build(recipe, run.cluster)
    network: ActorCritic = model.policy.network
    with closing(model.get_env()):
        check_fits(network, run.evaluator.observation_space)
        model.set_logger(Logger(folder=None, output_formats=[_Curves(run)]))
        done = 0
        if run.checkpoint is not None:
            done = restore(model, run.checkpoint)
        elif recipe.start:
            start_from(network, recipe.start)
        else:
            network.begin_as(recipe.rule)
        model.learn(max(0, recipe.steps - done), callback=_Between(run), reset_num_timesteps=done == 0)
        run.between(model.num_timesteps, network, lambda: snapshot(model), last=True)
    return network


def build(recipe: Recipe, cluster: RayCluster | None = None) -> Any:
    """The model of Stable-Baselines3 that a recipe describes, with its lanes: of the Ray cluster, or of this process.

    Raises:
        ConfigError: the size of an update is not a multiple of that of a minibatch.
    """
    settings: PPOSettings = recipe.parsed_settings()
    if recipe.lanes * settings.n_steps % settings.batch_size:
        raise ConfigError(
            f"an update has {recipe.lanes} lanes * {settings.n_steps} n_steps = {recipe.lanes * settings.n_steps} "
            f"steps, which is not a multiple of batch_size {settings.batch_size}"
        )
    if cluster is None:
        envs = make_vec_env(recipe.env, recipe.lanes, recipe.seed, **recipe.environment())
    else:
        envs = LaneVecEnv(RayLanes(cluster, recipe), recipe.seed)
    rate, given = settings.learning_rate, dict(vars(settings))
    if given.pop("anneal_lr"):
        given["learning_rate"] = lambda remaining: remaining * rate
    sizes = {"features_extractor_kwargs": vars(recipe.network)}
    model = algorithm_class(recipe.algorithm)
    return model(POLICIES[recipe.algorithm], envs, **given, policy_kwargs=sizes, seed=recipe.seed, device="cpu")


def snapshot(model: Any) -> Checkpoint:
    """The complete state of the training, between an update and the next roll-out."""
    lanes: LaneVecEnv = model.get_env()
    state = {"updates": model._n_updates, "lanes": lanes.state(), "numpy": numpy_state()}
    state["episodes"] = list(model.ep_info_buffer)
    return Checkpoint.of(model.num_timesteps, model.policy.network, model.policy.optimizer, state)


def restore(model: Any, found: Checkpoint) -> int:
    """Restore a checkpoint into a new model; the steps done. Raises ArtefactError: it is not of such a model."""
    lanes: LaneVecEnv = model.get_env()
    try:
        model._last_obs = lanes.restore(found.state["lanes"])
        model._last_episode_starts = np.array([not state["actions"] for state in found.state["lanes"]])
        model._n_updates = int(found.state["updates"])
        model.ep_info_buffer = deque(found.state["episodes"], maxlen=model._stats_window_size)
        model.ep_success_buffer = deque(maxlen=model._stats_window_size)
        restore_numpy(found.state["numpy"])
    except (ArtefactError, AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ArtefactError(f"the checkpoint belongs to another recipe ({error})") from error
    found.restore(model.policy.network, model.policy.optimizer)
    model.num_timesteps = found.step
    return found.step


class _Between(BaseCallback):
    """Lets the run evaluate and write checkpoints before each roll-out, when no episode data are pending."""

    def __init__(self, run: TrainingRun) -> None:
        super().__init__()
        self.run = run

    def _on_rollout_start(self) -> None:
        model = self.model
        self.run.between(model.num_timesteps, model.policy.network, lambda: snapshot(model))

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        shares = [episode["illegal_share"] for episode in self.model.ep_info_buffer if "illegal_share" in episode]
        if shares:
            self.logger.record("rollout/illegal_share", float(np.mean(shares)))


class _Curves(KVWriter):
    """Passes the log of Stable-Baselines3 on to the run's curves."""

    def __init__(self, run: TrainingRun) -> None:
        self.run = run

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        """Log numbers; see Stable-Baselines3."""
        numbers = {
            name: float(value)
            for name, value in key_values.items()
            if isinstance(value, int | float | np.number) and "tensorboard" not in (key_excluded.get(name) or ())
        }
        numbers["time/steps_per_second"] = self.run.speed(step)
        numbers.pop("time/fps", None)
        self.run.log(step, numbers)

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
