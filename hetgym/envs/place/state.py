"""The typed state of placing operators: the arrays that :mod:`hetgym.envs.place.dynamics` reads and writes.

Sizes: L lanes; n operators and d devices of a problem, padded to N and D in arrays that all lanes share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._kernels.records import reader, record
from hetgym._types import BoolArray, Float32Array, FloatArray, Int8Array, Int64Array, IntArray, frozen
from hetgym.envs.place.instance import ScheduleInstance
from hetgym.planning.intervals import Intervals
from hetgym.planning.timeline import Timeline
from hetgym.problem import Problem, ProblemArrays
from hetgym.weights import SharedWeights, unshared


@record
class PlaceTables(NamedTuple):
    """A problem's tables for kernels; read-only, computed once for each problem."""

    order: IntArray  # [n] operators in the order of decisions
    optimistic: FloatArray  # [n, d] PEFT's optimistic cost to an exit [s]
    tail: FloatArray  # [n, d] proven least time from the operator's finish to the end [s]
    bonus: FloatArray  # [n, d] added to finish times when the completion compares devices [s]
    free: IntArray  # [n] -1: no operator's device is fixed
    weights: FloatArray  # [n] bytes that stay on the operator's device
    shared: SharedWeights  # those that other operators read, too
    working: FloatArray  # [n] bytes of its inputs and outputs
    capacity: FloatArray  # [d] memory of each device [byte]; inf where memory is ignored


def tables_of(instance: ScheduleInstance, memory: str) -> PlaceTables:
    """The tables of an instance; ``memory``: ``"mask"`` to respect the devices' capacities, ``"ignore"`` not to."""
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
    )
    return PlaceTables._make(
        field if isinstance(field, tuple) else frozen(np.ascontiguousarray(field)) for field in tables
    )


@record
class PlaceState(NamedTuple):
    """The state of the episodes, apart from their timelines."""

    turn: Int64Array  # [L] number of operators that are placed
    reference: FloatArray  # [L] makespan that returns compare with [s]
    scale: FloatArray  # [L] 1 / reference; 0 if that is 0 [1/s]
    bound: FloatArray  # [L] proven lower bound on the makespan, given the operators that are placed [s]
    # [L] estimate of the makespan whose decrease is the reward [s]: the reference at the start, then the bound, at the
    # end the makespan
    potential: FloatArray
    last: FloatArray  # [L] latest finish of a placed operator [s]
    start: FloatArray  # [L, D] start of the current operator on each device [s]; inf where it cannot run
    finish: FloatArray  # [L, D] its finish there [s]
    ahead: FloatArray  # [L, D] the bound after placing it there [s]
    completion: FloatArray  # [L, D] the completion after placing it there [s]
    busy: FloatArray  # [L, D] summed run time of the operators on each device [s]
    held: FloatArray  # [L, D] weights of these operators [byte]
    peak: FloatArray  # [L, D] largest working set among them [byte]
    log: Int64Array  # [L, N] actions as they were passed
    # [L, N] and [L, D + 1] of finished episodes: the device orders, see :func:`~hetgym.planning.timeline.device_order`
    order: IntArray
    pointer: IntArray


def new_state(lanes: int, operators: int, devices: int) -> PlaceState:
    """A state of zeros."""
    per_lane = [np.zeros(lanes) for _ in range(5)]
    per_device = [np.zeros((lanes, devices)) for _ in range(7)]
    log = np.zeros((lanes, operators), np.int64)
    orders = np.zeros((lanes, operators), np.int32), np.zeros((lanes, devices + 1), np.int32)
    return PlaceState._make([np.zeros(lanes, np.int64), *per_lane, *per_device, log, *orders])


@record
class PlaceObservation(NamedTuple):
    """The part of the observations that changes from step to step; see :mod:`hetgym.envs.place.observation`."""

    operators: Float32Array  # [L, N, 12], or [L, 0, 12] at levels without the graph
    assignment: Int64Array  # [L, N], or [L, 0]
    devices: Float32Array  # [L, D, 4]
    candidates: Float32Array  # [L, D, 9]
    current: Int64Array  # [L, 1]
    mask: Int8Array  # [L, D]


@record
class PlaceRecord(NamedTuple):
    """The arrays that the kernels need of the lanes, as one record."""

    problems: Int64Array  # [L, …] rows of records: ProblemArrays
    tables: Int64Array  # [L, …] rows of records: PlaceTables
    placed: Int64Array  # [L, …] rows of records: Timeline
    spare: Int64Array  # [L, …] rows of records: timelines of the same sizes, as scratch
    state: PlaceState  # of all lanes
    observation: PlaceObservation  # of all lanes
    reward: FloatArray  # [L] of the last step
    over: BoolArray  # [L] true where the episode is over
    fresh: BoolArray  # [L] true where an episode is to be opened


ANY = Problem.from_arrays(np.ones((1, 1)), [])  # A problem, for examples of records


def _examples() -> tuple[ProblemArrays, PlaceTables, Timeline, PlaceRecord]:
    whole, row = np.ones(1), np.ones(1)  # of the array types with which the timeline is compiled anyway
    table, number = np.ones((1, 1)), np.zeros(1, np.int32)
    tables = PlaceTables(number, table, table, table, number, whole, unshared(1), whole, row)
    numbers = np.zeros((1, 1), np.int32)
    busy = Intervals(table, table, numbers, numbers, number, numbers, table, number, number, whole)
    placed = Timeline(number, whole, whole, busy)
    rows = np.zeros((1, 1), np.int64)
    cube, mask = np.zeros((1, 1, 1), np.float32), np.zeros((1, 1), np.int8)
    observation = PlaceObservation(cube, rows, cube, cube, rows, mask)
    over = np.zeros(1, np.bool_)
    record = PlaceRecord(rows, rows, rows, rows, new_state(1, 1, 1), observation, whole, over, over)
    return ANY.arrays, tables, placed, record


PROBLEM, TABLES, TIMELINE, RECORD = _examples()  # Examples of the records that lanes hold
read_problem = reader(PROBLEM)
read_tables = reader(TABLES)
read_lanes = reader(RECORD)
