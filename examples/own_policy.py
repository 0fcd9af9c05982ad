"""A policy of your own in one file: its network, its loss, its recipe, and a row of the benchmark's table.

``python examples/own_policy.py`` trains it, resumes where it was stopped, and compares it with heuristics.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

import hetgym
from hetgym.agents import Algorithm, Checkpoint, TrainingRun, load_recipe
from hetgym.agents.networks import ActionFeatures
from hetgym.envs.sb3 import make_vec_env
from hetgym.planning import register
from hetgym.workloads import load_suite


class Attention(ActionFeatures):
    """The network: features of each action, and of the others by attention."""

    def __init__(self, view: str, level: str, sizes: Any) -> None:
        super().__init__(view, level, sizes)
        self.embed = torch.nn.Linear(self.size, sizes.embedding)
        self.attend = torch.nn.MultiheadAttention(sizes.embedding, 4, batch_first=True)
        self.size += sizes.embedding

    def forward(self, seen: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Describe each action of each lane, and say which are legal."""
        known, mask = super().forward(seen)  # [lanes, actions, features], [lanes, actions]
        x = self.embed(known)
        others, _ = self.attend(x, x, x, key_padding_mask=~mask)
        return torch.cat([known, others], -1), mask


@dataclass(frozen=True)
class Settings:
    """What ``settings:`` of the recipe may hold."""

    learning_rate: float = 3e-4
    length: int = 32  # steps of each lane between two updates
    entropy: float = 1e-3  # weight of the entropy, which keeps the policy from settling early


def loss_of(logits: torch.Tensor, values: torch.Tensor, actions: torch.Tensor, returns: torch.Tensor, entropy: float):
    """The loss: policy gradient with the value as its baseline (A2C); [steps, lanes, …] each."""
    policy = torch.distributions.Categorical(logits=logits)
    advantage = (returns - values).detach()
    gradient = -(policy.log_prob(actions) * advantage).mean()
    return gradient + 0.5 * (returns - values).square().mean() - entropy * policy.entropy().mean()


def train(run: TrainingRun) -> torch.nn.Module:
    """Take a run to its end, from its checkpoint if it has one."""
    recipe, settings = run.recipe, run.recipe.parsed_settings()
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(1)  # sums round differently with several
    envs = make_vec_env(recipe.env, recipe.lanes, recipe.seed, **recipe.environment())
    network = run.network()
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
    step = 0
    if run.checkpoint is None:
        seen = envs.reset()
    else:
        step, seen = run.checkpoint.step, envs.restore(run.checkpoint.state["lanes"])
        run.checkpoint.restore(network, optimizer)

    def snapshot() -> Checkpoint:
        return Checkpoint.of(step, network, optimizer, {"lanes": envs.state()})

    run.between(step, network, snapshot)
    while step < recipe.steps:
        played = []
        for _ in range(settings.length):
            scores, value = network({key: torch.as_tensor(array) for key, array in seen.items()})
            action = torch.distributions.Categorical(logits=scores).sample()
            seen, reward, over, _ = envs.step(action.numpy())
            played.append((scores, value, action, torch.as_tensor(reward), torch.as_tensor(over)))
        with torch.no_grad():
            _, ahead = network({key: torch.as_tensor(array) for key, array in seen.items()})
        logits, values, actions, rewards, ends = map(torch.stack, zip(*played, strict=True))
        returns = torch.empty_like(rewards)
        for k in range(settings.length - 1, -1, -1):  # undiscounted, so that it is the environment's own return
            ahead = returns[k] = rewards[k] + torch.where(ends[k], 0.0, ahead)
        optimizer.zero_grad()
        loss = loss_of(logits, values, actions, returns, settings.entropy)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        optimizer.step()
        step += settings.length * recipe.lanes
        run.log(step, {"train/loss": float(loss.detach())})
        run.between(step, network, snapshot, last=step >= recipe.steps)
    return network


A2C = Algorithm(Settings, train, "A2C with attention", shares=False, env="HetSchedule-v0", reads=())


RECIPE = """
algorithm: own_policy:A2C
env: HetSchedule-v0
steps: 200_000
arguments: {observation: candidates}
network: {hidden: 32, embedding: 16, features: "own_policy:Attention"}
"""


policy = cache(hetgym.agents.load)  # read once


@register("own-policy", kind="policy", citation="this file", complexity="O(n p^2)")
def own_policy(problem: hetgym.Problem, file: str = "results/own-policy/policy.safetensors") -> hetgym.Schedule:
    """The benchmark row: one episode of the trained policy."""
    return policy(file).plan(problem)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, help="instead of those of the recipe")
    parser.add_argument("--folder", type=Path, default=Path("results/own-policy"))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    (arguments.folder / "recipe.yaml").write_text(RECIPE)  # for `hetgym train`, too
    changes = {} if arguments.steps is None else {"steps": arguments.steps}
    run = TrainingRun(load_recipe(arguments.folder / "recipe.yaml", **changes), arguments.folder)
    run.train()
    print(f"return {run.results()['final']['return']:.4f} on problems that it was not trained on")
    row = hetgym.baselines.get("own-policy", file=str(arguments.folder / "policy.safetensors"))
    result = hetgym.bench.run(
        load_suite("quick").specs, [row, *map(hetgym.baselines.get, ("heft", "peft"))], ["classic"]
    )
    for line in hetgym.bench.summarise(result.rows):
        print(f"{line.scheduler:12}  gap to best {line.gap_to_best:7.2%}")


if __name__ == "__main__":
    main()
