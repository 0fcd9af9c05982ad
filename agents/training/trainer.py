"""Recipes of the algorithm ``self-labelling``: the functions that :class:`TrainingRun` needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from hetgym.agents.evaluation import Evaluator
from hetgym.agents.networks.place import PlaceNetwork
from hetgym.agents.place.artefact import save_planner
from hetgym.agents.place.planner import PlacePlanner
from hetgym.agents.run import TrainingRun
from hetgym.agents.training.playing import Players, Threads
from hetgym.agents.training.self_labelling import SelfLabelling, arrays


class Trained:
    """A trained place policy.

    Args:
        network: its network.
        card: its origin, as JSON values.
    """

    def __init__(self, network: PlaceNetwork, card: Mapping[str, Any]) -> None:
        self.weights, self.card = arrays(network), dict(card)

    def judge(self, evaluator: Evaluator) -> dict[str, float]:
        """Plan the held-out problems, each in one greedy episode."""
        planner = PlacePlanner(self.weights)
        makespans = [planner.plan(problem, passes=1).makespan for problem in evaluator.problems()]
        return evaluator.compare(np.array(makespans))

    def save(self, path: Path) -> None:
        """Write the weights, and the card beside them."""
        save_planner(path.with_suffix(""), self.weights, self.card)


def train(run: TrainingRun) -> PlaceNetwork:
    """Train by self-labelling, from the beginning or from the run's checkpoint.

    Args:
        run: of a recipe for ``self-labelling``, whose steps are updates.

    Returns:
        The trained network.

    Raises:
        ArtefactError: the checkpoint is not one of this recipe.
        ClusterError: workers do not start, or one is lost repeatedly.
    """
    recipe = run.recipe
    run.wrap = Trained
    training = SelfLabelling(recipe.parsed_settings(), recipe.steps, recipe.network, recipe.seed)
    if run.checkpoint is not None:
        training.restore(run.checkpoint)
    with _players(run, training) as players:
        run.between(training.update, training.network, training.snapshot)
        while training.update < recipe.steps:
            values = training.advance(players)
            run.log(training.update, {f"train/{name}": value for name, value in values.items()})
            last = training.update == recipe.steps
            run.between(training.update, training.network, training.snapshot, last=last)
    return training.network


@contextmanager
def _players(run: TrainingRun, training: SelfLabelling) -> Iterator[Players]:
    """The workers that play: threads of this process, or workers of the run's Ray cluster."""
    settings = training.settings
    if run.cluster is None:
        with ThreadPoolExecutor(settings.workers) as pool:
            yield Threads(pool)
        return
    from hetgym.agents.distributed.players import RayPlayers

    with closing(RayPlayers(run.cluster, min(settings.problems, len(training.lessons)))) as players:
        yield players
