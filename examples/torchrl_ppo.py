"""Train TorchRL's PPO to place operators, with the action mask; needs ``torchrl`` (written for 0.14)."""

from __future__ import annotations

import argparse

import gymnasium as gym
import torch
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.collectors import Collector
from torchrl.envs import ActionMask, DTypeCastTransform, GymWrapper, TransformedEnv
from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import hetgym  # noqa: F401  (registers the environments)

LANES, STEPS = 32, 64
SMALL = {"observation": "candidates", "completion": "off"}  # a row for each device, without roll-outs


def make(seed: int) -> TransformedEnv:
    """All lanes as one TorchRL environment; ``ActionMask`` keeps its random actions legal, too."""
    lanes = gym.make_vec("HetSchedule-v0", num_envs=LANES, autoreset_mode="Disabled", **SMALL)
    env = TransformedEnv(GymWrapper(lanes, categorical_action_encoding=True))
    env.append_transform(DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"]))
    env.append_transform(ActionMask())
    env.set_seed(seed)
    return env


class Rows(nn.Module):
    """Scores every device by its own row and the mean over all rows; ``value`` reads the mean alone."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.row = nn.Sequential(nn.Linear(columns, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.score = nn.Sequential(nn.Linear(128, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, candidates: Tensor, devices: Tensor) -> Tensor:
        """[..., D] a score for each device."""
        rows = self.row(torch.cat([candidates, devices], dim=-1))
        return self.score(torch.cat([rows, rows.mean(dim=-2, keepdim=True).expand_as(rows)], dim=-1)).squeeze(-1)


class Value(nn.Module):
    """The value of a state, from the mean over its rows."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.row = nn.Sequential(nn.Linear(columns, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.value = nn.Linear(64, 1)

    def forward(self, candidates: Tensor, devices: Tensor) -> Tensor:
        """[..., 1] the value."""
        return self.value(self.row(torch.cat([candidates, devices], dim=-1)).mean(dim=-2))


def mean_return(actor: ProbabilisticActor) -> float:
    """Mean return of the first episode in each lane, on problems that training does not see."""
    env = make(10_000)
    with torch.no_grad():
        played = env.rollout(200, actor, break_when_any_done=False)
    ended = played["next", "done"].cumsum(1)  # episodes that have ended, the step's own included
    assert bool((ended[:, -1] > 0).all())
    first = ended - played["next", "done"].long() == 0
    return float((played["next", "reward"] * first).sum(1).mean())


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=300_000)
steps = parser.parse_args().steps
torch.manual_seed(0)
env = make(0)
columns = sum(env.observation_spec[key].shape[-1] for key in ("candidates", "devices"))
scores = TensorDictModule(Rows(columns), in_keys=["candidates", "devices"], out_keys=["logits"])
actor = ProbabilisticActor(
    scores,
    in_keys={"logits": "logits", "mask": "action_mask"},
    distribution_class=MaskedCategorical,
    spec=env.action_spec,
    return_log_prob=True,
)
critic = ValueOperator(Value(columns), in_keys=["candidates", "devices"])
advantage = GAE(gamma=1.0, lmbda=0.95, value_network=critic)
loss = ClipPPOLoss(actor, critic, entropy_coeff=0.003, critic_coeff=0.5, normalize_advantage=True)
optimiser = torch.optim.Adam(loss.parameters(), 1e-3)
print(f"return before {mean_return(actor):+.3f} (HEFT is 0)", flush=True)
for batch in Collector(
    env,
    actor,
    frames_per_batch=LANES * STEPS,
    total_frames=max(steps, LANES * STEPS),
    auto_register_policy_transforms=True,
):
    for _ in range(5):
        with torch.no_grad():
            advantage(batch)
        flat = batch.reshape(-1)
        for part in torch.randperm(len(flat)).split(512):
            terms = loss(flat[part])
            optimiser.zero_grad()
            (terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]).backward()
            nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
            optimiser.step()
print(f"return after  {mean_return(actor):+.3f}")
