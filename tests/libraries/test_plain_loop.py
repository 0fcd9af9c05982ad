"""No library: PyTorch alone, a loop over lanes that step in one call, and PPO in a few lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
from libraries import recipe

torch = pytest.importorskip("torch")

Tensor = Any


class Network(torch.nn.Module):
    """Logits of the legal actions, and the value of the state."""

    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.actor, self.critic = (self.layers(inputs, outputs) for outputs in (actions, 1))

    @staticmethod
    def layers(inputs: int, outputs: int) -> Any:
        hidden, more = recipe.HIDDEN
        one, two, three = torch.nn.Linear(inputs, hidden), torch.nn.Linear(hidden, more), torch.nn.Linear(more, outputs)
        return torch.nn.Sequential(one, torch.nn.Tanh(), two, torch.nn.Tanh(), three)

    def forward(self, seen: Tensor, mask: Tensor) -> tuple[Any, Tensor]:
        logits = self.actor(seen).masked_fill(~mask, -torch.inf)
        return torch.distributions.Categorical(logits=logits), self.critic(seen).squeeze(-1)


class Round(NamedTuple):
    """What lanes did in some steps, [T, L] each; observations and masks have one more dimension."""

    seen: Tensor
    mask: Tensor
    action: Tensor
    chance: Tensor  # logarithm of the action's probability
    value: Tensor
    reward: Tensor
    over: Tensor
    following: Tensor  # [L] value of what comes after the last step


def rounds(network: Network, envs: Any, steps: int) -> Iterator[Round]:
    """Play on and on; where an episode ends, the lane begins the next one in the same step."""
    seen, info = envs.reset(seed=recipe.SEED)
    while True:
        played = []
        for _ in range(steps):
            state = torch.as_tensor(seen.copy()), torch.as_tensor(info["action_mask"].copy())
            with torch.no_grad():
                policy, value = network(*state)
                action = policy.sample()
            seen, reward, over, _, info = envs.step(action.numpy())
            outcome = torch.as_tensor(reward.copy(), dtype=torch.float32), torch.as_tensor(over.copy())
            played.append((*state, action, policy.log_prob(action), value, *outcome))
        with torch.no_grad():
            following = network(torch.as_tensor(seen), torch.as_tensor(info["action_mask"]))[1]
        yield Round(*map(torch.stack, zip(*played, strict=True)), following)


def advantages(found: Round) -> Tensor:
    """[T, L] generalised advantages."""
    ahead, following = torch.zeros_like(found.following), found.following
    advantage = torch.zeros_like(found.value)
    for step in reversed(range(len(found.value))):
        goes_on = 1.0 - found.over[step].float()
        change = found.reward[step] + recipe.GAMMA * goes_on * following - found.value[step]
        ahead = change + recipe.GAMMA * recipe.LAMBDA * goes_on * ahead
        advantage[step], following = ahead, found.value[step]
    return advantage


def learn(network: Network, optimiser: Any, found: Round) -> None:
    """PPO's passes over one round."""
    gain = advantages(found)
    parts = [
        part.flatten(0, 1) for part in (found.seen, found.mask, found.action, found.chance, gain, gain + found.value)
    ]
    for _ in range(recipe.EPOCHS):
        for batch in torch.randperm(len(parts[0])).split(recipe.BATCH):
            seen, mask, action, before, advantage, target = (part[batch] for part in parts)
            policy, value = network(seen, mask)
            ratio = (policy.log_prob(action) - before).exp()
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            clipped = ratio.clamp(1 - recipe.CLIP, 1 + recipe.CLIP)
            loss = -torch.min(ratio * advantage, clipped * advantage).mean()
            loss = loss + recipe.VALUE * (value - target).square().mean() - recipe.ENTROPY * policy.entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), recipe.NORM)
            optimiser.step()


def made(name: str, lanes: int, **arguments: Any) -> tuple[Any, Network, Any]:
    """Lanes, a network for them, and its optimiser."""
    torch.manual_seed(recipe.SEED)
    envs = gym.make_vec(name, num_envs=lanes, autoreset_mode="SameStep", observation="flat", **arguments)
    network = Network(envs.single_observation_space.shape[0], int(envs.single_action_space.n))
    return envs, network, torch.optim.Adam(network.parameters(), recipe.RATE)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in ("HetImprove-v0", "HetSplit-v0") else name
        for name in recipe.EVERY
    ],
)
def test_every_environment_is_played_within_its_masks(name: str) -> None:
    envs, network, optimiser = made(name, 2, **recipe.EVERY[name])
    found = next(rounds(network, envs, 120))
    assert found.over.any() and not found.mask.all() and found.mask.gather(-1, found.action[..., None]).all()
    learn(network, optimiser, found)
    assert all(weights.isfinite().all() for weights in network.parameters())


@pytest.mark.slow
def test_an_agent_learns() -> None:
    began = time.perf_counter()
    envs, network, optimiser = made("HetSchedule-v0", recipe.LANES, **recipe.ARGUMENTS)
    for _, found in zip(
        range(recipe.STEPS // (recipe.LANES * recipe.ROUND)), rounds(network, envs, recipe.ROUND), strict=False
    ):
        learn(network, optimiser, found)

    def choose(seen: np.ndarray, mask: np.ndarray) -> int:
        with torch.no_grad():
            return int(network(torch.as_tensor(seen), torch.as_tensor(mask))[0].logits.argmax())

    recipe.check("plain loop", recipe.played(choose), time.perf_counter() - began)
