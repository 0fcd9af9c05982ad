"""The typed state of improving plans: the moves that are offered, and what episodes have come to.

Sizes: L lanes; A actions; a move takes at most M operators; operators and devices are padded to N and D. T is the
number of steps.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from hetgym._kernels.blanks import example
from hetgym._kernels.records import reader, record
from hetgym._types import BoolArray, Float32Array, FloatArray, Int8Array, Int64Array, IntArray
from hetgym.search import regions

MOST = (1 << (regions.DOUBLINGS - 1)) + (1 << (regions.RETURNED - 1))
"""Largest number of operators that a move takes: a region, and another one in its place."""


@record
class ImproveState(NamedTuple):
    """The state of the episodes, apart from their plans."""

    turn: Annotated[Int64Array, "L"]  # number of steps taken
    budget: Annotated[Int64Array, "L"]  # steps of the episode
    reference: Annotated[FloatArray, "L"]  # makespan that returns compare with [s]
    # what the reward is the decrease of [s]: the reference at the start, then the makespan of the best plan, or of the
    # plan
    potential: Annotated[FloatArray, "L"]
    first: Annotated[FloatArray, "L"]  # makespan of the start [s]
    reorder: Annotated[FloatArray, "L"]  # share of moves that give an operator another turn
    patience: Annotated[FloatArray, "L"]  # by how many temperatures the next move may make the plan longer
    log: Annotated[Int64Array, "L, T"]  # actions as they were executed
    free: Annotated[Int64Array, "L, N"]  # step from which on each operator may be moved
    # operators that each move takes; -1 if it gives one another turn, 0 if it does nothing
    size: Annotated[IntArray, "L, A"]
    # the operators that it takes, and their devices; the two turns of another kind of move
    operator: Annotated[IntArray, "L, A, M"]
    device: Annotated[IntArray, "L, A, M"]
    makespan: Annotated[FloatArray, "L, A"]  # makespan after each move, inf if it is refused [s]


@record
class ImproveObservation(NamedTuple):
    """The part of the observations that changes from step to step."""

    operators: Annotated[Float32Array, "L, N, 12"]  # , or [L, 0, 12] at levels without the graph
    assignment: Annotated[Int64Array, "L, N"]  # , or [L, 0]
    devices: Annotated[Float32Array, "L, D, 4"]
    candidates: Annotated[Float32Array, "L, A, 14"]
    operator: Annotated[Int64Array, "L, A"]  # operator with which each move begins, -1 if it does nothing
    device: Annotated[Int64Array, "L, A"]  # where it goes, its own device if it gets another turn
    plan: Annotated[Float32Array, "L, 3"]
    mask: Annotated[Int8Array, "L, A"]


@record
class ImproveRecord(NamedTuple):
    """The arrays that the kernels need of the lanes, as one record."""

    problems: Annotated[Int64Array, "L, row"]  # rows of records: ProblemArrays
    courses: Annotated[Int64Array, "L, row"]  # rows of records: Course
    draws: Annotated[Int64Array, "L, row"]  # rows of records: Draws
    state: ImproveState  # of all lanes
    observation: ImproveObservation  # of all lanes
    reward: Annotated[FloatArray, "L"]  # of the last step
    over: Annotated[BoolArray, "L"]  # true where the episode is over
    fresh: Annotated[BoolArray, "L"]  # true where an episode is to be opened


RECORD = example(ImproveRecord)  # An example of the record that lanes hold
read_lanes = reader(RECORD)
