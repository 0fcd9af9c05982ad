"""Permutation flow shops: jobs that visit the same devices in the same order without overtaking."""

from dataclasses import dataclass

import numpy as np

from hetgym._types import FloatArray
from hetgym.pipeline.evaluation import flow_table, last_finish
from hetgym.problem import Problem
from hetgym.schedule import Schedule


@dataclass(frozen=True)
class FlowShop:
    """Jobs that visit the same devices in the same order without overtaking each other.

    >>> FlowShop((0, 1), (1, 1), np.array([[2.0, 3.0], [2.0, 3.0]]), (0.5,)).makespan
    8.5
    """

    devices: tuple[int, ...]  # numbers of the devices, in the order in which jobs visit them
    parts: tuple[int, ...]  # time steps (time_slices) or layers (wavefront) that each device holds
    seconds: FloatArray  # [jobs, stages] run time of each job on each device
    moves: tuple[float, ...]  # [stages - 1] seconds from each device to the next one
    # most jobs that have started on the first device but not finished on the last; None = any number
    in_flight: int | None = None

    @property
    def makespan(self) -> float:
        """Finish of the last job on the last device [s]."""
        jobs, stages = self.seconds.shape
        moves = np.zeros(stages)
        known = min(stages, len(self.moves))
        moves[:known] = self.moves[:known]
        return last_finish(
            flow_table(stages, jobs), np.array(self.seconds, np.float64, order="C")[None], moves, self.in_flight or 0
        )

    def unroll(self) -> tuple[Problem, Schedule]:
        """Convert to a problem with an operator for each job and stage, and its schedule, for :func:`hetgym.simulate`.

        Devices serve jobs first come, first served. If the number of jobs in flight is limited, a job's first operator
        waits for the last operator of an earlier job.
        """
        jobs, stages = self.seconds.shape
        cost = np.full((jobs * stages, stages), np.inf)
        for stage in range(stages):
            cost[stage::stages, stage] = self.seconds[:, stage]
        latency = np.zeros((stages, stages))
        for stage, seconds in enumerate(self.moves):
            latency[stage, stage + 1] = seconds
        edges = [(k * stages + s, k * stages + s + 1, 0.0) for k in range(jobs) for s in range(stages - 1)]
        if self.in_flight:
            edges += [((k - self.in_flight + 1) * stages - 1, k * stages, 0.0) for k in range(self.in_flight, jobs)]
        problem = Problem.from_arrays(
            cost,
            edges,
            latency,
            operator_names=[f"job{k}.{stage}" for k in range(jobs) for stage in range(stages)],
            device_names=[f"device{device}" for device in self.devices],
            name="flow-shop",
        )
        order = [list(range(stage, jobs * stages, stages)) for stage in range(stages)]
        return problem, Schedule(np.tile(np.arange(stages), jobs), order=order)
