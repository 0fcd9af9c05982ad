"""Settings of ``self-labelling``, ``move-outcomes`` and ``split-outcomes``; they load without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hetgym._input.config import check_number
from hetgym.agents.training.curriculum import Part
from hetgym.errors import ConfigError
from hetgym.sim import runtime


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
            check_number(getattr(self, name), name, ConfigError, positive=True)
        if not self.curriculum or not self.temperatures or not all(0 < t < np.inf for t in self.temperatures):
            raise ConfigError("curriculum and temperatures must not be empty, temperatures positive")


@dataclass(frozen=True)
class OutcomeSettings:
    """Settings of move outcomes, besides those that every recipe has.

    Attributes:
        curriculum: parts of the curriculum.
        runtimes: names of the runtimes under which is searched, each as often.
        problems: number of searches of an update.
        tries: fewest and most tries of a search for each operator, roughly; their logarithm is uniform.
        rows: most regions that are kept of a search.
        start: name of the scheduler whose plans are improved.
        batch: number of regions of a gradient step.
        epochs: times that an update goes through its regions.
        learning_rate: of Adam; decreases linearly to a twentieth.
        warm_up: number of updates that search without the network.

    Raises:
        ConfigError: a number out of its range.
        UnknownName: no such runtime.
    """

    curriculum: tuple[Part, ...] = (Part("random", 400),)
    runtimes: tuple[str, ...] = ("links", "framework", "ready")
    problems: int = 8
    tries: tuple[float, float] = (20.0, 2_000.0)
    rows: int = 3_000
    start: str = "peft-again"
    batch: int = 512
    epochs: int = 1
    learning_rate: float = 5e-3
    warm_up: int = 10

    def __post_init__(self) -> None:
        for name in ("problems", "rows", "batch", "epochs"):
            check_number(getattr(self, name), name, ConfigError, minimum=1, maximum=1_000_000)
        check_number(self.warm_up, "warm_up", ConfigError)
        check_number(self.learning_rate, "learning_rate", ConfigError, positive=True)
        if not (len(self.tries) == 2 and 1 <= self.tries[0] <= self.tries[1] <= 1e6):
            raise ConfigError(f"tries is {self.tries}; expected two numbers of 1 to a million, the smaller one first")
        if not self.curriculum or not self.runtimes:
            raise ConfigError("curriculum and runtimes must not be empty")
        for name in self.runtimes:
            runtime(name)


@dataclass(frozen=True)
class SplitOutcomeSettings:
    """Settings of split outcomes, besides those that every recipe has.

    Attributes:
        zoo: share of the searches on a combination drawn from ``networks``, ``batches`` and ``platforms``; the others
            are on random networks on random machines (:class:`~hetgym.envs.split.networks.RandomNetworks`).
        networks: names of the zoo.
        batches: batch sizes.
        platforms: names of presets.
        problems: number of searches of an update.
        plans: fewest and most plans of a search for each key operator; their logarithm is uniform.
        draws: number of draws of a search whose moves are all priced, roughly.
        batch: number of moves of a gradient step.
        epochs: times that an update goes through its moves.
        learning_rate: of Adam; decreases linearly to a twentieth.
        warm_up: number of updates that search without the network.

    Raises:
        ConfigError: a number out of its range, or nothing to train on.
    """

    zoo: float = 0.1
    networks: tuple[str, ...] = ("shufflenet",)
    batches: tuple[int, ...] = (2, 4, 16)
    platforms: tuple[str, ...] = ("cpu-gpu", "even-pair")
    problems: int = 16
    plans: tuple[float, float] = (0.5, 16.0)
    draws: int = 24
    batch: int = 1024
    epochs: int = 2
    learning_rate: float = 1e-2
    warm_up: int = 5

    def __post_init__(self) -> None:
        for name in ("problems", "draws", "batch", "epochs"):
            check_number(getattr(self, name), name, ConfigError, minimum=1, maximum=1_000_000)
        check_number(self.warm_up, "warm_up", ConfigError, maximum=1_000_000)
        check_number(self.zoo, "zoo", ConfigError, maximum=1.0)
        check_number(self.learning_rate, "learning_rate", ConfigError, positive=True)
        if not (len(self.plans) == 2 and 0 < self.plans[0] <= self.plans[1] <= 1e6):
            raise ConfigError(f"plans is {self.plans}; expected two positive numbers, the smaller one first")
        if self.zoo > 0.0 and not (self.networks and self.batches and self.platforms):
            raise ConfigError("there are no networks, batches or platforms to draw from the zoo")
