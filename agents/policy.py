"""Trained policies as files, and as agents: a network that plays environments of any size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym.agents import tensors
from hetgym.agents.evaluation import Evaluator
from hetgym.agents.kinds import check_features, kind_of
from hetgym.agents.networks import ActorCritic
from hetgym.agents.networks._torch import torch
from hetgym.agents.recipe import manner
from hetgym.envs.core.lanes import Lanes, Observation
from hetgym.errors import ArtefactError, ConfigError

FORMAT = "hetgym-policy"


class Policy:
    """A network that decides: the likeliest action, the smaller number on ties.

    It is an :data:`~hetgym.agents.play.Agent`. Sizes are those of whatever it is shown.

    Args:
        network: what prefers actions.
        card: where it comes from, as JSON values.

    >>> import gymnasium as gym, hetgym
    >>> policy = Policy(ActorCritic("place"))  # fresh, so that the first legal device is taken
    >>> hetgym.agents.play(gym.make("HetSchedule-v0"), policy, seed=0).info["speedup"]
    1.0
    """

    def __init__(self, network: ActorCritic, card: Mapping[str, Any] | None = None) -> None:
        self.network = network
        self.card = dict(card or {})

    def __call__(self, observation: Observation, info: dict[str, Any]) -> int:
        """Decide in one environment."""
        if not isinstance(observation, dict):
            raise ConfigError("this policy takes observation='graph' or 'candidates', not flat observations")
        return int(self.decide({key: values[None] for key, values in observation.items()})[0])

    def decide(self, observations: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.int64]:
        """[L] actions for L lanes.

        Args:
            observations: [L, …] by key.
        """
        with torch.no_grad():
            seen = {key: torch.as_tensor(values, dtype=torch.float32) for key, values in observations.items()}
            logits, _ = self.network(seen)
        found: npt.NDArray[np.int64] = logits.numpy().argmax(axis=1)
        return found

    def judge(self, evaluator: Evaluator) -> dict[str, float]:
        """How good it is on held-out problems."""
        return evaluator.judge(self.decide)

    def check(self, lanes: Lanes) -> None:
        """Refuse an environment whose candidate features do not tell what they told the policy in training.

        Raises:
            ConfigError: an argument of the environment differs that decides what they tell.
        """
        if "recipe" in self.card:
            check_features(self.network.view.kind, self.arguments, lanes)

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
        tensors.save(path, FORMAT, {**self.card, "network": self.network.card()}, self.network.state_dict())


def load_policy(path: str | Path) -> Policy:
    """Read a policy.

    Args:
        path: what ``hetgym train`` or :meth:`Policy.save` wrote.

    Raises:
        ArtefactError: missing, damaged, or not a policy.
    """
    card, weights = tensors.load(path, FORMAT)
    try:
        network = ActorCritic.of_card(card.get("network", {}), str(path))
        load_weights(network, weights)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ArtefactError(f"{path}: the weights do not fit their card ({error})") from error
    return Policy(network, card)


def load_weights(network: ActorCritic, weights: Mapping[str, Any]) -> None:
    """Put weights into a network.

    Raises:
        RuntimeError: names or shapes that do not fit, or weights that are not finite.
    """
    network.load_state_dict(dict(weights), strict=True)
    if not all(bool(weight.isfinite().all()) for weight in weights.values()):
        raise RuntimeError("weights are not finite")


def start_from(network: ActorCritic, path: str | Path) -> None:
    """Give a network the weights of a policy.

    Raises:
        ArtefactError: no policy.
        ConfigError: the policy's network is another one.
    """
    found = load_policy(path).network
    if found.card() != network.card():
        raise ConfigError(f"start: {path} is a network {found.card()}, the recipe asks for {network.card()}")
    network.load_state_dict(found.state_dict())


def check_fits(network: ActorCritic, space: Any) -> None:
    """Refuse observations that the network was not made for.

    Raises:
        ConfigError: of another kind or level.
    """
    found = kind_of(space)
    if found != (network.kind, network.level):
        raise ConfigError(
            f"the policy takes {network.kind} observations of the level {network.level!r}, "
            f"the environment gives {found[0]} observations of the level {found[1]!r}"
        )
