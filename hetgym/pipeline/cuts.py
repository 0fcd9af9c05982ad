"""Cuts: a problem's blocks divided among devices, and what the stages of a cut take in time and memory."""

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
    """Consecutive blocks on a device. In a cut of several rounds a device has one in each: a chunk of the model.

    Attributes:
        first, end: its blocks: from the first to before the end.
        device: number of the device.
    """

    first: int
    end: int
    device: int


Cut = Sequence[Stage]
"""Stages in reading order. With several rounds those of each round are on the devices of the first, in its order."""


class CutValue(NamedTuple):
    """The value of a cut, and the times of its stages that lead to it.

    Attributes:
        value: of the objective [s].
        forward, backward, weight: [stages] seconds of the passes of each stage, transfers included.
    """

    value: float
    forward: FloatArray
    backward: FloatArray
    weight: FloatArray


@dataclass(frozen=True)
class CutProblem:
    """A pipeline whose blocks are to be cut into stages, priced for an objective; :func:`cut_problem` makes it.

    Attributes:
        training: the pipeline, with its backward pass.
        objective: the figure by which cuts are judged.
        blocks: the blocks that its operators make, in the order in which they are cut.
        tables: loads, transfers and memory of any stage.
        names: [n] a name for each block, that of its first operator.
        is_chain: whether blocks are operators, each read by the next alone: loads of the tables then are those of
            :meth:`PipelineProblem.loads` to the last bit.
        within_memory: whether some cut fits into memory; if none does, memory is not looked at.
        alone: value of the best single device; inf if none can run everything [s].
        reference: least value of the cuts that anybody would think of [s]; see :mod:`hetgym.pipeline.reference`.
        reference_cut: the cut that has it.
        known: figures that were worked out on demand, by name, kept for the next who asks.
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
        """[d] bytes that each device holds at most: weights and state, and the activations that the schedule keeps."""
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
        """The value of a cut, from the tables."""
        t = self.tables
        sums = [
            [float(np.cumsum(table[first:end, d])[-1]) for first, end, d in cut]
            for table in (t.forward, t.backward, t.weight)
        ]
        paid = np.array([float(t.comm[first, end]) if t.pays[d] else 0.0 for first, end, d in cut])
        backward = np.array(sums[1]) + paid if self.objective.code == TRAINING else np.zeros(len(cut))
        return self.price(cut, np.array(sums[0]) + paid, backward, np.array(sums[2]))

    def price(self, cut: Cut, forward: FloatArray, backward: FloatArray, weight: FloatArray) -> CutValue:
        """The value of a cut whose stages' times have been added up from the tables.

        Where the tables may differ from :meth:`PipelineProblem.loads` in the last bits, those loads are taken.

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
            value = float(forward.max())
        elif objective.code == LATENCY:
            table = request_table(depth, objective.turns)
            value = last_finish(table, forward[None, None], np.zeros(len(cut)), 0)
        else:
            table = schedule_table(objective.schedule, depth, objective.turns, len(cut) // depth)
            seconds = np.array((forward, backward, weight))[:, None]
            value = last_finish(table, seconds, np.zeros(len(cut)), 0)
        return CutValue(value, forward, backward, weight)

    def _loads(self, cut: Cut) -> FloatArray:
        """[d] loads by the problem itself, which would refuse a cut that exceeds the memory: then without limits."""
        problem = self.problem
        if self.within_memory:
            return problem.loads(self.assignment(cut))
        free = [DeviceKind(kind.name, kind.count, np.inf, kind.transfers) for kind in problem.kinds]
        edges = list(zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True))
        roomy = PipelineProblem(problem.cost, edges, free, problem.transfer, 0.0, problem.colour, problem.backward)
        return roomy.loads(self.assignment(cut))
