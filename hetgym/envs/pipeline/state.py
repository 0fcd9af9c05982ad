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
    """The state of the episodes; P is the largest number of pieces, devices times rounds.

    Attributes:
        turn: [L] number of blocks that are decided.
        pieces: [L] number of pieces begun, the current one among them.
        begun: [L, P + 1] first block of each piece.
        device: [L, P] device of each piece.
        members: [L] number of devices in the first round, once a second one has begun; 0 before.
        free: [L] the set of devices that are not used.
        unused: [L] number of these devices.
        most: [L] largest number of stages for which all closed ones fit into memory.
        forward, backward, weight: [L, P] seconds of the passes of each piece: of closed ones with
            transfers, of the current one without.
        before: [L, P] a forward pass of all earlier pieces; for training also a backward pass [s].
        ramp: [L, P] a forward pass of all earlier pieces [s].
        busy: [L, D] seconds of all passes of a device's closed pieces for a request.
        held, stashed: [L, D] bytes of closed pieces: weights and state, and activations of a micro-batch.
        memory: [L, D] peak memory of each device [byte], once the last block is placed.
        used: [L, D] 1 + the position of a device among the stages; 0 if not used.
        closed: [L] seconds that a request spends in closed pieces.
        work: [L] seconds of all passes of closed pieces.
        high: [L] largest lower bound from a closed piece [s].
        reference, scale, pace: [L] value that returns compare with [s], 1 / reference, turns / reference [1/s].
        potential: [L] the potential, whose decrease is the reward [s].
        ahead: [L, 1 + D] bound after each action [s]; inf where it is not legal.
        completion: [L, 1 + D] value if the rest were then cut well [s]; inf where it is not legal.
        assignment: [L, N] device of each block.
        log: [L, N] actions as they were passed.
        spare: [L, N + 2] scratch.
    """

    turn: Int64Array
    pieces: Int64Array
    begun: Int64Array
    device: Int64Array
    members: Int64Array
    free: Int64Array
    unused: Int64Array
    most: Int64Array
    forward: FloatArray
    backward: FloatArray
    weight: FloatArray
    before: FloatArray
    ramp: FloatArray
    busy: FloatArray
    held: FloatArray
    stashed: FloatArray
    memory: FloatArray
    used: Int64Array
    closed: FloatArray
    work: FloatArray
    high: FloatArray
    reference: FloatArray
    scale: FloatArray
    pace: FloatArray
    potential: FloatArray
    ahead: FloatArray
    completion: FloatArray
    assignment: Int64Array
    log: Int64Array
    spare: Int64Array


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
    """The part of the observations that changes from step to step; see :mod:`hetgym.envs.pipeline.observation`.

    Attributes:
        blocks: [L, N, 12], or [L, 0, 12] at levels without the blocks.
        assignment: [L, N], or [L, 0].
        devices: [L, D, 6].
        candidates: [L, 1 + D, 8].
        current: [L, 1].
        mask: [L, 1 + D].
    """

    blocks: Float32Array
    assignment: Int64Array
    devices: Float32Array
    candidates: Float32Array
    current: Int64Array
    mask: Int8Array


class Game(NamedTuple):
    """The rules in the form that kernels read.

    Attributes:
        objective: position among the objectives.
        turns: number of requests or micro-batches.
        split: 1 if weight passes are passes of their own.
        rounds: largest number of pieces on a device.
        sparse: 1 if the whole return comes with the last reward.
    """

    objective: int
    turns: int
    split: int
    rounds: int
    sparse: int


@record
class PipelineRecord(NamedTuple):
    """The arrays that the kernels need of the lanes, as one record.

    Attributes:
        tables: [L, …] rows of records: :class:`~hetgym.pipeline.tables.CutTables`.
        state: of all lanes.
        observation: of all lanes.
        reward: [L] of the last step.
        over: [L] true where the episode is over.
        fresh: [L] true where an episode is to be opened.
    """

    tables: Int64Array
    state: PipelineState
    observation: PipelineObservation
    reward: FloatArray
    over: BoolArray
    fresh: BoolArray


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


TABLES, RECORD = _examples()
"""Examples of the records that lanes hold."""

read_tables = reader(TABLES)
read_lanes = reader(RECORD)
