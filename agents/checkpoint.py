"""Checkpoints: the complete state of a training run, so that a killed run resumes with identical results.

A checkpoint is one safetensors file. Files are replaced atomically, so a run that is killed at any moment leaves its
last complete checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hetgym._input.artefacts import Array, Kind, check_format
from hetgym._text import brief
from hetgym.agents import artefact
from hetgym.agents.networks._torch import Tensor, nn, torch
from hetgym.errors import ArtefactError, shown

FORMAT = "hetgym-checkpoint"
MOST_STEPS = 1 << 53  # Largest number of steps of a run: beyond it floats are no longer exact
_LARGEST = 1e300  # largest magnitude of the numbers in a run's history
_DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool")


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run between two updates.

    Attributes:
        step: number of steps done.
        tensors: weights and the optimiser's state.
        state: the rest, as JSON values: counters, the states of lanes and of generators.
    """

    step: int
    tensors: Mapping[str, Tensor]
    state: Mapping[str, Any] = field(default_factory=dict)

    __repr__ = brief

    @classmethod
    def of(
        cls, step: int, network: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any] | None = None
    ) -> Checkpoint:
        """The weights, the optimiser's state of each, the state of PyTorch's generator, and ``state``."""
        found = {f"network.{name}": weight for name, weight in network.state_dict().items()}
        kept = optimizer.state_dict()["state"]
        found |= {f"optimizer.{k}.{key}": torch.as_tensor(value) for k, of in kept.items() for key, value in of.items()}
        return cls(step, found | {"generator": torch.get_rng_state()}, state or {})

    def restore(self, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Restore what :meth:`of` took from them; ArtefactError unless the tensors are of such a network."""
        found = self.tensors
        try:
            state = _optimizer_state(optimizer, found)
            weights = {n.removeprefix("network."): w for n, w in found.items() if n.startswith("network.")}
            network.load_state_dict(weights)
            optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
            torch.set_rng_state(found["generator"])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise ArtefactError(f"the checkpoint belongs to another network ({error})") from error

    def save(self, path: Path) -> None:
        """Write the checkpoint to a file.

        Raises:
            ArtefactError: the file cannot be written.
        """
        arrays = {name: tensor.detach().contiguous().numpy() for name, tensor in self.tensors.items()}
        artefact.save(path, _FILE, FORMAT, {"step": self.step, "state": dict(self.state)}, arrays)

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read a checkpoint from a file.

        Raises:
            ArtefactError: missing, damaged, or not a checkpoint.
        """
        card, found = artefact.load(path, _FILE)
        step, state = card.get("step"), card.get("state")
        if not isinstance(step, int) or not _is_step(step) or not isinstance(state, dict):
            raise ArtefactError(f"{path}: not a checkpoint: step or state is missing, or impossible")
        history = state.get("history", [])
        for name in ("seconds", "core_seconds"):
            if not _is_number(seconds := state.get(name, 0.0)) or seconds < 0:
                raise ArtefactError(f"{path}: the {name} of the run are {shown(seconds)}")
        if not isinstance(history, list) or not all(_is_evaluation(entry, step) for entry in history):
            raise ArtefactError(f"{path}: the history is not a list of evaluations up to step {step}")
        return cls(step, {name: torch.from_numpy(array) for name, array in found.items()}, state)


def _declared(card: Mapping[str, Any], names: Collection[str], where: str) -> dict[str, Array]:
    """Tensors of a checkpoint: weights and the optimiser's state must be finite, labels may still be infinite."""
    check_format(card, where, ArtefactError, artefact.VERSION, FORMAT)
    return {
        name: Array(_DTYPES, legal="finite" if name.startswith(("network.", "optimizer.")) else "number")
        for name in names
    }


_FILE = Kind(ArtefactError, _declared, header_limit=64 << 20, limit=1 << 30)
"""The kind of file. The limits allow for generators and actions of some thousand lanes, and for a network of 80 million
weights with Adam's two moments of each."""


def _is_step(value: object) -> bool:
    return type(value) is int and 0 <= value <= MOST_STEPS


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and -_LARGEST < value < _LARGEST  # type: ignore[operator]


def _is_evaluation(entry: object, step: int) -> bool:
    """True if an entry of a history holds a step of the run, its return, and otherwise numbers only."""
    return (
        isinstance(entry, dict)
        and _is_step(entry.get("step"))
        and entry["step"] <= step
        and "return" in entry
        and all(_is_number(value) for value in entry.values())
    )


def _optimizer_state(optimizer: torch.optim.Optimizer, found: Mapping[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    """State of the optimiser by number of the parameter: scalars, or tensors of the parameter's shape.

    Raises:
        ValueError: a name that belongs to no parameter, or a tensor of another shape.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in found.items():
        if not name.startswith("optimizer."):
            continue
        _, number, key = (*name.split(".", 2), "")[:3]
        if not (number.isascii() and number.isdecimal() and len(number) < 10 and int(number) < len(parameters)):
            raise ValueError(f"{shown(name)} belongs to no parameter")
        if value.shape not in ((), parameters[int(number)].shape):
            raise ValueError(f"{shown(name)} has another shape than its parameter")
        state.setdefault(int(number), {})[key] = value
    keys = {frozenset(of) for of in state.values()}
    if len(keys) > 1 or len(state) not in (0, len(parameters)):
        raise ValueError("the optimiser's state does not cover all parameters")
    return state


def numpy_state() -> list[Any]:
    """The state of NumPy's global generator, from which Stable-Baselines3 draws minibatches, as JSON values."""
    name, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002, Stable-Baselines3 uses no other
    return [str(name), np.asarray(keys).tolist(), int(position), int(has_gauss), float(gauss)]


def restore_numpy(state: list[Any]) -> None:
    """Restore the state that :func:`numpy_state` returned. Raises ArtefactError: the value is not such a state."""
    try:
        name, keys, position, has_gauss, gauss = state
        np.random.set_state((name, np.array(keys, np.uint32), position, has_gauss, gauss))  # noqa: NPY002
    except (LookupError, OverflowError, TypeError, ValueError) as error:
        raise ArtefactError(f"the checkpoint holds no state of NumPy's generator ({error})") from error
