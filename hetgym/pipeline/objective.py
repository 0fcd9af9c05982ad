"""Objectives: the figures by which cuts are judged, and the pipeline schedules that they assume."""

from dataclasses import dataclass

import numpy as np

from hetgym.errors import ConfigError, check_name
from hetgym.pipeline.schedules import SCHEDULES

OBJECTIVES = ("throughput", "latency", "training")  # Names of the objectives

THROUGHPUT, LATENCY, TRAINING = range(3)

MOST = 4096  # Most requests, micro-batches and chunks


@dataclass(frozen=True)
class Objective:
    """The figure by which a cut is judged, a time; smaller is better.

    ``"throughput"`` is the time between two results in steady state, ``"latency"`` the time to serve a sequence of
    requests, and ``"training"`` the time of one training step of several micro-batches.

    Raises:
        UnknownName: no such objective or schedule.
        ConfigError: a number that is not a whole number from 1 to 4096.

    >>> Objective("training", schedule="interleaved", micro_batches=12).rounds
    2
    """

    objective: str = "throughput"  # one of OBJECTIVES
    requests: int = 16  # number of requests N, for the latency
    schedule: str = "1f1b"  # schedule of a training step, one of SCHEDULES
    micro_batches: int = 8  # number of micro-batches M of a training step
    chunks: int = 2  # most chunks of the model on a device under `"interleaved"`

    def __post_init__(self) -> None:
        check_name("objective", self.objective, OBJECTIVES)
        check_name("pipeline schedule", self.schedule, SCHEDULES)
        for what in ("requests", "micro_batches", "chunks"):
            value = getattr(self, what)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= MOST:
                raise ConfigError(f"{what} is {value!r}; it must be a whole number from 1 to {MOST}")

    @property
    def code(self) -> int:
        """Position among :data:`OBJECTIVES`."""
        return OBJECTIVES.index(self.objective)

    @property
    def rounds(self) -> int:
        """Most chunks of the model on a device: the number of rounds of a micro-batch over all devices."""
        return int(self.chunks) if self.code == TRAINING and self.schedule == "interleaved" else 1

    @property
    def turns(self) -> int:
        """Number of requests or micro-batches that a value covers; 1 for the throughput."""
        return (1, int(self.requests), int(self.micro_batches))[self.code]

    @property
    def split_backward(self) -> bool:
        """True if the gradients of weights are computed in separate passes."""
        return self.code == TRAINING and self.schedule == "zb-h1"
