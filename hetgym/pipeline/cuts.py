"""Cuts: divisions of a problem's blocks among devices, and the time and memory of their stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hetgym._types import FloatArray, IntArray
from hetgym.pipeline.contraction import Contraction
from hetgym.pipeline.evaluation import last_finish, request_table, schedule_table
from hetgym.pipeline.objective import LATENCY, THROUGHPUT, TRAINING, Objective
from hetgym.pipeline.problem import DeviceKind, PipelineProblem
from hetgym.pipeline.tables import CutTables
from hetgym.pipeline.training import TrainingPipeline


class Stage(NamedTuple):
    """Consecutive blocks on a device. In a cut of several rounds every device has one stage in each round: a chunk.

    Attributes:
        first, end: its blocks, from ``first`` to before ``end``.
        device: number of the device.
    """

    first: int
    end: int
    device: int


Cut = Sequence[Stage]
"""Stages in reading order. All rounds use the devices of the first round, in the same order."""


class CutValue(NamedTuple):
    """The value of a cut, and the times of its stages from which it follows.

    Attributes:
        value: value of the objective [s].
        forward, backward, weight: [stages] seconds of the passes of each stage, transfers included.
    """

    value: float
    forward: FloatArray
    backward: FloatArray
    weight: FloatArray


@dataclass(frozen=True)
class CutProblem:
    """A pipeline to be cut into stages, priced for an objective; made by :func:`cut_problem`.

    Attributes:
        training: the pipeline, with its backward pass.
        objective: the figure by which cuts are judged.
        blocks: the blocks of operators, in the order in which they are cut.
        tables: tables of the loads, transfers and memory of any stage.
        names: [n] the name of each block, that of its first operator.
        is_chain: True if every block is one operator, read by the next one only; loads from the tables are then those
            of :meth:`PipelineProblem.loads` to the last bit.
        within_memory: True if some cut fits into memory; otherwise memory is ignored.
        alone: value of the best single device [s]; inf if none can run everything.
        reference: least value of a few simple cuts [s]; see :mod:`hetgym.pipeline.reference`.
        reference_cut: the cut of that value.
        known: cache of figures that are computed on demand, by name.
    """

    training: TrainingPipeline
    objective: Objective
    blocks: Contraction
    tables: CutTables
    names: tuple[str, ...]
    is_chain: bool
    within_memory: bool
    alone: float = np.inf
    reference: float = np.nan
    reference_cut: tuple[Stage, ...] = ()
    known: dict[str, float] = field(default_factory=dict, compare=False)

    @property
    def problem(self) -> PipelineProblem:
        """The pipeline without its backward pass."""
        return self.training.problem

    def assignment(self, cut: Cut) -> IntArray:
        """[operators] device of each operator of the problem."""
        device = np.zeros(len(self.blocks.members), np.int32)
        for first, end, d in cut:
            device[first:end] = d
        return self.blocks.expand(device, self.problem.num_operators)

    def memory(self, cut: Cut) -> FloatArray:
        """[d] peak memory of each device: weights, state, and the activations that the schedule keeps [byte]."""
        t, held = self.tables, np.zeros(len(self.tables.capacity))
        devices = list(dict.fromkeys(stage.device for stage in cut))
        for first, end, d in cut:
            peak = t.peak[len(cut) // len(devices), len(devices), devices.index(d)]
            held[d] += t.size[end] - t.size[first] + peak * (t.stash[end] - t.stash[first])
        return held

    def fits(self, cut: Cut) -> bool:
        """True if every device can run and hold its stages."""
        t = self.tables
        able = all(t.wall[first, d] >= end for first, end, d in cut)
        return able and not (self.memory(cut) > t.capacity).any()

    def evaluate(self, cut: Cut) -> CutValue:
        """Compute the value of a cut from the tables."""
        t = self.tables
        sums = [
            [float(np.cumsum(table[first:end, d])[-1]) for first, end, d in cut]
            for table in (t.forward, t.backward, t.weight)
        ]
        paid = np.array([float(t.comm[first, end]) if t.pays[d] else 0.0 for first, end, d in cut])
        backward = np.array(sums[1]) + paid if self.objective.code == TRAINING else np.zeros(len(cut))
        return self.price(cut, np.array(sums[0]) + paid, backward, np.array(sums[2]))

    def price(self, cut: Cut, forward: FloatArray, backward: FloatArray, weight: FloatArray) -> CutValue:
        """Compute the value of a cut, given the times of its stages from the tables.

        Where these times may differ from :meth:`PipelineProblem.loads` in the last bits, those loads are used instead.

        Args:
            cut: the stages.
            forward: [stages] seconds of the forward pass of each stage, transfers included.
            backward: [stages] seconds of the backward pass of each stage, transfers included.
            weight: [stages] seconds of the weight pass of each stage.
        """
        objective, devices = self.objective, [stage.device for stage in cut]
        depth = len(set(devices))
        if not self.is_chain and depth == len(cut):
            forward = self._loads(cut)[devices]
        if objective.code == THROUGHPUT:
            value = max(forward.tolist())
        elif objective.code == LATENCY:
            table = request_table(depth, objective.turns)
            value = last_finish(table, forward[None, None], np.zeros(len(cut)), 0)
        else:
            table = schedule_table(objective.schedule, depth, objective.turns, len(cut) // depth)
            seconds = np.array((forward, backward, weight))[:, None]
            value = last_finish(table, seconds, np.zeros(len(cut)), 0)
        return CutValue(value, forward, backward, weight)

    def _loads(self, cut: Cut) -> FloatArray:
        """[d] loads by the problem's own method; without memory limits, as it would refuse a cut that exceeds them."""
        problem = self.problem
        if self.within_memory:
            return problem.loads(self.assignment(cut))
        free = [DeviceKind(kind.name, kind.count, np.inf, kind.transfers) for kind in problem.kinds]
        edges = list(zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True))
        roomy = PipelineProblem(problem.cost, edges, free, problem.transfer, 0.0, problem.colour, problem.backward)
        return roomy.loads(self.assignment(cut))
