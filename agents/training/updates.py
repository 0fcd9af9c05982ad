"""The loop of algorithms whose updates play whole episodes from their beginning, in any environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hetgym._kernels.threads import cores
from hetgym.agents.checkpoint import Checkpoint
from hetgym.agents.network_policy import check_fits, start_from
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.agents.networks.actor_critic import ActorCritic
from hetgym.agents.run import TrainingRun
from hetgym.envs.core.lanes import Lanes
from hetgym.errors import ArtefactError, ConfigError

Advance = Callable[[ActorCritic, torch.optim.Optimizer, tuple[int, int], float], tuple[int, dict[str, float]]]
"""``advance(network, optimizer, seed, left)`` makes one update, with a share ``left`` of the steps to come, and returns
the number of decisions and the figures to log. All randomness comes from ``seed``: that of the recipe, and the number
of the update. So a checkpoint needs no state of episodes."""


def train_by(run: TrainingRun, plays: int, advance: Advance) -> ActorCritic:
    """Take a run to its end by updates; steps of the recipe are decisions.

    Args:
        plays: number of lanes in a row that play the same problem.

    Raises:
        ArtefactError: the checkpoint is not one of this recipe.
        ConfigError: lanes are not a multiple of plays.
    """
    recipe, settings = run.recipe, run.recipe.parsed_settings()
    torch.set_num_threads(min(recipe.threads, cores()))
    torch.manual_seed(recipe.seed)
    if recipe.lanes % plays:
        raise ConfigError(f"lanes={recipe.lanes} is not a multiple of {plays}, the number that play the same problem")
    network: ActorCritic = run.network()
    check_fits(network, run.evaluator.observation_space)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
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
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * (0.05 + 0.95 * left)
        decisions, values = advance(network, optimizer, (recipe.seed, update), left)
        step, update = step + decisions, update + 1
        run.log(step, {f"train/{k}": value for k, value in values.items()} | {"time/steps_per_second": run.speed(step)})
        run.between(step, network, snapshot, last=step >= recipe.steps)
    return network


def begin(lanes: Lanes, seed: tuple[int, int], plays: int) -> None:
    """Begin an episode in every lane; ``plays`` lanes in a row begin it alike."""
    for lane in range(lanes.count):
        own = int(np.random.SeedSequence([*seed, lane // plays]).generate_state(1)[0])
        lanes.prepare(lane, lanes.generator(own)[0], {}, own)
    lanes.open()


def clear(network: nn.Module) -> None:
    """Set all gradients to 0, also where no loss leads to, so that the optimiser has a state of all weights."""
    for weight in network.parameters():
        weight.grad = torch.zeros_like(weight)


def floats(seen: Mapping[str, Any]) -> dict[str, Tensor]:
    """Observations as networks take them."""
    return {key: torch.as_tensor(part, dtype=torch.float32) for key, part in seen.items()}


def _updates(found: Checkpoint) -> int:
    """Number of updates before a checkpoint. Raises ArtefactError: it does not say."""
    updates = found.state.get("updates")
    if not isinstance(updates, int):
        raise ArtefactError("the checkpoint belongs to another recipe (it has no number of updates)")
    return updates
