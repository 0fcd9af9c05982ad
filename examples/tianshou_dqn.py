"""Train Tianshou's DQN to place operators, with the action mask; needs ``tianshou`` (written for 2.0)."""

from __future__ import annotations

import argparse
import logging

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

import hetgym  # noqa: F401  (registers the environments)
from hetgym.envs.masked import MaskedObservation

LANES, EPOCH = 16, 4096


def make() -> MaskedObservation:
    """One environment, candidate features without roll-outs; its observations hold the mask beside the features."""
    return MaskedObservation(gym.make("HetSchedule-v0", observation="flat", completion="off"))


def make_lanes(seed: int) -> DummyVectorEnv:
    """Environments of which each goes on with a generator of its own."""
    envs = DummyVectorEnv([make] * LANES)
    envs.seed(list(range(seed, seed + LANES)))
    return envs


def mean_return(policy: DiscreteQLearningPolicy) -> float:
    """Mean return of greedy episodes on problems that training does not see."""
    found = Collector[CollectStats](policy, make_lanes(10_000)).collect(n_episode=64, reset_before_collect=True)
    return float(found.returns.mean())


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=40_000)
steps = parser.parse_args().steps
logging.disable(logging.WARNING)
np.random.seed(0)  # noqa: NPY002  (Tianshou explores with NumPy's global generator)
torch.manual_seed(0)
envs = make_lanes(0)
space, actions = make().observation_space["obs"], make().action_space
network = Net(state_shape=space.shape, action_shape=actions.n, hidden_sizes=[128, 128])
policy = DiscreteQLearningPolicy(model=network, action_space=actions, eps_training=0.1)
algorithm = DQN(
    policy=policy, optim=AdamOptimizerFactory(lr=5e-4), gamma=1.0, n_step_return_horizon=5, target_update_freq=200
)
print(f"return before {mean_return(policy):+.3f} (HEFT is 0)", flush=True)
algorithm.run_training(
    OffPolicyTrainerParams(
        training_collector=Collector[CollectStats](policy, envs, VectorReplayBuffer(50_000, LANES)),
        test_collector=None,
        max_epochs=max(1, steps // EPOCH),
        epoch_num_steps=min(steps, EPOCH),
        collection_step_num_env_steps=LANES * 8,
        update_step_num_gradient_steps_per_sample=0.1,
        batch_size=256,
        test_in_training=False,
        show_progress=False,
        verbose=False,
    )
)
print(f"return after  {mean_return(policy):+.3f}")
