"""The common part of hetgym's training algorithms: the state of a training, its loop, and the policy that it makes."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hetgym.agents.artefact import PolicyFiles
from hetgym.agents.checkpoint import Checkpoint
from hetgym.agents.evaluation import Evaluator
from hetgym.agents.networks._torch import nn, torch
from hetgym.agents.run import TrainingRun
from hetgym.agents.sizes import Sizes
from hetgym.errors import ConfigError, shown


class Learner(abc.ABC):
    """A training in progress; over all ``updates`` the learning rate decreases, and ``update`` of them are done."""

    settings: Any
    network: Any

    def __init__(self, settings: Any, updates: int, sizes: Sizes, seed: int = 0) -> None:
        if sizes.features:
            raise ConfigError(f"this algorithm has a network of its own; leave features={shown(sizes.features)} out")
        self.settings, self.updates, self.seed = settings, updates, seed
        torch.set_num_threads(1)  # rounding of sums depends on how threads split them
        torch.manual_seed(seed)
        self.network = self.new_network(sizes)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.learning_rate)
        self.update = 0

    @abc.abstractmethod
    def new_network(self, sizes: Sizes) -> Any:
        """The untrained network, with weights from PyTorch's generator."""

    def snapshot(self) -> Checkpoint:
        """The complete state of the training."""
        return Checkpoint.of(self.update, self.network, self.optimizer)

    def restore(self, found: Checkpoint) -> None:
        """Resume from a checkpoint. Raises ArtefactError: the checkpoint is not of such a training."""
        found.restore(self.network, self.optimizer)
        self.update = found.step


class Trained(abc.ABC):
    """A trained policy that plans in compiled code; ``card``: its origin, as JSON values."""

    files: ClassVar[PolicyFiles[Any]]  # the files of such policies

    def __init__(self, network: nn.Module, card: Mapping[str, Any]) -> None:
        self.weights, self.card = self.exported(network), dict(card)

    def exported(self, network: Any) -> dict[str, npt.NDArray[np.float32]]:
        """The weights that files of such policies hold, by name."""
        return arrays(network)

    def judge(self, evaluator: Evaluator) -> dict[str, float]:
        """Plan the held-out problems, and compare with baselines."""
        return evaluator.compare(np.array(self.makespans(self.files.make(self.weights, {}), evaluator)))

    @abc.abstractmethod
    def makespans(self, planner: Any, evaluator: Evaluator) -> list[float]:
        """Makespans [s] of the policy's plans for the held-out problems."""

    def save(self, path: Path) -> None:
        """Write the weights, and the card beside them."""
        self.files.save(path.with_suffix(""), self.weights, self.card)


def arrays(network: nn.Module) -> dict[str, npt.NDArray[np.float32]]:
    """A network's weights as arrays by name."""
    return {name: weight.detach().numpy().copy() for name, weight in network.state_dict().items()}


def improve(run: TrainingRun, training: Learner, advance: Callable[[], dict[str, float]]) -> Any:
    """Take a training to the end of a run, whose steps are updates, from the run's checkpoint if it has one.

    ``advance`` makes one update, and returns the figures to log. Returns the trained network.

    Raises:
        ArtefactError: the checkpoint is not one of this recipe.
    """
    if run.checkpoint is not None:
        training.restore(run.checkpoint)
    steps = run.recipe.steps
    run.between(training.update, training.network, training.snapshot)
    while training.update < steps:
        values = advance()
        run.log(training.update, {f"train/{name}": value for name, value in values.items()})
        run.between(training.update, training.network, training.snapshot, last=training.update == steps)
    return training.network
