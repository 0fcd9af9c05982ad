"""Train MaskablePPO to place operators, all lanes stepping in one call; needs ``hetgym[agents]``."""

from __future__ import annotations

import argparse

import numpy as np
import torch
from sb3_contrib import MaskablePPO

from hetgym.envs.sb3 import make_vec_env

LANES = 64
SMALL = {"observation": "flat", "completion": "off"}  # candidate features without roll-outs


def mean_return(model: MaskablePPO) -> float:
    """Mean return of an episode in each lane, on problems that training does not see."""
    envs = make_vec_env("HetSchedule-v0", LANES, seed=10_000, **SMALL)
    observations, returns = envs.reset(), np.full(LANES, np.nan)
    while np.isnan(returns).any():
        actions, _ = model.predict(observations, deterministic=True, action_masks=envs.action_masks())
        observations, _, dones, infos = envs.step(actions)
        for lane in np.flatnonzero(dones & np.isnan(returns)):
            returns[lane] = infos[lane]["episode"]["r"]
    return float(returns.mean())


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=300_000)
steps = parser.parse_args().steps
torch.set_num_threads(1)
envs = make_vec_env("HetSchedule-v0", LANES, seed=0, **SMALL)
model = MaskablePPO(
    "MlpPolicy", envs, n_steps=64, batch_size=512, n_epochs=5, learning_rate=1e-3, gamma=1.0, seed=0, device="cpu"
)
print(f"return before {mean_return(model):+.3f} (HEFT is 0)")
model.learn(steps)
print(f"return after  {mean_return(model):+.3f}")
