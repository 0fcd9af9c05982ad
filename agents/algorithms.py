"""Training algorithms: the table, and what an entry says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hetgym.agents.import_paths import found_at
from hetgym.errors import ConfigError, shown, unknown_name
from hetgym.planning.baseline import resolve

OPTIONAL = ("start", "rule", "threads")  # Fields of a recipe that not all algorithms read


@dataclass(frozen=True)
class Algorithm:
    """A training algorithm.

    Attributes:
        settings: the dataclass of its settings, or its ``module:name``; it loads without PyTorch.
        trainer: a function, or its ``module:name``, that takes a :class:`~hetgym.agents.run.TrainingRun` to its end,
            from its checkpoint if it has one, and returns the trained network. It raises ArtefactError for a checkpoint
            of another recipe, and ClusterError if a worker is lost repeatedly.
        summary: description in one line.
        shares: true if workers of a Ray cluster can take part.
        env: id of the only environment that it trains for; empty for all environments.
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


ALGORITHMS: dict[str, Algorithm] = {}  # Name in recipes -> algorithm; `hetgym.agents.trainers` enters hetgym's own


def algorithm_of(name: str) -> Algorithm:
    """An algorithm by its name in the table or by its import path.

    Raises:
        UnknownName: no such algorithm.
        ConfigError: the import path leads to no :class:`Algorithm`.
    """
    if ":" in name:  # as no name in the table has
        found = found_at(name, "algorithm", load=True)
        if not isinstance(found, Algorithm):
            raise ConfigError(f"algorithm {shown(name)} is {shown(found)}; it must be a hetgym.agents.Algorithm")
        return found
    if name not in ALGORITHMS:
        raise unknown_name("algorithm", name, ALGORITHMS)
    return ALGORITHMS[name]


def check_workers(algorithm: str) -> None:
    """Refuse, by ConfigError, to share the work of an algorithm that trains in one process."""
    if not algorithm_of(algorithm).shares:
        raise ConfigError(f"{algorithm} trains in one process, without --ray")
