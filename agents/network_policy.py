"""NetworkPolicy: a trained PyTorch network as an agent for environments of any size, and as a file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray
from hetgym.agents import artefact
from hetgym.agents.evaluation import Evaluator
from hetgym.agents.networks._torch import torch
from hetgym.agents.networks.actor_critic import ActorCritic
from hetgym.agents.play import SCHEDULING, check_features
from hetgym.agents.recipe import manner
from hetgym.agents.sampling import Sampler
from hetgym.envs.core.kinds import require_kind
from hetgym.envs.core.lanes import Lanes
from hetgym.errors import ArtefactError, ConfigError, HetgymWarning, shown
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.workloads import as_problem

FORMAT = artefact.NETWORK_FORMAT
_FILE = artefact.policy_file(FORMAT)


class NetworkPolicy(Sampler):
    """A network that takes the most probable action, the smaller number on ties.

    It is an :data:`~hetgym.agents.play.Agent` for observations of any size.

    Args:
        network: the network that scores actions.
        card: its origin, as JSON values.

    >>> import gymnasium as gym, hetgym
    >>> policy = NetworkPolicy(ActorCritic("place"))  # fresh, so that the first legal device is taken
    >>> hetgym.agents.play(gym.make("HetSchedule-v0"), policy, seed=0).info["speedup"]
    1.0
    """

    def __init__(self, network: ActorCritic, card: Mapping[str, Any] | None = None) -> None:
        self.network, self.kind = network, network.kind
        self.card = dict(card or {})

    def decide(
        self, observations: Mapping[str, npt.NDArray[Any]], noise: FloatArray | None = None
    ) -> npt.NDArray[np.int64]:
        """As :meth:`~hetgym.agents.sampling.Sampler.decide`."""
        with torch.no_grad():
            seen = {key: torch.as_tensor(values, dtype=torch.float32) for key, values in observations.items()}
            logits, _ = self.network(seen)
        found: npt.NDArray[np.int64] = (logits.numpy() if noise is None else logits.numpy() + noise).argmax(axis=1)
        return found

    def plan(self, problem: Problem, /, **playing: Any) -> Schedule:
        """Schedule a problem by :meth:`play`, such as ``samples=16``.

        Raises:
            ConfigError: the policy decides on splits or pipelines, which only its compiled form can plan.
        """
        if self.kind not in SCHEDULING:
            raise ConfigError(f"a {self.kind} policy does not schedule problems; let it play in its environment")
        with warnings.catch_warnings():  # where every operator is bound to a device, its plan is wanted all the same
            warnings.filterwarnings("ignore", "each operator of .* can run on one device only", HetgymWarning)
            schedule: Schedule = self.play(problem=as_problem(problem), **playing)["schedule"]
        return schedule

    def judge(self, evaluator: Evaluator) -> dict[str, float]:
        """Compare the policy with baselines on held-out problems."""
        return evaluator.judge(self.decide)

    def check(self, lanes: Lanes) -> None:
        """Refuse another environment, or one whose candidate features mean something other than in training.

        Raises:
            ConfigError: see :func:`~hetgym.agents.play.check_features`.
        """
        require_kind(self.kind, lanes)
        if "recipe" in self.card:
            check_features(self.kind, self.arguments, lanes)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the environment that the policy expects, apart from problems, sizes and conditions.

        ``hetgym.agents.as_scheduler(policy, **policy.arguments)`` is the policy as a scheduler.
        """
        given: dict[str, Any] = self.card.get("recipe", {}).get("arguments", {"observation": self.network.level})
        return manner(given)

    def save(self, path: str | Path) -> None:
        """Write weights and card to a safetensors file.

        Raises:
            ArtefactError: the file cannot be written.
        """
        weights = {name: weight.detach().numpy() for name, weight in self.network.state_dict().items()}
        artefact.save(path, _FILE, FORMAT, {**self.card, "network": self.network.card()}, weights)


def load_policy(path: str | Path) -> NetworkPolicy:
    """Read a policy from a file of ``hetgym train`` or :meth:`NetworkPolicy.save`, or two files or a folder.

    Args:
        path: a file with the card inside; or, where that has a file or folder of its own, as for
            :func:`~hetgym.agents.artefact.load_pair`.

    Raises:
        ArtefactError: missing, damaged, or not a policy.
    """
    pair = isinstance(path, str | Path) and (os.path.isdir(path) or os.path.exists(f"{path}.json"))
    card, weights = artefact.load_pair(path, FORMAT) if pair else artefact.load(path, _FILE)
    try:
        network = _network_of(card, weights, str(path))
        network.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ArtefactError(f"{path}: the weights do not fit their card ({error})") from error
    return NetworkPolicy(network, card)


def _network_of(card: Mapping[str, Any], weights: Mapping[str, npt.NDArray[Any]], where: str) -> ActorCritic:
    """A new network as a card describes it, built only if its weights match those of the file.

    A short card may describe a network of any size, so the network is first built without allocating memory.
    """
    described = card.get("network")
    if not isinstance(described, dict) or not isinstance(described.get("sizes"), dict):
        raise ValueError("it describes no network")
    artefact.check_recipe(card)
    layers = described["sizes"].get("layers", 0)
    if described.get("level") == "graph" and isinstance(layers, int) and layers > len(weights):
        raise ValueError(f"a network of {shown(layers)} layers has more than {len(weights)} weights")
    with torch.device("meta"):
        outline = ActorCritic.of_card(described, where).state_dict()
    for name in sorted(outline.keys() | weights.keys()):
        if name not in weights or name not in outline or tuple(outline[name].shape) != weights[name].shape:
            raise ValueError(f"{shown(name)} is missing, unexpected or of another shape")
    return ActorCritic.of_card(described, where)


def start_from(network: ActorCritic, path: str | Path) -> None:
    """Give a network the weights of a policy.

    Raises:
        ArtefactError: the file is not a policy.
        ConfigError: the policy's network has another structure.
    """
    found = load_policy(path).network
    if found.card() != network.card():
        raise ConfigError(f"start: {path} is a network {found.card()}, the recipe asks for {network.card()}")
    network.load_state_dict(found.state_dict())


def check_fits(network: ActorCritic, space: Any) -> None:
    """Refuse, by ConfigError, observations of an environment or level for which the network was not made."""
    require_kind(network.kind, space)
    if space.level != network.level:
        raise ConfigError(f"the policy takes observation={network.level!r}, the environment gives {space.level!r}")
