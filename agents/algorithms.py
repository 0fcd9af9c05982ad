"""The table of training algorithms; each loads when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hetgym.errors import ConfigError
from hetgym.planning.baseline import resolve

OPTIONAL = ("start", "rule", "threads")
"""Fields of a recipe that not all algorithms read."""


@dataclass(frozen=True)
class Algorithm:
    """A training algorithm.

    Attributes:
        settings: the dataclass of its settings, or its ``module:name``; it loads without PyTorch.
        trainer: a function, or its ``module:name``, that takes a :class:`~hetgym.agents.run.TrainingRun` to its end and
            returns the trained network.
        summary: description in one line.
        shares: true if workers of a Ray cluster can take part.
        env: id of the only environment that it trains for, whose episodes place operators before the run if it is
            HetSchedule-v0; empty for all environments.
        reads: names of the :data:`OPTIONAL` fields of a recipe that mean something to it.
    """

    settings: str | type[Any]
    trainer: str | Callable[[Any], Any]
    summary: str
    shares: bool = True
    env: str = ""
    reads: tuple[str, ...] = OPTIONAL

    def schema(self) -> type[Any]:
        """The dataclass of its settings."""
        found: type[Any] = resolve(self.settings)
        return found

    def train(self) -> Callable[[Any], Any]:
        """The function that trains."""
        found: Callable[[Any], Any] = resolve(self.trainer)
        return found


_SB3 = ("hetgym.agents.sb3.settings:PPOSettings", "hetgym.agents.sb3.training:train")

ALGORITHMS: dict[str, Algorithm] = {
    "ppo": Algorithm(*_SB3, "PPO of Stable-Baselines3, which reads masks from observations"),
    "maskable-ppo": Algorithm(*_SB3, "MaskablePPO of sb3-contrib"),
    "self-labelling": Algorithm(
        "hetgym.agents.training.settings:SelfLabellingSettings",
        "hetgym.agents.training.self_labelling:train",
        "play a problem often and imitate the best: the policy place-v1",
        env="HetSchedule-v0",
        reads=(),
    ),
    "move-outcomes": Algorithm(
        "hetgym.agents.training.settings:OutcomeSettings",
        "hetgym.agents.training.outcomes:train",
        "search, and learn which moves make plans shorter: the policy place-v2",
        shares=False,
        env="HetSchedule-v0",
        reads=(),
    ),
    "split-outcomes": Algorithm(
        "hetgym.agents.training.settings:SplitOutcomeSettings",
        "hetgym.agents.training.split_outcomes:train",
        "search, and learn which splits make plans shorter: the policy split-v2",
        shares=False,
        env="HetSplit-v0",
        reads=("rule",),
    ),
}
"""Name in recipes -> algorithm."""


def check_workers(algorithm: str) -> None:
    """Refuse to share the work of an algorithm that trains in one process.

    Raises:
        ConfigError: it does.
    """
    if not ALGORITHMS[algorithm].shares:
        raise ConfigError(f"{algorithm} trains in one process, without --ray")
