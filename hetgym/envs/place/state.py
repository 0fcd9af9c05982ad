"""The typed state of placing operators: the arrays that :mod:`hetgym.envs.place.dynamics` reads and writes.

Sizes: L lanes; n operators and d devices of a problem, padded to N and D in arrays that all lanes share; M layers, N if
there is a target, else 0.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from hetgym._kernels.blanks import example
from hetgym._kernels.records import reader, record
from hetgym._types import BoolArray, Float32Array, FloatArray, Int8Array, Int64Array, IntArray, frozen
from hetgym.envs.place.instance import ScheduleInstance
from hetgym.envs.place.target import NO_TARGET, TargetTables, target_tables
from hetgym.planning.timeline import new_timeline
from hetgym.problem import Problem
from hetgym.weights import SharedWeights, unshared


@record
class PlaceTables(NamedTuple):
    """A problem's tables for kernels; read-only, computed once for each problem."""

    order: Annotated[IntArray, "n"]  # operators in the order of decisions
    optimistic: Annotated[FloatArray, "n, d"]  # PEFT's optimistic cost to an exit [s]
    tail: Annotated[FloatArray, "n, d"]  # proven least time from the operator's finish to the end [s]
    bonus: Annotated[FloatArray, "n, d"]  # added to finish times when the completion compares devices [s]
    free: Annotated[IntArray, "n"]  # -1: no operator's device is fixed
    weights: Annotated[FloatArray, "n"]  # bytes that stay on the operator's device
    shared: SharedWeights  # those that other operators read, too
    working: Annotated[FloatArray, "n"]  # bytes of its inputs and outputs
    capacity: Annotated[FloatArray, "d"]  # memory of each device [byte]; inf where memory is ignored
    program: TargetTables  # the program that is to run the placement


def tables_of(instance: ScheduleInstance, memory: str, target: str) -> PlaceTables:
    """The tables of an instance.

    Args:
        memory: ``"mask"`` to respect the devices' capacities, ``"ignore"`` not to.
        target: the program that is to run the placement; empty for none.

    Raises:
        ConfigError: the program cannot run the problem.
    """
    problem = instance.problem
    working = problem.output_bytes.copy()
    np.add.at(working, problem.edge_target, problem.edge_bytes)
    tables = PlaceTables(
        order=instance.order,
        optimistic=instance.optimistic,
        tail=instance.tail,
        bonus=instance.bonus,
        free=np.full(problem.num_operators, -1, np.int32),
        weights=problem.weight_bytes,
        shared=problem.shared_weights,
        working=working,
        capacity=problem.memory_capacity if memory == "mask" else np.full(problem.num_devices, np.inf),
        program=target_tables(problem, target),
    )
    return PlaceTables._make(
        field if isinstance(field, tuple) else frozen(np.ascontiguousarray(field)) for field in tables
    )


@record
class PlaceState(NamedTuple):
    """The state of the episodes, apart from their timelines."""

    turn: Annotated[Int64Array, "L"]  # number of operators that are placed
    reference: Annotated[FloatArray, "L"]  # makespan that returns compare with [s]
    scale: Annotated[FloatArray, "L"]  # 1 / reference; 0 if that is 0 [1/s]
    bound: Annotated[FloatArray, "L"]  # proven lower bound on the makespan, given the operators that are placed [s]
    # estimate of the makespan whose decrease is the reward [s]: the reference at the start, then the bound, at the end
    # the makespan
    potential: Annotated[FloatArray, "L"]
    last: Annotated[FloatArray, "L"]  # latest finish of a placed operator [s]
    start: Annotated[FloatArray, "L, D"]  # start of the current operator on each device [s]; inf where it cannot run
    finish: Annotated[FloatArray, "L, D"]  # its finish there [s]
    ahead: Annotated[FloatArray, "L, D"]  # the bound after placing it there [s]
    completion: Annotated[FloatArray, "L, D"]  # the completion after placing it there [s]
    busy: Annotated[FloatArray, "L, D"]  # summed run time of the operators on each device [s]
    held: Annotated[FloatArray, "L, D"]  # weights of these operators [byte]
    peak: Annotated[FloatArray, "L, D"]  # largest working set among them [byte]
    layers: Annotated[IntArray, "L, M"]  # device of each layer of a target, -1 while not decided; M = 0 without one
    experts: Annotated[IntArray, "L, M"]  # device of its experts
    log: Annotated[Int64Array, "L, N"]  # actions as they were passed
    # and [L, D + 1] of finished episodes: the device orders, see :func:`~hetgym.planning.timeline.device_order`
    order: Annotated[IntArray, "L, N"]
    pointer: Annotated[IntArray, "L, D + 1"]


@record
class PlaceObservation(NamedTuple):
    """The part of the observations that changes from step to step; see :mod:`hetgym.envs.place.observation`."""

    operators: Annotated[Float32Array, "L, N, 12"]  # , or [L, 0, 12] at levels without the graph
    assignment: Annotated[Int64Array, "L, N"]  # , or [L, 0]
    devices: Annotated[Float32Array, "L, D, 4"]
    candidates: Annotated[Float32Array, "L, D, 9"]
    current: Annotated[Int64Array, "L, 1"]
    mask: Annotated[Int8Array, "L, D"]


@record
class PlaceRecord(NamedTuple):
    """The arrays that the kernels need of the lanes, as one record."""

    problems: Annotated[Int64Array, "L, row"]  # rows of records: ProblemArrays
    tables: Annotated[Int64Array, "L, row"]  # rows of records: PlaceTables
    placed: Annotated[Int64Array, "L, row"]  # rows of records: Timeline
    spare: Annotated[Int64Array, "L, row"]  # rows of records: timelines of the same sizes, as scratch
    state: PlaceState  # of all lanes
    observation: PlaceObservation  # of all lanes
    reward: Annotated[FloatArray, "L"]  # of the last step
    over: Annotated[BoolArray, "L"]  # true where the episode is over
    fresh: Annotated[BoolArray, "L"]  # true where an episode is to be opened


ANY = Problem.from_arrays(np.ones((1, 1)), [])  # A problem, for examples of records


PROBLEM, TIMELINE = ANY.arrays, new_timeline(ANY)  # Examples of the records that lanes hold
TABLES = example(PlaceTables)._replace(shared=unshared(1), program=NO_TARGET)
RECORD = example(PlaceRecord)
read_problem = reader(PROBLEM)
read_tables = reader(TABLES)
read_lanes = reader(RECORD)
