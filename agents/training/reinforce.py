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

from hetgym._kernels.threads import cores
from hetgym._types import BoolArray, FloatArray, Int64Array
from hetgym.agents.checkpoint import Checkpoint
from hetgym.agents.network_policy import check_fits, start_from
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.actor_critic import ActorCritic
from hetgym.agents.run import TrainingRun
from hetgym.agents.training.settings import ReinforceSettings
from hetgym.agents.training.teachers import Teacher
from hetgym.envs.core.autoreset import make_lanes
from hetgym.envs.core.lanes import Lanes
from hetgym.errors import ArtefactError, ConfigError


def train(run: TrainingRun) -> ActorCritic:
    """Train by REINFORCE; steps of the recipe are decisions. See :attr:`hetgym.agents.Algorithm.trainer`."""
    recipe = run.recipe
    torch.set_num_threads(min(recipe.threads, cores()))
    torch.manual_seed(recipe.seed)
    settings: ReinforceSettings = recipe.parsed_settings()
    if recipe.lanes % settings.plays:
        raise ConfigError(f"lanes={recipe.lanes} is not a multiple of plays={settings.plays}")
    lanes = make_lanes(recipe.env, recipe.lanes, **recipe.environment())
    network: ActorCritic = run.network()
    check_fits(network, run.evaluator.observation_space)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
    teacher = Teacher(settings.imitate, lanes, settings.plays) if settings.imitate else None
    step = update = 0
    if run.checkpoint is not None:
        run.checkpoint.restore(network, optimizer)
        step, update = run.checkpoint.step, _updates(run.checkpoint)
    elif recipe.start:
        start_from(network, recipe.start)
    else:
        network.begin_as(recipe.rule)

    def snapshot() -> Checkpoint:
        return Checkpoint.of(step, network, optimizer, {"updates": update})

    run.between(step, network, snapshot)
    while step < recipe.steps:
        left = 1.0 - step / recipe.steps
        taught = max(0.0, 1.0 - (1.0 - left) / settings.imitation) if teacher is not None else 0.0
        episodes = play(network, lanes, (recipe.seed, update), settings.plays, teacher if taught > 0.0 else None)
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * (0.05 + 0.95 * left)
        values = learn(network, optimizer, episodes, settings, taught)
        step, update = step + int(episodes.active.sum()), update + 1
        values["train/return"] = float(episodes.reward.sum() / recipe.lanes)
        run.log(step, values | {"time/steps_per_second": run.speed(step)})
        run.between(step, network, snapshot, last=step >= recipe.steps)
    return network


def _updates(found: Checkpoint) -> int:
    """Number of updates before a checkpoint. Raises ArtefactError: it does not say."""
    updates = found.state.get("updates")
    if not isinstance(updates, int):
        raise ArtefactError("the checkpoint belongs to another recipe (it has no number of updates)")
    return updates


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
    for lane in range(lanes.count):
        own = int(np.random.SeedSequence([*seed, lane // plays]).generate_state(1)[0])
        lanes.prepare(lane, lanes.generator(own)[0], {}, own)
    lanes.open()
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
            logits, value = network(_floats(now))
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
    for weight in network.parameters():  # also where no loss leads to, so that the optimiser has a state of all
        weight.grad = torch.zeros_like(weight)
    for first in range(0, len(of.seen), stride):
        rows = of.active[first : first + stride]
        some = slice(first, first + stride)
        seen = _floats({key: np.stack([each[key] for each in of.seen[some]])[rows] for key in of.seen[0]})
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
    return {f"train/{name}": part for name, part in parts.items()} | {"train/gradient": float(norm)}


def discounted(reward: FloatArray, discount: float) -> FloatArray:
    """[T, L] discounted sums of the rewards from each decision on."""
    returns = reward.copy()
    for k in range(len(returns) - 2, -1, -1):
        returns[k] += discount * returns[k + 1]
    return returns


def advantages(returns: FloatArray, of: Played, settings: ReinforceSettings) -> FloatArray:
    """[T, L] returns less the baseline, in standard deviations if the settings say so."""
    found = returns.copy()
    if settings.baseline == "critic":
        found -= of.value
    elif settings.baseline == "mean":
        groups = (len(returns), -1, settings.plays)
        there = of.active.reshape(groups)
        mean = (returns.reshape(groups) * there).sum(-1) / there.sum(-1).clip(1)
        found -= np.repeat(mean, settings.plays, axis=1)
    if settings.normalise:
        found /= found[of.active].std() + 1e-8
    return np.where(of.active, found, 0.0)


def _imitation(log: Tensor, approved: Tensor) -> Tensor:
    r"""The sum of :math:`-\log \pi` of what a teacher approves of, over states where it has advice."""
    some = approved.any(1)
    return -torch.logsumexp(log[some].masked_fill(~approved[some], -torch.inf), -1).sum()


def _floats(seen: dict[str, npt.NDArray[Any]]) -> dict[str, Tensor]:
    return {key: torch.as_tensor(part, dtype=torch.float32) for key, part in seen.items()}
