"""Train RLlib's PPO to place operators, with masks from the observation; needs ``ray[rllib]`` and torch.

RLlib 2.60 pins gymnasium 1.2.2, so give it an environment of its own:
``pip install "ray[rllib]" torch -e . && python examples/rllib_ppo.py``.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import gymnasium as gym
import numpy as np

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
import torch
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.tune.registry import register_env
from torch import Tensor, nn

LANES = 64
SMALL = {"observation": "candidates", "completion": "off"}  # a row for each device, without roll-outs


class PlacingModule(TorchRLModule, ValueFunctionAPI):
    """Scores every device by its own row and the mean over all rows; masked devices get no probability."""

    def setup(self) -> None:
        """Make the three networks; RLlib calls it."""
        spaces = self.observation_space.spaces
        columns = sum(spaces[key].shape[-1] for key in ("candidates", "devices"))
        self.row = nn.Sequential(nn.Linear(columns, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.score = nn.Sequential(nn.Linear(128, 64), nn.Tanh(), nn.Linear(64, 1))
        self.value = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def _rows(self, batch: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """[B, D, 64] an embedding of each device, and [B, 64] their mean."""
        observation = batch[Columns.OBS]
        rows = self.row(torch.cat([observation["candidates"], observation["devices"]], dim=-1))
        return rows, rows.mean(dim=-2)

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Tensor]:
        rows, mean = self._rows(batch)
        logits = self.score(torch.cat([rows, mean.unsqueeze(-2).expand_as(rows)], dim=-1)).squeeze(-1)
        legal = batch[Columns.OBS]["action_mask"] > 0
        return {Columns.ACTION_DIST_INPUTS: logits.masked_fill(~legal, -1e9)}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """[B] of states, whatever device is chosen in them."""
        return self.value(self._rows(batch)[1]).squeeze(-1)


def make(config: dict[str, Any]) -> gym.Env:
    return gym.make("hetgym:HetSchedule-v0", **config)


def mean_return(algorithm: PPO) -> float:
    """Mean return of an episode in each lane, on problems that training does not see."""
    module = algorithm.get_module()
    envs = gym.make_vec("hetgym:HetSchedule-v0", num_envs=LANES, **SMALL)
    observations, _ = envs.reset(seed=10_000)
    total, returns = np.zeros(LANES), np.full(LANES, np.nan)
    while np.isnan(returns).any():
        batch = {Columns.OBS: {key: torch.as_tensor(np.array(value)) for key, value in observations.items()}}
        with torch.no_grad():
            logits = module.forward_inference(batch)[Columns.ACTION_DIST_INPUTS]
        observations, rewards, ended, _, _ = envs.step(logits.argmax(dim=-1).numpy())
        total += np.where(np.isnan(returns), rewards, 0.0)
        returns[ended & np.isnan(returns)] = total[ended & np.isnan(returns)]
    return float(returns.mean())


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--iterations", type=int, default=60, help="of 4096 steps each")
parser.add_argument("--runners", type=int, default=1, help="processes that play; 0: the one that learns")
parser.add_argument("--address", default="local", help="of a Ray cluster: auto, host:port, or local to start one")
options = parser.parse_args()

ray.init(options.address, include_dashboard=False if options.address == "local" else None, log_to_driver=False)
register_env("HetSchedule", make)
config = (
    PPOConfig()
    .environment("HetSchedule", env_config=SMALL)
    .env_runners(num_env_runners=options.runners, num_envs_per_env_runner=16)
    .rl_module(rl_module_spec=RLModuleSpec(module_class=PlacingModule))
    .training(
        train_batch_size_per_learner=4096,
        minibatch_size=512,
        num_epochs=5,
        lr=1e-3,
        gamma=1.0,
        lambda_=0.95,
        entropy_coeff=0.003,
        vf_loss_coeff=0.5,
        use_kl_loss=False,
    )
    .debugging(seed=0)
)
algorithm = config.build_algo()
print(f"return before {mean_return(algorithm):+.3f} (HEFT is 0)", flush=True)
for number in range(1, options.iterations + 1):
    result = algorithm.train()
    if number % 10 == 0:
        played = result["env_runners"]["episode_return_mean"]
        print(f"{number:4d} iterations: return while training {played:+.3f}", flush=True)
print(f"return after  {mean_return(algorithm):+.3f}")
algorithm.stop()
ray.shutdown()
