r"""Self-labelling in any environment: play a problem many times, and imitate the best.

Source: Corsini, Porrello, Calderara, Dell'Amico, "Self-Labeling the Job Shop Scheduling Problem", NeurIPS 2024. An
update, top to bottom:

1. Sample episodes: each problem is played by as many lanes as there are samples.
2. Play the best episode of each problem again, for its observations.
3. The loss is the mean over problems of the cross-entropy of its decisions, :math:`-\frac1n \sum_i \log \pi(a_i)`,
   over those with a choice.

The algorithm ``place-labelling``, of the policy place-v1, does the same in compiled code, and keeps its labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray, Int64Array
from hetgym.agents.networks._torch import nn, torch
from hetgym.agents.networks.actor_critic import ActorCritic
from hetgym.agents.run import TrainingRun
from hetgym.agents.training.settings import SelfLabellingSettings
from hetgym.agents.training.updates import begin, clear, floats, train_by
from hetgym.envs.core.autoreset import make_lanes
from hetgym.envs.core.lanes import Lanes

Label = list[tuple[dict[str, npt.NDArray[Any]], int]]  # Observations with a choice, and the action to imitate


def train(run: TrainingRun) -> ActorCritic:
    """Train by self-labelling; steps of the recipe are decisions. See :attr:`hetgym.agents.Algorithm.trainer`."""
    recipe = run.recipe
    settings: SelfLabellingSettings = recipe.parsed_settings()
    samples = settings.samples
    many, one = (make_lanes(recipe.env, n, **recipe.environment()) for n in (recipe.lanes, recipe.lanes // samples))

    def advance(
        network: ActorCritic, optimizer: torch.optim.Optimizer, seed: tuple[int, int], left: float
    ) -> tuple[int, dict[str, float]]:
        action, choice, reward, decisions = sample(network, many, seed, samples)
        returns = reward.reshape(-1, samples)
        best = returns.argmax(1) + samples * np.arange(len(returns))
        labels = [label for label in relive(one, seed, action[:, best], choice[:, best]) if label]
        figures = {"return": float(reward.mean())}
        for _ in range(settings.passes if labels else 0):
            clear(network)
            figures["loss"] = float(np.sum([_learn(network, label, len(labels)) for label in labels]))
            figures["gradient"] = float(nn.utils.clip_grad_norm_(network.parameters(), settings.clip))
            optimizer.step()
        return decisions, figures | {"best": float(returns.max(1).mean())}

    return train_by(run, samples, advance)


def sample(
    network: ActorCritic, lanes: Lanes, seed: tuple[int, int], samples: int
) -> tuple[Int64Array, BoolArray, FloatArray, int]:
    """Play an episode in every lane, ``samples`` lanes in a row alike at first.

    Returns:
        [T, L] actions, and true where there was a choice; [L] returns; the number of decisions.
    """
    begin(lanes, seed, samples)
    rng, total, decisions = np.random.default_rng([*seed, lanes.count]), np.zeros(lanes.count), 0
    actions, choices = [], []
    while not lanes.over.all():
        with torch.no_grad():
            logits = network(floats(dict(lanes.seen)))[0].numpy()
        active = ~lanes.over
        actions.append((logits + rng.gumbel(size=logits.shape)).argmax(axis=1))
        choices.append(active & (np.isfinite(logits).sum(axis=1) > 1))
        lanes.step(actions[-1], active)
        total += np.where(active, lanes.reward, 0.0)
        decisions += int(active.sum())
    return np.stack(actions), np.stack(choices), total, decisions


def relive(lanes: Lanes, seed: tuple[int, int], action: Int64Array, choice: BoolArray) -> list[Label]:
    """The labels of L given episodes, [T, L] each."""
    begin(lanes, seed, 1)
    labels: list[Label] = [[] for _ in range(lanes.count)]
    for taken, matters in zip(action, choice, strict=True):
        for lane in matters.nonzero()[0].tolist():
            seen = {key: part[lane].copy() for key, part in dict(lanes.seen).items()}
            labels[lane].append((seen, int(taken[lane])))
        lanes.step(taken, ~lanes.over)
    return labels


def _learn(network: ActorCritic, label: Label, labels: int) -> float:
    """Add the gradient of a label's loss, which is a mean over ``labels``; the loss."""
    seen = {key: np.stack([each[key] for each, _ in label]) for key in label[0][0]}
    logits, _ = network(floats(seen))
    loss = nn.functional.cross_entropy(logits, torch.tensor([action for _, action in label])) / labels
    loss.backward()
    return float(loss.detach())
