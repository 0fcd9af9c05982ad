"""Settings of the algorithm ``self-labelling``; they load without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetgym._config import check_number
from hetgym.agents.training.curriculum import Part
from hetgym.errors import ConfigError


@dataclass(frozen=True)
class SelfLabellingSettings:
    """Settings of self-labelling, besides those that every recipe has.

    Attributes:
        curriculum: parts of the curriculum.
        problems: number of problems of an update.
        samples: number of episodes on each.
        temperatures: of the samples, in turn.
        search: number of operators that a search in the policy's order of decisions places for each first label; 0
            for no search.
        learning_rate: of Adam; decreases linearly to a twentieth.
        warm_up: number of updates over which the learning rate increases.
        clip: largest norm of the gradient.
        workers: number of threads that play; results do not depend on it.

    Raises:
        ConfigError: a number out of its range.
    """

    curriculum: tuple[Part, ...] = (Part("random", 400),)
    problems: int = 8
    samples: int = 16
    temperatures: tuple[float, ...] = (1.0, 1.0, 2.0, 4.0)
    search: int = 0
    learning_rate: float = 2e-3
    warm_up: int = 30
    clip: float = 1.0
    workers: int = 1

    def __post_init__(self) -> None:
        for name in ("problems", "samples", "warm_up", "workers"):
            check_number(getattr(self, name), name, ConfigError, minimum=1)
        check_number(self.search, "search", ConfigError)
        for name in ("learning_rate", "clip"):
            if not 0 < getattr(self, name) < np.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be positive")
        if not self.curriculum or not self.temperatures or not all(0 < t < np.inf for t in self.temperatures):
            raise ConfigError("curriculum and temperatures must not be empty, temperatures positive")
