"""Unrolling of pipelines into problems with an operator for each pass, for any runtime of the simulator."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray
from hetgym.pipeline.flow_shop import FlowShop
from hetgym.pipeline.objective import LATENCY, TRAINING, Objective
from hetgym.pipeline.schedules import Orders, orders, pass_seconds
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim.simulation import simulate
from hetgym.sim.trace import Trace


def unroll(
    passes: Orders,
    forward: npt.ArrayLike,
    backward: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    transfer: float = 0.0,
) -> tuple[Problem, Schedule]:
    """Convert a pipeline to a problem with an operator for each pass, and a schedule with the order of each device.

    A forward pass waits for the forward pass of the previous chunk of the model; a backward pass for its own forward
    pass and for the backward pass of the next chunk; a weight pass for its backward pass.

    Args:
        passes, forward, backward, weight, transfer: see :func:`~hetgym.pipeline.makespan`.

    Returns:
        The problem, of p devices, and the schedule, for :func:`hetgym.simulate` under any runtime.

    Raises:
        ConfigError: times of the wrong shape; weight passes without times, or times without passes.
    """
    stages, seconds = len(passes), pass_seconds(passes, forward, backward, weight)
    number: dict[tuple[str, int, int], int] = {}
    for stage, order in enumerate(passes):
        for item in order:
            number[item.kind, item.micro_batch, item.chunk * stages + stage] = len(number)
    cost = np.full((len(number), stages), np.inf)
    edges = []
    for (kind, batch, chunk), i in number.items():
        cost[i, chunk % stages] = seconds["FBW".index(kind), chunk // stages, chunk % stages]
        before = [("F", batch, chunk - 1)] if kind == "F" else [("B", batch, chunk)]
        if kind == "B":
            before = [("F", batch, chunk), ("B", batch, chunk + 1)]
        edges += [(number[key], i, 0.0) for key in before if key in number]
    problem = Problem.from_arrays(
        cost,
        edges,
        latency=transfer,
        operator_names=[f"{kind}{batch}.{chunk}" for kind, batch, chunk in number],
        operator_kinds=[kind for kind, _, _ in number],
        device_names=[f"stage{stage}" for stage in range(stages)],
        name=f"pipeline-{stages}x{seconds.shape[1]}",
    )
    rows = [
        [number[item.kind, item.micro_batch, item.chunk * stages + stage] for item in order]
        for stage, order in enumerate(passes)
    ]
    return problem, Schedule([chunk % stages for _, _, chunk in number], order=rows)


def run(
    passes: Orders,
    forward: npt.ArrayLike,
    backward: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    transfer: float = 0.0,
) -> Trace:
    """Simulate a pipeline under the classic runtime; see :func:`unroll` for arguments and errors.

    If only the makespan is needed, :func:`~hetgym.pipeline.makespan` is faster.

    >>> run(orders("1f1b", stages=4, micro_batches=8), forward=1.0, backward=2.0).makespan
    33.0
    """
    return simulate(*unroll(passes, forward, backward, weight, transfer))


def unroll_cut(
    objective: Objective, forward: FloatArray, backward: FloatArray, weight: FloatArray
) -> tuple[Problem, Schedule] | None:
    """The run whose makespan is the value of a cut; None for the throughput, which is not that of any finite run.

    Args:
        objective: the figure by which the cut is judged.
        forward, backward, weight: [v, p] seconds of the passes of each chunk; ``weight`` is 0 unless it is separate.
    """
    rounds, stages = forward.shape
    if objective.code == LATENCY:
        seconds = np.tile(forward[0], (objective.turns, 1))
        return FlowShop(tuple(range(stages)), (1,) * stages, seconds, (0.0,) * (stages - 1)).unroll()
    if objective.code == TRAINING:
        chunks = rounds if objective.schedule == "interleaved" else None
        passes = orders(objective.schedule, stages, objective.turns, chunks)
        return unroll(passes, forward, backward, weight if objective.split_backward else None)
    return None


@lru_cache(maxsize=512)
def schedule_of(objective: Objective, stages: int, rounds: int, scheduler: str = "") -> Schedule | None:
    """The schedule of :func:`unroll_cut`, which does not depend on any times.

    Args:
        objective: the figure by which cuts are judged.
        stages: number of devices p.
        rounds: chunks v on each device.
        scheduler: name of the method that made the cut.
    """
    ones = np.ones((rounds, stages))
    found = unroll_cut(objective, ones, ones, ones)
    return None if found is None else replace(found[1], scheduler=scheduler)
