"""Problems of planning a training step: a model, a cluster, a global batch, and the plans that are allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf
from typing import NamedTuple

import numpy as np

from hetgym._input.config import check_number
from hetgym._text import brief
from hetgym._types import FloatArray, frozen
from hetgym.errors import ConfigError, check_name
from hetgym.parallel.cluster import Cluster
from hetgym.parallel.framework import Framework
from hetgym.parallel.layers import LayerCosts, switched
from hetgym.parallel.plan import Group, ParallelPlan
from hetgym.parallel.step import TrainingStep, misplaced, stage_memory, training_step
from hetgym.pipeline import SCHEDULES


class Setting(NamedTuple):
    """What all stages of a plan have in common."""

    data: int  # data degree
    micro_batch: int  # samples of a micro-batch
    schedule: str = "1f1b"  # order of forward and backward passes, one of SCHEDULES
    chunks: int = 1  # pieces of the model on each GPU; 1 except under `interleaved`
    zero: int | None = None  # what replicas share out; None for what the framework says
    sequence: bool | None = None  # whether groups share out tokens; None for what the framework says

    @property
    def order(self) -> tuple[str, int]:
        """Schedule and chunks."""
        return self.schedule, self.chunks


@dataclass(frozen=True)
class TrainingProblem:
    """Choose stages, groups of GPUs, degrees, micro-batch and schedule so that a training step is as short as possible.

    Args:
        cluster: the GPUs; a plan may leave some of them idle.
        global_batch: samples of a step.
        tensors: tensor-parallel degrees that a group may have, of those that divide the GPUs of a node: groups do not
            reach beyond their node.
        micro_batches: sizes of micro-batches that may be chosen.
        stages: largest number of stages of a pipeline.
        schedules: orders of forward and backward passes that may be chosen.
        fill: True to allow all data degrees: where they do not divide the global batch, the last micro-batches are
            filled up, and a step processes a few samples more.
        chunks: pieces of the model on each GPU that may be chosen under ``interleaved``; 1 is 1F1B.
        zeros: stages of ZeRO that may be chosen; none for the framework's.
        sequences: whether sequence parallelism may be chosen, such as ``(False, True)``; none for the framework's.

    Raises:
        ConfigError: a number out of range, nothing to choose from, or costs that do not know sequence parallelism.
        UnknownName: no such schedule.
    """

    costs: LayerCosts
    cluster: Cluster
    global_batch: int
    framework: Framework = Framework()
    tensors: tuple[int, ...] = (1, 2, 4, 8)
    micro_batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    stages: int = 64
    schedules: tuple[str, ...] = ("1f1b",)
    fill: bool = False
    chunks: tuple[int, ...] = (2, 4)
    zeros: tuple[int, ...] = ()
    sequences: tuple[bool, ...] = ()
    _sums: dict[tuple[Group, int, str], FloatArray] = field(default_factory=dict, init=False, repr=False, compare=False)
    _under: dict[tuple[int | None, bool | None], TrainingProblem] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    __repr__ = brief

    def __post_init__(self) -> None:
        if isinstance(self.schedules, str):
            object.__setattr__(self, "schedules", (self.schedules,))
        for what in ("tensors", "micro_batches", "chunks", "schedules"):
            kept = dict.fromkeys(getattr(self, what))
            object.__setattr__(self, what, tuple(kept if what == "schedules" else sorted(kept)))
            if not getattr(self, what):
                raise ConfigError(f"training problem: {what} is empty")
        for what, values in (
            ("global_batch", (self.global_batch,)),
            ("stages", (self.stages,)),
            ("tensors", self.tensors),
            ("micro_batches", self.micro_batches),
            ("chunks", self.chunks),
        ):
            for value in values:
                check_number(value, f"training problem: {what}", ConfigError, minimum=1)
        for schedule in self.schedules:
            check_name("pipeline schedule", schedule, SCHEDULES)
        for what in ("zeros", "sequences"):
            object.__setattr__(self, what, tuple(sorted(dict.fromkeys(getattr(self, what)))))
        for zero in self.zeros or (None,):
            for sequence in self.sequences or (None,):
                switched(self.costs, self.framework, zero, sequence)
        if next(self.settings(), None) is None:
            raise ConfigError(
                f"training problem: no micro-batch of {list(self.micro_batches)} divides a global batch of "
                f"{self.global_batch}"
            )

    def settings(self) -> Iterator[Setting]:
        """Settings of plans: data degrees and micro-batches in rising order, each under each schedule.

        Without replicas there is nothing for ZeRO to share out, and only its least stage is offered.

        The product of both divides the global batch. With ``fill``, replicas process fewer micro-batches than with one
        replica less.
        """
        orders = [
            (schedule, chunks)
            for schedule in self.schedules
            for chunks in (self.chunks if schedule == "interleaved" else (1,))
        ]
        for data in range(1, min(self.global_batch, self.cluster.gpus) + 1):
            for batch in self.micro_batches:
                if self.samples(data, batch) == self.global_batch or (
                    self.fill
                    and data * batch <= self.global_batch
                    and self._turns(data, batch) < self._turns(data - 1, batch)
                ):
                    zeros = self.zeros[:1] if data == 1 else self.zeros
                    for order in orders:
                        for switches in product(zeros or (None,), self.sequences or (None,)):
                            yield Setting(data, batch, *order, *switches)

    def samples(self, data: int, micro_batch: int) -> int:
        """Samples of a step: the global batch, or the next multiple of data degree times micro-batch."""
        return self._turns(data, micro_batch) * data * micro_batch

    def _turns(self, data: int, micro_batch: int) -> int:
        return -(-self.global_batch // max(1, data * micro_batch))

    def kinds(self, micro_batch: int) -> list[Group]:
        """Groups that share out a node and whose times are known for a micro-batch, by pool and tensor degree."""
        return [
            Group(pool.name, tensor)
            for pool in self.cluster.pools
            for tensor in self.tensors
            if pool.per_node % tensor == 0
            and self.costs.sizes(tensor) is not None
            and self.costs.passes(pool.name, tensor, micro_batch) is not None
        ]

    def under(self, chosen: Setting | ParallelPlan) -> TrainingProblem:
        """The problem under the framework of a setting or plan, with its costs of layers."""
        key = chosen.zero, chosen.sequence
        if key == (None, None):
            return self
        if key not in self._under:
            costs, framework = switched(self.costs, self.framework, *key)
            self._under[key] = replace(self, costs=costs, framework=framework, zeros=(), sequences=())
        return self._under[key]

    def step(self, plan: ParallelPlan) -> TrainingStep:
        """Simulate the step of a plan."""
        at = self.under(plan)
        return training_step(plan, at.costs, self.cluster, at.framework)

    def value(self, plan: ParallelPlan, limit: float = inf) -> float:
        """Time of the step of a plan [s].

        It is inf if the plan does not fit in memory, if nodes do not hold its groups, or if it surely takes ``limit``
        or longer.
        """
        if self.bound(plan) >= limit or misplaced(plan, self.cluster):
            return inf
        return inf if self.fullest(plan) > 1.0 else self.step(plan).seconds

    def fullest(self, plan: ParallelPlan) -> float:
        """Share of its memory that the fullest GPU of a plan needs; above 1 if the plan does not fit."""
        at = self.under(plan)
        memory, capacity = stage_memory(plan, at.costs, self.cluster, at.framework)
        return float((memory / capacity).max())

    def bound(self, plan: ParallelPlan) -> float:
        """A lower bound on the step of a plan [s].

        From the moment that a stage may begin until its last gradient leaves it, it needs M times its passes, or once
        its passes and the time of the stages behind; weight passes, which a schedule may postpone, are left out. With
        several chunks a micro-batch passes all of them, and every group needs M times the passes of its chunks.
        """
        longest, at = 0.0, self.under(plan)
        for groups in dict.fromkeys(zip(*(stage.groups for stage in plan.stages), strict=True)):
            behind, loads = 0.0, [0.0] * plan.depth
            for k in reversed(range(len(plan.stages))):
                stage, sums = plan.stages[k], at.slots(groups[k], plan.micro_batch, plan.schedule)
                slot = float(sums[stage.last + 1] - sums[stage.first])
                loads[k % plan.depth] += slot
                behind = slot + behind if plan.chunks > 1 else max(plan.micro_batches * slot, slot + behind)
            longest = max(longest, behind, plan.micro_batches * max(loads))
        return longest * (1 - 1e-9)

    def slots(self, group: Group, micro_batch: int, schedule: str) -> FloatArray:
        """[l + 1] time of the passes of the layers before each on a group, weight passes left out under ZB-H1 [s].

        Raises:
            ConfigError: the times are not known.
        """
        key = group, micro_batch, schedule
        if key not in self._sums:
            passes = self.costs.passes(group.pool, group.tensor, micro_batch)
            if passes is None:
                raise ConfigError(f"no times of micro-batch {micro_batch} on {group.tensor} GPUs of {group.pool!r}")
            share = 0.5 if schedule == "zb-h1" else 1.0
            self._sums[key] = frozen(np.append(0.0, np.cumsum(passes.forward + share * passes.backward)))
        return self._sums[key]
