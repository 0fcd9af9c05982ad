"""TorchRL: its wrapper of Gymnasium finds the masks, and its transform keeps random actions legal, too."""

from __future__ import annotations

import time
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from libraries import recipe

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("torchrl")
    import torch
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torch import nn
    from torchrl.collectors import Collector
    from torchrl.envs import ActionMask, DTypeCastTransform, GymEnv, GymWrapper, TransformedEnv, check_env_specs
    from torchrl.envs.utils import ExplorationType, set_exploration_type
    from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

pytestmark = pytest.mark.filterwarnings("ignore")  # of the library


def masked(env: Any) -> TransformedEnv:
    """The environment with the two transforms that masks need."""
    env = TransformedEnv(env)
    env.append_transform(DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"]))
    env.append_transform(ActionMask())
    return env


@pytest.mark.parametrize("lanes", [0, 3])
@pytest.mark.parametrize("name", recipe.EVERY)
def test_every_environment_is_played_within_its_masks(name: str, lanes: int) -> None:
    arguments = {"observation": "candidates", **recipe.EVERY[name]}

    def made() -> TransformedEnv:
        if lanes:
            envs = gym.make_vec(name, num_envs=lanes, autoreset_mode="Disabled", **arguments)
            env = masked(GymWrapper(envs, categorical_action_encoding=True))
        else:
            env = masked(GymEnv(name, categorical_action_encoding=True, **arguments))
        env.set_seed(0)
        torch.manual_seed(0)
        return env

    check_env_specs(made(), seed=0)
    played = [made().rollout(120, break_when_any_done=False) for _ in range(2)]
    mask, action = played[0]["action_mask"], played[0]["action"]
    assert mask.gather(-1, action[..., None]).all() and not mask.all()
    assert (played[0]["next", "candidates"] == played[1]["next", "candidates"]).all()
    assert played[0]["next", "done"].any()


class Network(nn.Module):
    """Layers over the candidates and the devices as one vector."""

    def __init__(self, env: TransformedEnv, outputs: int) -> None:
        super().__init__()
        inputs = sum(env.observation_spec[key].shape[-2:].numel() for key in KEYS)
        hidden, more = recipe.HIDDEN
        layers = nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, more), nn.Tanh(), nn.Linear(more, outputs)
        self.layers = nn.Sequential(*layers)

    def forward(self, *seen: torch.Tensor) -> torch.Tensor:
        return self.layers(torch.cat(seen, -1).flatten(-2))


KEYS = ["candidates", "devices"]


@pytest.mark.slow
def test_an_agent_learns() -> None:
    began = time.perf_counter()
    torch.manual_seed(recipe.SEED)
    arguments = recipe.ARGUMENTS | {"observation": "candidates", "autoreset_mode": "Disabled"}
    lanes = gym.make_vec("HetSchedule-v0", num_envs=recipe.LANES, **arguments)
    env = masked(GymWrapper(lanes, categorical_action_encoding=True))
    env.set_seed(recipe.SEED)
    actor = ProbabilisticActor(
        TensorDictModule(Network(env, env.action_spec.space.n), in_keys=KEYS, out_keys=["logits"]),
        in_keys={"logits": "logits", "mask": "action_mask"},
        distribution_class=MaskedCategorical,
        spec=env.action_spec,
        return_log_prob=True,
    )
    critic = ValueOperator(Network(env, 1), in_keys=KEYS)
    advantage = GAE(gamma=recipe.GAMMA, lmbda=recipe.LAMBDA, value_network=critic)
    loss = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=recipe.CLIP,
        entropy_coeff=recipe.ENTROPY,
        critic_coeff=recipe.VALUE,
        normalize_advantage=True,
    )
    optimiser = torch.optim.Adam(loss.parameters(), recipe.RATE)
    frames = recipe.LANES * recipe.ROUND
    for batch in Collector(env, actor, frames_per_batch=frames, total_frames=recipe.STEPS):
        for _ in range(recipe.EPOCHS):
            with torch.no_grad():
                advantage(batch)
            flat = batch.reshape(-1)
            for part in torch.randperm(len(flat)).split(recipe.BATCH):
                terms = loss(flat[part])
                optimiser.zero_grad()
                (terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), recipe.NORM)
                optimiser.step()

    def choose(seen: dict[str, np.ndarray], mask: np.ndarray) -> int:
        known = {key: torch.as_tensor(seen[key]) for key in KEYS} | {"action_mask": torch.as_tensor(mask)}
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            return int(actor(TensorDict(known))["action"])

    recipe.check("TorchRL", recipe.played(choose, "candidates"), time.perf_counter() - began)
