"""Execution: times of repeated runs of a schedule, as arrays and as traces."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hetgym._text import brief
from hetgym._types import FloatArray
from hetgym.execution.cluster import Cluster, Loaded
from hetgym.execution.devices import ExecutionDevice
from hetgym.execution.slots import Times
from hetgym.execution.work import Work
from hetgym.graph.dataflow import DataflowGraph
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Trace

RUNTIME = "executed"  # Name of the runtime in traces of real runs


@dataclass(frozen=True, eq=False)
class Execution:
    """Repeated runs of one schedule."""

    problem: Problem  # the problem that traces refer to; its costs were not used
    schedule: Schedule  # the schedule that ran
    loaded: Loaded  # the loaded schedule, with the device orders
    # start, finish: [rounds, n] times of each operator, relative to the moment when all workers were ready [s]
    start: FloatArray
    finish: FloatArray
    # sent, arrived: [rounds, e] times at which the tensor of each edge began to be written to shared memory, and became
    # readable by the other device [s]. Equal for edges that stay on a device.
    sent: FloatArray
    arrived: FloatArray

    __repr__ = brief

    @cached_property
    def makespans(self) -> FloatArray:
        """[rounds] makespan of each round: the finish of the last operator [s]."""
        return np.asarray(self.finish.max(axis=1))

    @property
    def makespan(self) -> float:
        """Median of the makespans of all rounds [s]."""
        return float(np.median(self.makespans))

    @property
    def duration(self) -> FloatArray:
        """[n] median run time of each operator [s]."""
        return np.asarray(np.median(self.finish - self.start, axis=0))

    def trace(self, number: int | None = None) -> Trace:
        """One round as a trace that can be compared with simulated ones.

        Args:
            number: number of the round; by default the one whose makespan is the (lower) median.
        """
        if number is None:
            number = int(np.argsort(self.makespans, kind="stable")[(len(self.makespans) - 1) // 2])
        return Trace(
            problem=self.problem,
            assignment=self.schedule.assignment.copy(),
            start=self.start[number],
            finish=self.finish[number],
            sent=self.sent[number],
            arrived=self.arrived[number],
            runtime=RUNTIME,
            scheduler=self.schedule.scheduler,
            order=self.loaded.order,
        )


def run(
    graph: DataflowGraph | Work,
    schedule: Schedule,
    devices: Sequence[ExecutionDevice],
    *,
    rounds: int = 9,
    warmups: int = 2,
    seed: int = 0,
    patience: float = 30.0,
) -> Execution:
    """Start workers, run one schedule repeatedly, and end them.

    Args:
        graph: the graph to run.
        schedule: the schedule to run.
        devices: the devices; device d of the schedule is ``devices[d]``.
        rounds: number of timed runs.
        warmups: number of runs before the timed ones.
        seed: seed of random weights and inputs.
        patience: see :class:`Cluster`.

    Raises:
        InvalidSchedule: the schedule is not legal for this graph and this number of devices.
        ExecutionError: a worker failed, or an operator cannot be run.
    """
    with Cluster(graph, devices, seed=seed, patience=patience) as cluster:
        return execute(cluster, [schedule], rounds=rounds, warmups=warmups)[0]


def execute(
    cluster: Cluster,
    schedules: Sequence[Schedule],
    *,
    rounds: int = 9,
    warmups: int = 2,
    rng: np.random.Generator | None = None,
) -> list[Execution]:
    """Run several schedules, all of them once per round, in a different order each round.

    Slow changes of the machine's speed then affect all schedules equally, so that their times can be compared.

    Args:
        cluster: worker processes of the schedules' graph.
        schedules: the schedules to run.
        rounds: number of timed runs of each schedule, at least 1.
        warmups: number of runs of each schedule before the timed ones.
        rng: source of randomness for the order of each round; seed 0 by default.

    Returns:
        One result per schedule.

    Raises:
        InvalidSchedule: a schedule that is not legal.
        ExecutionError: a worker failed, or an operator cannot be run.
    """
    rng = rng if rng is not None else np.random.default_rng(0)
    loaded = [cluster.load(schedule) for schedule in schedules]
    runs: list[list[Times]] = [[] for _ in schedules]
    for number in range(warmups + max(1, rounds)):
        for k in rng.permutation(len(loaded)).tolist():
            times = cluster.run(loaded[k])
            if number >= warmups:
                runs[k].append(times)
    for one in loaded:
        cluster.forget(one)
    return [_execution(cluster, one, times) for one, times in zip(loaded, runs, strict=True)]


def _execution(cluster: Cluster, loaded: Loaded, runs: list[Times]) -> Execution:
    """Collect the rounds of one schedule, in seconds."""
    problem, assignment = cluster.problem, loaded.schedule.assignment
    tensor, maker = problem.edge_tensor, problem.edge_source
    remote = assignment[maker] != assignment[problem.edge_target]
    start, finish = (np.stack([getattr(times, what) for times in runs]) * 1e-9 for what in ("start", "finish"))
    sent = np.where(remote, np.stack([times.sent[tensor] for times in runs]) * 1e-9, finish[:, maker])
    arrived = np.where(remote, np.stack([times.published[tensor] for times in runs]) * 1e-9, finish[:, maker])
    return Execution(problem, loaded.schedule, loaded, start, finish, sent, arrived)
