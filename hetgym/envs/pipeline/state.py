"""The typed state of cutting pipelines: the arrays that :mod:`hetgym.envs.pipeline.dynamics` reads and writes.

Sizes: L lanes; n blocks and d devices of a problem, padded to N and D in arrays that all lanes share.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from hetgym._kernels.blanks import example
from hetgym._kernels.records import reader, record
from hetgym._types import BoolArray, Float32Array, FloatArray, Int8Array, Int64Array, frozen
from hetgym.pipeline.tables import CutTables


@record
class PipelineState(NamedTuple):
    """The state of the episodes; P is the largest number of pieces, devices times rounds."""

    turn: Annotated[Int64Array, "L"]  # number of blocks that are decided
    pieces: Annotated[Int64Array, "L"]  # number of pieces begun, the current one among them
    begun: Annotated[Int64Array, "L, P + 1"]  # first block of each piece
    device: Annotated[Int64Array, "L, P"]  # device of each piece
    members: Annotated[Int64Array, "L"]  # number of devices in the first round, once a second one has begun; 0 before
    free: Annotated[Int64Array, "L"]  # the set of devices that are not used
    unused: Annotated[Int64Array, "L"]  # number of these devices
    most: Annotated[Int64Array, "L"]  # largest number of stages for which all closed ones fit into memory
    forward: Annotated[FloatArray, "L, P"]  # forward pass of each piece [s], with transfers once it is closed
    backward: Annotated[FloatArray, "L, P"]  # its backward pass
    weight: Annotated[FloatArray, "L, P"]  # its weight pass
    before: Annotated[FloatArray, "L, P"]  # a forward pass of all earlier pieces; for training also a backward pass [s]
    ramp: Annotated[FloatArray, "L, P"]  # a forward pass of all earlier pieces [s]
    busy: Annotated[FloatArray, "L, D"]  # seconds of all passes of a device's closed pieces for a request
    held: Annotated[FloatArray, "L, D"]  # weights and state of closed pieces [byte]
    stashed: Annotated[FloatArray, "L, D"]  # their activations of a micro-batch [byte]
    memory: Annotated[FloatArray, "L, D"]  # peak memory of each device [byte], once the last block is placed
    used: Annotated[Int64Array, "L, D"]  # 1 + the position of a device among the stages; 0 if not used
    closed: Annotated[FloatArray, "L"]  # seconds that a request spends in closed pieces
    work: Annotated[FloatArray, "L"]  # seconds of all passes of closed pieces
    high: Annotated[FloatArray, "L"]  # largest lower bound from a closed piece [s]
    reference: Annotated[FloatArray, "L"]  # value that returns compare with [s]
    scale: Annotated[FloatArray, "L"]  # 1 / reference [1/s]
    pace: Annotated[FloatArray, "L"]  # turns / reference [1/s]
    potential: Annotated[FloatArray, "L"]  # the potential, whose decrease is the reward [s]
    ahead: Annotated[FloatArray, "L, 1 + D"]  # bound after each action [s]; inf where it is not legal
    completion: Annotated[FloatArray, "L, 1 + D"]  # value if the rest were then cut well [s]; inf where it is not legal
    assignment: Annotated[Int64Array, "L, N"]  # device of each block
    log: Annotated[Int64Array, "L, N"]  # actions as they were passed
    spare: Annotated[Int64Array, "L, N + 2"]  # scratch


@record
class PipelineObservation(NamedTuple):
    """The part of the observations that changes from step to step; see :mod:`hetgym.envs.pipeline.observation`."""

    blocks: Annotated[Float32Array, "L, N, 12"]  # , or [L, 0, 12] at levels without the blocks
    assignment: Annotated[Int64Array, "L, N"]  # , or [L, 0]
    devices: Annotated[Float32Array, "L, D, 6"]
    candidates: Annotated[Float32Array, "L, 1 + D, 8"]
    current: Annotated[Int64Array, "L, 1"]
    mask: Annotated[Int8Array, "L, 1 + D"]


class Game(NamedTuple):
    """The rules in the form that kernels read."""

    objective: int  # position among the objectives
    turns: int  # number of requests or micro-batches
    split: int  # 1 if weight passes are passes of their own
    rounds: int  # largest number of pieces on a device
    sparse: int  # 1 if the whole return comes with the last reward


@record
class PipelineRecord(NamedTuple):
    """The arrays that the kernels need of the lanes, as one record."""

    tables: Annotated[Int64Array, "L, row"]  # rows of records: CutTables
    state: PipelineState  # of all lanes
    observation: PipelineObservation  # of all lanes
    reward: Annotated[FloatArray, "L"]  # of the last step
    over: Annotated[BoolArray, "L"]  # true where the episode is over
    fresh: Annotated[BoolArray, "L"]  # true where an episode is to be opened


# Examples of the records that lanes hold
TABLES, RECORD = CutTables._make(map(frozen, example(CutTables))), example(PipelineRecord)
read_tables = reader(TABLES)
read_lanes = reader(RECORD)
