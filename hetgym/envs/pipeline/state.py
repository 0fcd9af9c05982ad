"""The typed state of cutting pipelines: the arrays that :mod:`hetgym.envs.pipeline.dynamics` reads and writes.

Sizes: L lanes; n blocks and d devices of a problem, padded to N and D in arrays that all lanes share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hetgym._kernels.records import reader, record
from hetgym._types import BoolArray, Float32Array, FloatArray, Int8Array, Int64Array, frozen
from hetgym.pipeline.tables import CutTables


@record
class PipelineState(NamedTuple):
    """The state of the episodes; P is the largest number of pieces, devices times rounds."""

    turn: Int64Array  # [L] number of blocks that are decided
    pieces: Int64Array  # [L] number of pieces begun, the current one among them
    begun: Int64Array  # [L, P + 1] first block of each piece
    device: Int64Array  # [L, P] device of each piece
    members: Int64Array  # [L] number of devices in the first round, once a second one has begun; 0 before
    free: Int64Array  # [L] the set of devices that are not used
    unused: Int64Array  # [L] number of these devices
    most: Int64Array  # [L] largest number of stages for which all closed ones fit into memory
    forward: FloatArray  # [L, P] forward pass of each piece [s], with transfers once it is closed
    backward: FloatArray  # [L, P] its backward pass
    weight: FloatArray  # [L, P] its weight pass
    before: FloatArray  # [L, P] a forward pass of all earlier pieces; for training also a backward pass [s]
    ramp: FloatArray  # [L, P] a forward pass of all earlier pieces [s]
    busy: FloatArray  # [L, D] seconds of all passes of a device's closed pieces for a request
    held: FloatArray  # [L, D] weights and state of closed pieces [byte]
    stashed: FloatArray  # [L, D] their activations of a micro-batch [byte]
    memory: FloatArray  # [L, D] peak memory of each device [byte], once the last block is placed
    used: Int64Array  # [L, D] 1 + the position of a device among the stages; 0 if not used
    closed: FloatArray  # [L] seconds that a request spends in closed pieces
    work: FloatArray  # [L] seconds of all passes of closed pieces
    high: FloatArray  # [L] largest lower bound from a closed piece [s]
    reference: FloatArray  # [L] value that returns compare with [s]
    scale: FloatArray  # [L] 1 / reference [1/s]
    pace: FloatArray  # [L] turns / reference [1/s]
    potential: FloatArray  # [L] the potential, whose decrease is the reward [s]
    ahead: FloatArray  # [L, 1 + D] bound after each action [s]; inf where it is not legal
    completion: FloatArray  # [L, 1 + D] value if the rest were then cut well [s]; inf where it is not legal
    assignment: Int64Array  # [L, N] device of each block
    log: Int64Array  # [L, N] actions as they were passed
    spare: Int64Array  # [L, N + 2] scratch


def new_state(lanes: int, blocks: int, devices: int, rounds: int) -> PipelineState:
    """A state of zeros."""
    most = devices * rounds
    shapes = dict.fromkeys(("device", "forward", "backward", "weight", "before", "ramp"), most)
    shapes |= dict.fromkeys(("busy", "held", "stashed", "memory", "used"), devices)
    shapes |= dict.fromkeys(("ahead", "completion"), 1 + devices)
    shapes |= {"begun": most + 1, "assignment": blocks, "log": blocks, "spare": blocks + 2}
    real = {"forward", "backward", "weight", "before", "ramp", "busy", "held", "stashed", "memory"}
    real |= {"closed", "work", "high", "reference", "scale", "pace", "potential", "ahead", "completion"}
    return PipelineState._make(
        np.zeros((lanes, shapes[name]) if name in shapes else lanes, np.float64 if name in real else np.int64)
        for name in PipelineState._fields
    )


@record
class PipelineObservation(NamedTuple):
    """The part of the observations that changes from step to step; see :mod:`hetgym.envs.pipeline.observation`."""

    blocks: Float32Array  # [L, N, 12], or [L, 0, 12] at levels without the blocks
    assignment: Int64Array  # [L, N], or [L, 0]
    devices: Float32Array  # [L, D, 6]
    candidates: Float32Array  # [L, 1 + D, 8]
    current: Int64Array  # [L, 1]
    mask: Int8Array  # [L, 1 + D]


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

    tables: Int64Array  # [L, …] rows of records: CutTables
    state: PipelineState  # of all lanes
    observation: PipelineObservation  # of all lanes
    reward: FloatArray  # [L] of the last step
    over: BoolArray  # [L] true where the episode is over
    fresh: BoolArray  # [L] true where an episode is to be opened


def _examples() -> tuple[CutTables, PipelineRecord]:
    whole = ("kind", "stride", "free", "wall", "levels", "room")
    dimensions = dict.fromkeys(("forward", "backward", "weight", "comm", "certain", "size", "wall"), 2)
    dimensions |= {"peak": 3, "room": 3, "rest_sum": 4, "rest_load": 4}
    tables = CutTables._make(
        frozen(np.zeros((1,) * dimensions.get(name, 1), np.int64 if name in whole else np.float64))
        for name in CutTables._fields
    )
    rows, cube, mask = np.zeros((1, 1), np.int64), np.zeros((1, 1, 1), np.float32), np.zeros((1, 1), np.int8)
    observation = PipelineObservation(cube, rows, cube, cube, rows, mask)
    over = np.zeros(1, np.bool_)
    return tables, PipelineRecord(rows, new_state(1, 1, 1, 1), observation, np.zeros(1), over, over)


TABLES, RECORD = _examples()  # Examples of the records that lanes hold
read_tables = reader(TABLES)
read_lanes = reader(RECORD)
