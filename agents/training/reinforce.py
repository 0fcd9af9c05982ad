r"""REINFORCE: the policy gradient of whole episodes, for any environment.

Source: Williams, Machine Learning 1992; with the critic as its baseline this is A2C without bootstrapping (Mnih et al.,
ICML 2016). An update, top to bottom:

1. Play an episode in every lane. Problems, starts and sampled actions depend on the recipe's seed and the number of the
   update alone, so that a checkpoint needs no state of episodes.
2. Advantages are discounted returns :math:`G_t = \sum_{k \ge t} \gamma^{k-t} r_k` less a baseline.
3. The loss is :math:`-\frac1T \sum_t A_t \log \pi(a_t)`, with the critic's error and an entropy, and at first with
   :math:`-\log \pi(\text{approved actions})` of a teacher. Its gradient is summed over batches of decisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import BoolArray, FloatArray, Int64Array
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.actor_critic import ActorCritic
from hetgym.agents.run import TrainingRun
from hetgym.agents.training.settings import ReinforceSettings
from hetgym.agents.training.teachers import Teacher
from hetgym.agents.training.updates import begin, clear, floats, train_by
from hetgym.envs.core.autoreset import make_lanes
from hetgym.envs.core.lanes import Lanes

SMALL = 3e-3  # Deviation of returns on a problem below which differences matter little, as shares of the reference


def train(run: TrainingRun) -> ActorCritic:
    """Train by REINFORCE; steps of the recipe are decisions. See :attr:`hetgym.agents.Algorithm.trainer`."""
    recipe = run.recipe
    settings: ReinforceSettings = recipe.parsed_settings()
    lanes = make_lanes(recipe.env, recipe.lanes, **recipe.environment())
    teacher = Teacher(settings.imitate, lanes, settings.plays) if settings.imitate else None

    def advance(
        network: ActorCritic, optimizer: torch.optim.Optimizer, seed: tuple[int, int], left: float
    ) -> tuple[int, dict[str, float]]:
        taught = max(0.0, 1.0 - (1.0 - left) / settings.imitation) if teacher is not None else 0.0
        episodes = play(network, lanes, seed, settings.plays, teacher if taught > 0.0 else None)
        values = learn(network, optimizer, episodes, settings, taught)
        values["return"] = float(episodes.reward.sum() / recipe.lanes)
        return int(episodes.active.sum()), values

    return train_by(run, settings.plays, advance)


@dataclass
class Played:
    """Episodes of L lanes side by side, of up to T decisions."""

    seen: list[dict[str, npt.NDArray[Any]]]  # T observations [L, …] by key; those that do not change are shared
    action: Int64Array  # [T, L]
    reward: FloatArray  # [T, L], 0 after the end
    value: FloatArray  # [T, L] the critic's
    active: BoolArray  # [T, L] false after the end
    approved: list[BoolArray]  # T of [L, A], the actions that the teacher approves of; empty without one


def play(
    network: ActorCritic, lanes: Lanes, seed: tuple[int, int], plays: int, teacher: Teacher | None = None
) -> Played:
    """Play an episode in every lane with sampled actions; ``plays`` lanes in a row begin it alike."""
    begin(lanes, seed, plays)
    if teacher is not None:
        teacher.begin()
    rng = np.random.default_rng([*seed, lanes.count])
    seen: list[dict[str, npt.NDArray[Any]]] = []
    taken: list[tuple[Any, ...]] = []
    approved: list[BoolArray] = []
    while not lanes.over.all():
        active, now = ~lanes.over, dict(lanes.seen)
        last = seen[-1] if seen else now
        seen.append({k: last[k] if seen and np.array_equal(last[k], part) else part.copy() for k, part in now.items()})
        if teacher is not None:
            approved.append(teacher.approved())
        with torch.no_grad():
            logits, value = network(floats(now))
        action = (logits.numpy() + rng.gumbel(size=lanes.mask.shape)).argmax(axis=1)
        lanes.step(action, active)
        taken.append((action, np.where(active, lanes.reward, 0.0), value.numpy(), active))
    action, reward, value, active = (np.stack(parts) for parts in zip(*taken, strict=True))
    return Played(seen, action, reward, value, active, approved)


def learn(
    network: ActorCritic, optimizer: torch.optim.Optimizer, of: Played, settings: ReinforceSettings, taught: float
) -> dict[str, float]:
    """Make one update from episodes, a share ``taught`` of it from the teacher; the figures to log."""
    total, parts = int(of.active.sum()), dict.fromkeys(("policy", "value", "entropy", "imitation"), 0.0)
    returns = discounted(of.reward, settings.discount)
    advantage = advantages(returns, of, settings)
    stride = max(1, settings.batch // of.active.shape[1])
    clear(network)
    for first in range(0, len(of.seen), stride):
        rows = of.active[first : first + stride]
        some = slice(first, first + stride)
        seen = floats({key: np.stack([each[key] for each in of.seen[some]])[rows] for key in of.seen[0]})
        gain, expected = (torch.from_numpy(each[some][rows]).float() for each in (advantage, returns))
        logits, values = network(seen)
        log = torch.log_softmax(logits, -1)
        chosen = log.gather(1, torch.from_numpy(of.action[some][rows])[:, None])[:, 0]
        entropy = -(log.exp() * log.masked_fill(log == -torch.inf, 0.0)).sum()
        losses = {"policy": -(gain * chosen).sum(), "value": (expected - values).square().sum(), "entropy": entropy}
        loss = (1.0 - taught) * losses["policy"] - settings.entropy * losses["entropy"]
        if settings.baseline == "critic":
            loss = loss + 0.5 * losses["value"]
        if taught > 0.0:
            losses["imitation"] = _imitation(log, torch.from_numpy(np.stack(of.approved[some])[rows]))
            loss = loss + taught * losses["imitation"]
        (loss / total).backward()
        for name, part in losses.items():
            parts[name] += float(part.detach()) / total
    norm = nn.utils.clip_grad_norm_(network.parameters(), settings.clip)
    optimizer.step()
    return parts | {"gradient": float(norm)}


def discounted(reward: FloatArray, discount: float) -> FloatArray:
    """[T, L] discounted sums of the rewards from each decision on."""
    returns = reward.copy()
    for k in range(len(returns) - 2, -1, -1):
        returns[k] += discount * returns[k + 1]
    return returns


def advantages(returns: FloatArray, of: Played, settings: ReinforceSettings) -> FloatArray:
    """[T, L] returns less the baseline; if the settings say so, in deviations of the problem's, and then of all."""
    found, groups = returns.copy(), (len(returns), -1, settings.plays)
    there = of.active.reshape(groups)
    if settings.baseline == "critic":
        found -= of.value
    elif settings.baseline == "mean":
        mean = (returns.reshape(groups) * there).sum(-1) / there.sum(-1).clip(1)
        found -= np.repeat(mean, settings.plays, axis=1)
    if settings.normalise and settings.plays > 1:
        spread = np.sqrt((found.reshape(groups) ** 2 * there).sum((0, 2)) / there.sum((0, 2)))
        found /= np.repeat(spread + SMALL, settings.plays)
    if settings.normalise:
        found /= found[of.active].std() + 1e-8
    return np.where(of.active, found, 0.0)


def _imitation(log: Tensor, approved: Tensor) -> Tensor:
    r"""The sum of :math:`-\log \pi` of what a teacher approves of, over states where it has advice that is possible."""
    approved = approved & (log > -torch.inf)
    some = approved.any(1)
    return -torch.logsumexp(log[some].masked_fill(~approved[some], -torch.inf), -1).sum()
