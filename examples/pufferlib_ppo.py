"""Train PufferLib's PPO to place operators, lanes writing into its buffers; needs ``pufferlib`` (written for 3.0).

PufferLib 3.0 pins older releases of NumPy and Gymnasium than hetgym needs; ``docs/how-to/use-another-library.md`` says
how to install it.
"""

from __future__ import annotations

import argparse

import numpy as np
import pufferlib.pufferl
import pufferlib.vector
import torch
from torch import Tensor, nn

from hetgym.envs.puffer import LanePufferEnv

LANES, STEPS = 64, 64


class Masked(nn.Module):
    """A perceptron whose logits are low where the mask, the end of the observation, is 0."""

    def __init__(self, env: LanePufferEnv) -> None:
        super().__init__()
        self.actions = int(env.single_action_space.n)
        features = env.single_observation_space.shape[0] - self.actions
        self.body = nn.Sequential(nn.Linear(features, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh())
        self.logits, self.value = nn.Linear(128, self.actions), nn.Linear(128, 1)

    def forward(self, observations: Tensor, state: object = None) -> tuple[Tensor, Tensor]:
        """Logits and values of observations."""
        hidden = self.body(observations[..., : -self.actions])
        legal = observations[..., -self.actions :] > 0
        return self.logits(hidden).masked_fill(~legal, -1e9), self.value(hidden)

    forward_eval = forward


class Quiet(pufferlib.pufferl.PuffeRL):
    """The trainer without its dashboard."""

    def print_dashboard(self, *_: object, **__: object) -> None:
        """Print nothing."""


def mean_return(policy: Masked) -> float:
    """Mean return of an episode in each lane, on problems that training does not see."""
    env = pufferlib.vector.make(LanePufferEnv, env_args=["HetSchedule-v0", LANES], env_kwargs={"completion": "off"})
    observations, _ = env.reset(10_000)
    total, returns = np.zeros(LANES), np.full(LANES, np.nan)
    while np.isnan(returns).any():
        with torch.no_grad():
            logits, _ = policy(torch.as_tensor(observations))
        observations, rewards, ended, _, _ = env.step(logits.argmax(-1).numpy())
        total += rewards
        first = ended & np.isnan(returns)
        returns[first] = total[first]
    return float(returns.mean())


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=300_000)
steps = parser.parse_args().steps
torch.manual_seed(0)
env = pufferlib.vector.make(LanePufferEnv, env_args=["HetSchedule-v0", LANES], env_kwargs={"completion": "off"})
policy = Masked(env)
print(f"return before {mean_return(policy):+.3f} (HEFT is 0)", flush=True)
config = {
    **{"seed": 0, "torch_deterministic": True, "cpu_offload": False, "device": "cpu", "precision": "float32"},
    **{"optimizer": "adam", "learning_rate": 1e-3, "anneal_lr": False, "max_grad_norm": 0.5},
    **{"adam_beta1": 0.9, "adam_beta2": 0.999, "adam_eps": 1e-8, "compile": False, "use_rnn": False},
    **{"batch_size": "auto", "bptt_horizon": STEPS, "minibatch_size": 512, "max_minibatch_size": 512},
    **{"total_timesteps": max(steps, LANES * STEPS), "update_epochs": 5, "gamma": 1.0, "gae_lambda": 0.95},
    **{"clip_coef": 0.2, "vf_coef": 0.5, "vf_clip_coef": 0.2, "ent_coef": 0.003},
    **{"vtrace_rho_clip": 1.0, "vtrace_c_clip": 1.0, "prio_alpha": 0.0, "prio_beta0": 1.0},
    **{"data_dir": "experiments", "checkpoint_interval": 10**9, "env": "HetSchedule-v0"},
}
trainer = Quiet(config, env, policy)
try:
    while trainer.global_step < config["total_timesteps"]:
        trainer.evaluate()
        trainer.train()
    print(f"return after  {mean_return(policy):+.3f}")
finally:
    trainer.utilization.stop()  # a thread for which Python would wait for ever
