"""Problems of planning a training step: a model, a cluster, a global batch, and the plans that are allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hetgym._config import check_number
from hetgym.errors import ConfigError, unknown_name
from hetgym.parallel.cluster import Cluster
from hetgym.parallel.framework import Framework
from hetgym.parallel.layers import LayerCosts
from hetgym.parallel.plan import Group, ParallelPlan
from hetgym.parallel.step import TrainingStep, training_step
from hetgym.pipeline import SCHEDULES


@dataclass(frozen=True)
class TrainingProblem:
    """Choose stages, groups of GPUs, degrees and micro-batch so that a training step is as short as possible.

    Args:
        costs: times and sizes of the model's layers.
        cluster: the GPUs; a plan may leave some of them idle.
        global_batch: samples of a step.
        framework: what the training program adds.
        tensors: tensor-parallel degrees that a group may have; groups do not reach beyond their node.
        micro_batches: sizes of micro-batches that may be chosen.
        stages: most stages of a pipeline.
        schedule: order of forward and backward passes, with one chunk a stage.
        fill: True to allow all data degrees: where they do not divide the global batch, the last micro-batches are
            filled up, and a step processes a few samples more.

    Raises:
        ConfigError: a number out of range, or nothing to choose from.
        UnknownName: no such schedule.
    """

    costs: LayerCosts
    cluster: Cluster
    global_batch: int
    framework: Framework = Framework()
    tensors: tuple[int, ...] = (1, 2, 4, 8)
    micro_batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    stages: int = 64
    schedule: str = "1f1b"
    fill: bool = False

    def __post_init__(self) -> None:
        for what in ("tensors", "micro_batches"):
            object.__setattr__(self, what, tuple(sorted(set(getattr(self, what)))))
            if not getattr(self, what):
                raise ConfigError(f"training problem: {what} is empty")
        for what, values in (
            ("global_batch", (self.global_batch,)),
            ("stages", (self.stages,)),
            ("tensors", self.tensors),
            ("micro_batches", self.micro_batches),
        ):
            for value in values:
                check_number(value, f"training problem: {what}", ConfigError, minimum=1)
        if self.schedule not in SCHEDULES:
            raise unknown_name("pipeline schedule", self.schedule, SCHEDULES)

    def degrees(self) -> Iterator[tuple[int, int]]:
        """Data degrees and micro-batches whose product divides the global batch, in rising order.

        With ``fill``, those whose replicas process fewer micro-batches than with one replica less.
        """
        for data in range(1, min(self.global_batch, self.cluster.gpus) + 1):
            for batch in self.micro_batches:
                if self.samples(data, batch) == self.global_batch or (
                    self.fill
                    and data * batch <= self.global_batch
                    and self._turns(data, batch) < self._turns(data - 1, batch)
                ):
                    yield data, batch

    def samples(self, data: int, micro_batch: int) -> int:
        """Samples of a step: the global batch, or the next multiple of data degree times micro-batch."""
        return self._turns(data, micro_batch) * data * micro_batch

    def _turns(self, data: int, micro_batch: int) -> int:
        return -(-self.global_batch // max(1, data * micro_batch))

    def kinds(self, micro_batch: int) -> list[Group]:
        """Groups whose times are known for a micro-batch, by pool and tensor degree."""
        return [
            Group(pool.name, tensor)
            for pool in self.cluster.pools
            for tensor in self.tensors
            if tensor <= pool.per_node
            and self.costs.sizes(tensor) is not None
            and self.costs.passes(pool.name, tensor, micro_batch) is not None
        ]

    def step(self, plan: ParallelPlan) -> TrainingStep:
        """Simulate the step of a plan."""
        return training_step(plan, self.costs, self.cluster, self.framework)

    def value(self, plan: ParallelPlan) -> float:
        """Time of the step of a plan [s]; inf if it does not fit in memory."""
        step = self.step(plan)
        return step.seconds if step.fits else float("inf")
