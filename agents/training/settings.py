"""Settings of hetgym's own algorithms; they load without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from hetgym._input.config import check_number
from hetgym.agents.training.curriculum import Part
from hetgym.errors import ConfigError
from hetgym.sim import runtime


@dataclass(frozen=True)
class ReinforceSettings:
    """Settings of REINFORCE, besides those that every recipe has.

    Raises:
        ConfigError: a number out of its range.
    """

    plays: int = 1  # number of lanes that play each problem, from the same start
    # what is subtracted from returns: nothing, their mean over the lanes of the same problem, or the critic's value
    baseline: Literal["none", "mean", "critic"] = "critic"
    discount: float = 1.0  # factor by which rewards lose value with each decision
    normalise: bool = True  # true to divide the advantages of an update by their standard deviation
    entropy: float = 1e-3  # weight of the entropy, which keeps the policy from settling early
    # teacher: "greedy:<column>" or the name of a scheduler whose plans are followed; empty for none
    imitate: str = ""
    imitation: float = 0.5  # share of the steps over which the weight of the teacher falls from 1 to 0
    batch: int = 1024  # number of decisions whose gradient is computed at a time; memory grows with it
    learning_rate: float = 1e-3  # of Adam; decreases linearly to a twentieth
    clip: float = 1.0  # largest norm of the gradient

    def __post_init__(self) -> None:
        for name in ("plays", "batch"):
            check_number(getattr(self, name), name, ConfigError, minimum=1)
        for name in ("discount", "entropy"):
            check_number(getattr(self, name), name, ConfigError, maximum=1.0)
        for name in ("learning_rate", "clip", "imitation"):
            check_number(getattr(self, name), name, ConfigError, positive=True)
        if self.baseline == "mean" and self.plays == 1:
            raise ConfigError("baseline=mean is the mean over the plays of a problem; set plays to 2 or more")


@dataclass(frozen=True)
class SelfLabellingSettings:
    """Settings of self-labelling in any environment, besides those that every recipe has.

    Raises:
        ConfigError: a number out of its range.
    """

    samples: int = 16  # number of lanes that play each problem
    passes: int = 4  # number of gradient steps on the labels of an update
    learning_rate: float = 1e-3  # of Adam; decreases linearly to a twentieth
    clip: float = 1.0  # largest norm of the gradient

    def __post_init__(self) -> None:
        check_number(self.samples, "samples", ConfigError, minimum=2)
        check_number(self.passes, "passes", ConfigError, minimum=1)
        for name in ("learning_rate", "clip"):
            check_number(getattr(self, name), name, ConfigError, positive=True)


@dataclass(frozen=True)
class PlaceLabellingSettings:
    """Settings of place-labelling, besides those that every recipe has.

    Raises:
        ConfigError: a number out of its range.
    """

    curriculum: tuple[Part, ...] = (Part("random", 400),)  # parts of the curriculum
    problems: int = 8  # number of problems of an update
    samples: int = 16  # number of episodes on each
    temperatures: tuple[float, ...] = (1.0, 1.0, 2.0, 4.0)  # of the samples, in turn
    # number of operators that a search in the policy's order of decisions places for each first label; 0 for no search
    search: int = 0
    learning_rate: float = 2e-3  # of Adam; decreases linearly to a twentieth
    warm_up: int = 30  # number of updates over which the learning rate increases
    clip: float = 1.0  # largest norm of the gradient
    workers: int = 1  # number of threads that play; results do not depend on it

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

    Raises:
        ConfigError: a number out of its range.
        UnknownName: no such runtime.
    """

    curriculum: tuple[Part, ...] = (Part("random", 400),)  # parts of the curriculum
    # names of the runtimes under which is searched, each as often
    runtimes: tuple[str, ...] = ("links", "framework", "ready")
    problems: int = 8  # number of searches of an update
    # fewest and most tries of a search for each operator, roughly; their logarithm is uniform
    tries: tuple[float, float] = (20.0, 2_000.0)
    rows: int = 3_000  # most regions that are kept of a search
    start: str = "peft-again"  # name of the scheduler whose plans are improved
    batch: int = 512  # number of regions of a gradient step
    epochs: int = 1  # times that an update goes through its regions
    learning_rate: float = 5e-3  # of Adam; decreases linearly to a twentieth
    warm_up: int = 10  # number of updates that search without the network

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

    Raises:
        ConfigError: a number out of its range, or nothing to train on.
    """

    # share of the searches on a combination drawn from `networks`, `batches` and `platforms`; the others are on random
    # networks on random machines (RandomNetworks)
    zoo: float = 0.1
    networks: tuple[str, ...] = ("shufflenet",)  # names of the zoo
    batches: tuple[int, ...] = (2, 4, 16)  # batch sizes
    platforms: tuple[str, ...] = ("cpu-gpu", "even-pair")  # names of presets
    problems: int = 16  # number of searches of an update
    # fewest and most plans of a search for each key operator; their logarithm is uniform
    plans: tuple[float, float] = (0.5, 16.0)
    draws: int = 24  # number of draws of a search whose moves are all priced, roughly
    batch: int = 1024  # number of moves of a gradient step
    epochs: int = 2  # times that an update goes through its moves
    learning_rate: float = 1e-2  # of Adam; decreases linearly to a twentieth
    warm_up: int = 5  # number of updates that search without the network

    def __post_init__(self) -> None:
        for name in ("problems", "draws", "batch", "epochs"):
            check_number(getattr(self, name), name, ConfigError, minimum=1, maximum=1_000_000)
        check_number(self.warm_up, "warm_up", ConfigError, maximum=1_000_000)
        check_number(self.zoo, "zoo", ConfigError, maximum=1.0)
        check_number(self.learning_rate, "learning_rate", ConfigError, positive=True)
        if not (len(self.plans) == 2 and 0 < self.plans[0] <= self.plans[1] <= 1e6):
            raise ConfigError(f"plans is {self.plans}; expected two positive numbers, the smaller one first")
        if self.zoo > 0.0 and not (self.networks and self.batches and self.platforms):
            raise ConfigError("networks, batches and platforms must not be empty")


@dataclass(frozen=True)
class ListGradientSettings:
    """Settings of list gradients, besides those that every recipe has.

    Raises:
        ConfigError: a number out of its range, or nothing to train on.
        UnknownName: no such runtime.
    """

    curriculum: tuple[Part, ...] = (Part("random", 400),)  # parts of the curriculum
    runtimes: tuple[str, ...] = ("links",)  # names of the runtimes for which problems are planned, in turn
    linear: bool = False  # true for a linear map of an operator's own features in place of the network
    problems: int = 10  # number of problems of an update
    samples: int = 24  # number of schedules of each
    leaders: float = 1.0  # share of them that become more probable, the shortest ones; 1 to compare all with their mean
    imitation: float = 4.0  # weight of the plan to imitate at first, over the number of operators
    until: float = 0.67  # share of the updates after which that weight is 0
    effort: int = 100_000  # number of operators that the search for such a plan launches in trials
    learning_rate: float = 1e-3  # of Adam; decreases along a cosine
    warm_up: int = 30  # number of updates over which the learning rate increases
    clip: float = 1.0  # largest norm of the gradient

    def __post_init__(self) -> None:
        for name in ("problems", "warm_up"):
            check_number(getattr(self, name), name, ConfigError, minimum=1)
        check_number(self.samples, "samples", ConfigError, minimum=2)
        check_number(self.effort, "effort", ConfigError)
        check_number(self.imitation, "imitation", ConfigError)
        check_number(self.until, "until", ConfigError, maximum=1.0)
        check_number(self.leaders, "leaders", ConfigError, positive=True, maximum=1.0)
        for name in ("learning_rate", "clip"):
            check_number(getattr(self, name), name, ConfigError, positive=True)
        if not self.curriculum or not self.runtimes:
            raise ConfigError("curriculum and runtimes must not be empty")
        for name in self.runtimes:
            runtime(name)


@dataclass(frozen=True)
class RunGradientSettings(ListGradientSettings):
    """Settings of run gradients, besides those that every recipe has.

    Raises:
        ConfigError: a number out of its range, or nothing to train on.
        UnknownName: no such runtime.
    """

    plans: float = 0.35  # share of the updates, the first ones, that draw schedules in place of runs
    alone: float = 0.5  # share of the runs with a single job; others have 2 up to the environment's `jobs`

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("plans", "alone"):
            check_number(getattr(self, name), name, ConfigError, maximum=1.0)
