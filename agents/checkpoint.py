"""Checkpoints: everything that the rest of a training run depends on, so that a killed run goes on as if nothing was.

A checkpoint is one safetensors file. Files are replaced in one step, so a run that is killed at any moment
leaves the last whole one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hetgym.agents import tensors
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.errors import ArtefactError

FORMAT = "hetgym-checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run between two updates.

    Attributes:
        step: steps that are done.
        tensors: weights and the optimiser's state.
        state: the rest, as JSON values: counters, the states of lanes and of generators.
    """

    step: int
    tensors: Mapping[str, Tensor]
    state: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write it.

        Raises:
            ArtefactError: the file cannot be written.
        """
        tensors.save(path, FORMAT, {"step": self.step, "state": dict(self.state)}, self.tensors)

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read one.

        Raises:
            ArtefactError: missing, damaged, or not a checkpoint.
        """
        card, found = tensors.load(path, FORMAT)
        step, state = card.get("step"), card.get("state")
        if not isinstance(step, int) or not isinstance(state, dict):
            raise ArtefactError(f"{path}: not a checkpoint: step or state is missing")
        return cls(step, found, state)


def learner_tensors(network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights, the optimiser's state of each, and the state of PyTorch's generator, by name."""
    found = {f"network.{name}": weight for name, weight in network.state_dict().items()}
    state = optimizer.state_dict()["state"]
    found |= {f"optimizer.{k}.{key}": torch.as_tensor(value) for k, of in state.items() for key, value in of.items()}
    return found | {"generator": torch.get_rng_state()}


def restore_learner(network: nn.Module, optimizer: torch.optim.Optimizer, found: Mapping[str, Tensor]) -> None:
    """Put back what :func:`learner_tensors` took.

    Raises:
        ArtefactError: the tensors are not those of such a network.
    """
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in found.items():
        if name.startswith("optimizer."):
            _, number, key = name.split(".", 2)
            state.setdefault(int(number), {})[key] = value
    try:
        network.load_state_dict({n.removeprefix("network."): w for n, w in found.items() if n.startswith("network.")})
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
        torch.set_rng_state(found["generator"])
    except (KeyError, RuntimeError, ValueError) as error:
        raise ArtefactError(f"the checkpoint is not of this network ({error})") from error


def numpy_state() -> list[Any]:
    """The state of NumPy's global generator, from which Stable-Baselines3 draws minibatches, as JSON values."""
    name, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002, Stable-Baselines3 uses no other
    return [str(name), np.asarray(keys).tolist(), int(position), int(has_gauss), float(gauss)]


def restore_numpy(state: list[Any]) -> None:
    """Put back what :func:`numpy_state` took."""
    name, keys, position, has_gauss, gauss = state
    np.random.set_state((name, np.array(keys, np.uint32), position, has_gauss, gauss))  # noqa: NPY002
