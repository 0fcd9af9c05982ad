"""The typed state of improving plans: the moves that are offered, and what episodes have come to.

Sizes: L lanes; A actions; a move takes at most M operators; operators and devices are padded to N and D.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._kernels.records import reader, record
from hetgym._types import BoolArray, Float32Array, FloatArray, Int8Array, Int64Array, IntArray
from hetgym.search import regions

MOST = (1 << (regions.DOUBLINGS - 1)) + (1 << (regions.RETURNED - 1))
"""Largest number of operators that a move takes: a region, and another one in its place."""


@record
class ImproveState(NamedTuple):
    """The state of the episodes, apart from their plans."""

    turn: Int64Array  # [L] number of steps taken
    budget: Int64Array  # [L] steps of the episode
    reference: FloatArray  # [L] makespan that returns compare with [s]
    # [L] what the reward is the decrease of [s]: the reference at the start, then the makespan of the best plan, or of
    # the plan
    potential: FloatArray
    first: FloatArray  # [L] makespan of the start [s]
    reorder: FloatArray  # [L] share of moves that give an operator another turn
    patience: FloatArray  # [L] by how many temperatures the next move may make the plan longer
    log: Int64Array  # [L, T] actions as they were executed
    size: IntArray  # [L, A] operators that each move takes; -1 if it gives one another turn, 0 if it does nothing
    # [L, A, M] the operators that it takes, and their devices; the two turns of another kind of move
    operator: IntArray
    device: IntArray
    makespan: FloatArray  # [L, A] makespan after each move, inf if it is refused [s]


def new_state(lanes: int, actions: int, steps: int, most: int) -> ImproveState:
    """A state of zeros."""
    turn, budget = (np.zeros(lanes, np.int64) for _ in range(2))
    reference, potential, first, reorder, patience = (np.zeros(lanes) for _ in range(5))
    operator, device = (np.zeros((lanes, actions, most), np.int32) for _ in range(2))
    size, log = np.zeros((lanes, actions), np.int32), np.zeros((lanes, steps), np.int64)
    numbers = reference, potential, first, reorder, patience
    return ImproveState(turn, budget, *numbers, log, size, operator, device, np.zeros((lanes, actions)))


@record
class ImproveObservation(NamedTuple):
    """The part of the observations that changes from step to step."""

    operators: Float32Array  # [L, N, 12], or [L, 0, 12] at levels without the graph
    assignment: Int64Array  # [L, N], or [L, 0]
    devices: Float32Array  # [L, D, 4]
    candidates: Float32Array  # [L, A, 14]
    operator: Int64Array  # [L, A] operator with which each move begins, -1 if it does nothing
    device: Int64Array  # [L, A] where it goes, its own device if it gets another turn
    plan: Float32Array  # [L, 3]
    mask: Int8Array  # [L, A]


@record
class ImproveRecord(NamedTuple):
    """The arrays that the kernels need of the lanes, as one record."""

    problems: Int64Array  # [L, …] rows of records: ProblemArrays
    courses: Int64Array  # [L, …] rows of records: Course
    draws: Int64Array  # [L, …] rows of records: Draws
    state: ImproveState  # of all lanes
    observation: ImproveObservation  # of all lanes
    reward: FloatArray  # [L] of the last step
    over: BoolArray  # [L] true where the episode is over
    fresh: BoolArray  # [L] true where an episode is to be opened


def _example() -> ImproveRecord:
    rows, cube, flat = np.zeros((1, 1), np.int64), np.zeros((1, 1, 1), np.float32), np.zeros((1, 1), np.float32)
    seen = ImproveObservation(cube, rows, cube, cube, rows, rows, flat, np.zeros((1, 1), np.int8))
    over = np.zeros(1, np.bool_)
    return ImproveRecord(rows, rows, rows, new_state(1, 1, 1, 1), seen, np.zeros(1), over, over)


RECORD = _example()  # An example of the record that lanes hold
read_lanes = reader(RECORD)
