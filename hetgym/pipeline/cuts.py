"""Cuts: divisions of a problem's blocks among devices, and the time and memory of their stages."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import lean
from hetgym._text import brief
from hetgym._types import FloatArray, Int64Array, IntArray
from hetgym.pipeline.contraction import Contraction
from hetgym.pipeline.evaluation import flow_table, last_finish, schedule_table
from hetgym.pipeline.objective import LATENCY, THROUGHPUT, TRAINING, Objective
from hetgym.pipeline.problem import DeviceKind, PipelineProblem
from hetgym.pipeline.tables import CutTables
from hetgym.pipeline.training import TrainingPipeline


class Stage(NamedTuple):
    """Consecutive blocks on a device. In a cut of several rounds every device has one stage in each round: a chunk."""

    # first, end: its blocks, from `first` to before `end`
    first: int
    end: int
    device: int  # number of the device


Cut = Sequence[Stage]  # Stages in reading order. All rounds use the devices of the first round, in the same order.


class CutValue(NamedTuple):
    """The value of a cut, and the times of its stages from which it follows."""

    value: float  # value of the objective [s]
    # forward, backward, weight: [stages] seconds of the passes of each stage, transfers included
    forward: FloatArray
    backward: FloatArray
    weight: FloatArray


@dataclass(frozen=True)
class CutProblem:
    """A pipeline to be cut into stages, priced for an objective; made by :func:`cut_problem`."""

    training: TrainingPipeline  # the pipeline, with its backward pass
    objective: Objective  # the figure by which cuts are judged
    blocks: Contraction  # the blocks of operators, in the order in which they are cut
    tables: CutTables  # tables of the loads, transfers and memory of any stage
    names: tuple[str, ...]  # [n] the name of each block, that of its first operator
    # True if every block is one operator, read by the next one only; loads from the tables are then those of
    # PipelineProblem.loads to the last bit
    is_chain: bool
    within_memory: bool  # True if some cut fits into memory; otherwise memory is ignored
    alone: float = np.inf  # value of the best single device [s]; inf if none can run everything
    reference: float = np.nan  # least value of a few simple cuts [s]; see reference
    reference_cut: tuple[Stage, ...] = ()  # the cut of that value
    # cache of figures that are computed on demand, by name
    known: dict[str, float] = field(default_factory=dict, compare=False)

    __repr__ = brief

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
        return self._measured(cut)[1]

    def fits(self, cut: Cut) -> bool:
        """True if every device can run and hold its stages."""
        return self._measured(cut)[2]

    def evaluate(self, cut: Cut) -> CutValue:
        """Compute the value of a cut from the tables."""
        return self.price(cut, *self._measured(cut)[0])

    def value_within(self, cut: Cut) -> float:
        """Value of a cut [s]; inf if it cannot run or exceeds the memory."""
        passes, _, fits = self._measured(cut)
        return self.price(cut, *passes).value if fits else np.inf

    def _measured(self, cut: Cut) -> tuple[FloatArray, FloatArray, bool]:
        """[3, stages] seconds of the passes, [d] bytes of the devices, and whether they can run and hold the stages."""
        depth, tables = len({stage.device for stage in cut}), self.tables
        passes, held = np.zeros((3, len(cut))), np.zeros(len(tables.capacity))
        keep = tables.peak[len(cut) // depth, depth]
        fits = _measure(tables, np.array(cut, np.int64), keep, depth, self.objective.code == TRAINING, passes, held)
        if fits < 0:
            raise IndexError(f"{self.problem.name!r} has {len(self.names)} blocks and {len(held)} devices, not {cut}")
        return passes, held, fits == 1

    def price(self, cut: Cut, forward: FloatArray, backward: FloatArray, weight: FloatArray) -> CutValue:
        """Compute the value of a cut, given the times of its stages from the tables.

        Where these times may differ from :meth:`PipelineProblem.loads` in the last bits, those loads are used instead.

        Args:
        forward, backward, weight: [stages] seconds of the passes of each stage, transfers included.
        """
        objective, code, devices = self.objective, self.objective.code, [stage.device for stage in cut]
        depth = len(set(devices))
        if not self.is_chain and depth == len(cut):
            forward = self._loads(cut)[devices]
        if code == THROUGHPUT:
            value = max(forward.tolist())
        elif code == LATENCY:
            value = last_finish(flow_table(depth, objective.turns), forward[None, None], np.zeros(len(cut)))
        else:
            table = schedule_table(objective.schedule, depth, objective.turns, len(cut) // depth)
            seconds = np.array((forward, backward, weight))[:, None]
            value = last_finish(table, seconds, np.zeros(len(cut)))
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


# After each stage, `passes` and `held` hold the sums of all stages so far. A stage that does not exist ends the loop at
# once; one that cannot run is counted all the same, so that its times can be shown. O(blocks).
@lean
def _measure(
    tables: CutTables, cut: Int64Array, keep: FloatArray, depth: int, trains: bool, passes: FloatArray, held: FloatArray
) -> int:
    """Add up the times and the memory of stages.

    Args:
        cut: [stages, 3] first block, end and device of each stage.
        keep: [d] micro-batches whose activations each stage of the first round keeps.
        depth: number of devices that hold stages.
        trains: true if a backward pass moves as much as a forward pass.
        passes: [3, stages] written; 0 everywhere before [s].
        held: [d] written; 0 everywhere before [byte].

    Returns:
        1 if every device can run and hold its stages, 0 if not, -1 if there is no such block or device.
    """
    n, d, fits = tables.forward.shape[0], tables.forward.shape[1], 1
    for k in range(len(cut)):
        first, end, device = cut[k, 0], cut[k, 1], cut[k, 2]
        if not (0 <= first < end <= n and 0 <= device < d):
            return -1
        for block in range(first, end):
            passes[0, k] += tables.forward[block, device]
            passes[1, k] += tables.backward[block, device]
            passes[2, k] += tables.weight[block, device]
        paid = tables.comm[first, end] if tables.pays[device] > 0 else 0.0
        passes[0, k] += paid
        passes[1, k] += paid if trains else 0.0
        held[device] += tables.size[first, end] + keep[k % depth] * (tables.stash[end] - tables.stash[first])
        if tables.wall[first, device] < end:
            fits = 0
    for device in range(d):
        if held[device] > tables.capacity[device]:
            fits = 0
    return fits
