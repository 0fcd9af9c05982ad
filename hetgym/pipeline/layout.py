"""Layouts: cuts as arrays that kernels change and price.

Searches hold a few layouts side by side. A layout of p stages in v rounds has v p pieces, in reading order; piece
c p + s is the chunk c of stage s.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array, frozen
from hetgym.pipeline.cuts import Cut, CutProblem, Stage
from hetgym.pipeline.evaluation import BACKWARD, FORWARD, _run_passes, flow_table, schedule_table
from hetgym.pipeline.objective import TRAINING, Objective
from hetgym.pipeline.tables import CutTables

PATHS = 24  # Critical paths that are remembered for each number of stages and rounds


@record
class PassTables(NamedTuple):
    """The passes of every number of stages and rounds. Row (v - 1) d + p - 1 is for p stages in v rounds."""

    passes: Int64Array  # [v d, d, q, 3] see pass_table; no passes where there is no schedule
    place: Int64Array  # [v d, 3, s, m] place of a pass in the order of its stage, by kind, piece and micro-batch


@record
class Layouts(NamedTuple):
    """Layouts, and what pricing them has shown; each of l layouts has a row."""

    shape: Int64Array  # [l, 2] stages p and rounds v
    begun: Int64Array  # [l, s + 1] first block of each piece; the number of blocks behind the last one
    device: Int64Array  # [l, d] device of each stage
    # [l, 3, 1, s] seconds of the forward, backward and weight pass of each piece, transfers included
    seconds: FloatArray
    value: FloatArray  # [l] value [s]
    finish: FloatArray  # [3, s, q] scratch: finishes of passes [s]
    moves: FloatArray  # [s] zeros: transfers are part of the passes
    clock: FloatArray  # [d] scratch
    at: Int64Array  # [d] scratch
    whole: FloatArray  # [3, n + 1, d] seconds of the passes of the blocks before each one
    # [v d, PATHS, 3, s] number of passes of each kind and piece on a critical path; by stages and rounds
    paths: FloatArray
    known: Int64Array  # [v d] number of paths found so far


def pass_tables(objective: Objective, devices: int, blocks: int) -> PassTables:
    """The passes of every number of stages and rounds.

    Args:
        devices, blocks: their numbers; a layout has no more pieces than blocks.
    """
    schedule = objective.schedule if objective.code == TRAINING else ""
    return _pass_tables(schedule, objective.turns, objective.rounds, devices, min(blocks, devices * objective.rounds))


@lru_cache(maxsize=8)
def _pass_tables(schedule: str, turns: int, rounds: int, devices: int, most: int) -> PassTables:
    """As :func:`pass_tables`, for at most `most` pieces; no schedule stands for requests."""
    rows = [
        (v, p, schedule_table(schedule, p, turns, v) if schedule else flow_table(p, turns))
        for v in range(1, rounds + 1)
        for p in range(1, devices + 1)
        if p * v <= most and (v == 1 or (p > 1 and turns % p == 0))
    ]
    longest = max(table.shape[1] for _, _, table in rows)
    passes = np.full((rounds * devices, devices, longest, 3), -1, np.int64)
    place = np.zeros((rounds * devices, 3, max(p * v for v, p, _ in rows), turns), np.int64)
    for v, p, table in rows:
        row = (v - 1) * devices + p - 1
        passes[row, :p, : table.shape[1]] = table
        stage, turn = np.nonzero(table[:, :, 0] >= 0)
        kind, batch, piece = table[stage, turn].T
        place[row, kind, piece, batch] = turn
    return PassTables(frozen(passes), frozen(place))


def new_layouts(cuts: CutProblem, tables: PassTables, count: int) -> Layouts:
    """Room for ``count`` layouts of a problem; ``tables`` are those of its objective and devices."""
    known = cuts.tables
    rows, d, longest, _ = tables.passes.shape
    n, pieces = len(known.wall) - 1, tables.place.shape[2]
    whole = np.zeros((3, n + 1, d))
    for k, table in enumerate((known.forward, known.backward, known.weight)):
        whole[k, 1:] = np.cumsum(np.where(np.isfinite(known.forward), table, 0.0), axis=0)
    return Layouts(
        shape=np.zeros((count, 2), np.int64),
        begun=np.zeros((count, pieces + 1), np.int64),
        device=np.zeros((count, d), np.int64),
        seconds=np.zeros((count, 3, 1, pieces)),
        value=np.full(count, np.inf),
        finish=np.zeros((3, pieces, longest)),
        moves=np.zeros(pieces),
        clock=np.zeros(d),
        at=np.zeros(d, np.int64),
        whole=whole,
        paths=np.zeros((rows, PATHS, 3, pieces)),
        known=np.zeros(rows, np.int64),
    )


def write(layouts: Layouts, row: int, cut: Cut) -> None:
    """Write a cut into a layout."""
    devices = list(dict.fromkeys(stage.device for stage in cut))
    layouts.shape[row] = len(devices), len(cut) // len(devices)
    layouts.device[row, : len(devices)] = devices
    layouts.begun[row, : len(cut)] = [stage.first for stage in cut]
    layouts.begun[row, len(cut)] = cut[-1].end


def read(layouts: Layouts, row: int) -> tuple[Stage, ...]:
    """The cut of a layout."""
    p, v = layouts.shape[row].tolist()
    begun, device = layouts.begun[row].tolist(), layouts.device[row].tolist()
    return tuple(Stage(begun[k], begun[k + 1], device[k % p]) for k in range(p * v))


@step
def copy(layouts: Layouts, source: int, target: int) -> None:
    """Copy a layout."""
    p, v = layouts.shape[source, 0], layouts.shape[source, 1]
    layouts.shape[target, 0], layouts.shape[target, 1] = p, v
    layouts.value[target] = layouts.value[source]
    for stage in range(p):
        layouts.device[target, stage] = layouts.device[source, stage]
    for k in range(p * v + 1):
        layouts.begun[target, k] = layouts.begun[source, k]
    for kind in range(3):
        for k in range(p * v):
            layouts.seconds[target, kind, 0, k] = layouts.seconds[source, kind, 0, k]


@step
def fits(tables: CutTables, layouts: Layouts, row: int) -> bool:
    """True if every device can run and hold its pieces, and the schedule exists."""
    p, v = layouts.shape[row, 0], layouts.shape[row, 1]
    if tables.peak[v, p, 0] < 0.0:
        return False
    for stage in range(p):
        device, keep = layouts.device[row, stage], tables.peak[v, p, stage]
        need = 0.0
        for chunk in range(v):
            first, end = layouts.begun[row, chunk * p + stage], layouts.begun[row, chunk * p + stage + 1]
            if end <= first or tables.wall[first, device] < end:
                return False
            need += tables.size[first, end] + keep * (tables.stash[end] - tables.stash[first])
        if need > tables.capacity[device]:
            return False
    return True


@step
def set_times(tables: CutTables, layouts: Layouts, row: int, training: bool) -> None:
    """Compute the seconds of all pieces."""
    p, v = layouts.shape[row, 0], layouts.shape[row, 1]
    for k in range(p * v):
        device, first, end = layouts.device[row, k % p], layouts.begun[row, k], layouts.begun[row, k + 1]
        paid = tables.comm[first, end] if tables.pays[device] > 0.0 else 0.0
        for kind in range(3):
            seconds = layouts.whole[kind, end, device] - layouts.whole[kind, first, device]
            if kind == FORWARD or (kind == BACKWARD and training):
                seconds += paid
            layouts.seconds[row, kind, 0, k] = seconds


@step
def least(layouts: Layouts, row: int, devices: int, above: float) -> float:
    """A lower bound on the value [s]: the longest critical path of other layouts, with the times of this one.

    A layout of as many stages and rounds has the same passes in the same orders, and so the same paths.

    Args:
        above: the bound need not be found better than this [s].
    """
    p, v = layouts.shape[row, 0], layouts.shape[row, 1]
    shape = (v - 1) * devices + p - 1
    known = min(PATHS, layouts.known[shape])
    best = 0.0
    for j in range(known):
        path = (layouts.known[shape] - 1 - j) % PATHS
        length = 0.0
        for kind in range(3):
            for k in range(p * v):
                length += layouts.paths[shape, path, kind, k] * layouts.seconds[row, kind, 0, k]
        best = max(best, length)
        if best >= above:
            break
    return best


@step
def price(passes: PassTables, layouts: Layouts, row: int, throughput: bool) -> float:
    """The value of a layout whose times are known [s]; its critical path is remembered."""
    p, v, devices = layouts.shape[row, 0], layouts.shape[row, 1], passes.passes.shape[1]
    pieces, shape = p * v, (v - 1) * devices + p - 1
    if throughput:
        largest = 0.0
        for k in range(pieces):
            largest = max(largest, layouts.seconds[row, FORWARD, 0, k])
        layouts.value[row] = largest
        return largest
    for kind in range(3):
        for k in range(pieces):
            for batch in range(passes.place.shape[3]):
                layouts.finish[kind, k, batch] = np.inf
    for stage in range(p):
        layouts.clock[stage], layouts.at[stage] = 0.0, 0
    found = _run_passes(
        passes.passes[shape, :p],
        layouts.seconds[row, :, :, :pieces],
        layouts.moves,
        0,
        layouts.finish,
        layouts.clock[:p],
        layouts.at[:p],
    )
    layouts.value[row] = found
    _remember(passes, layouts, shape, p, pieces)
    return float(found)


# The walk goes back from a pass that finishes last. Each pass began when the previous pass of its stage or one of its
# inputs finished, whichever was later; the walk goes there, and counts passes. It ends at a pass that began at 0.
# Cost: O(passes on the path).
@step
def _remember(passes: PassTables, layouts: Layouts, shape: int, stages: int, pieces: int) -> None:
    """Count the passes of each kind and piece on a critical path of the run that has just been priced."""
    path = layouts.known[shape] % PATHS
    layouts.known[shape] += 1
    for kind in range(3):
        for k in range(pieces):
            layouts.paths[shape, path, kind, k] = 0.0
    last = 0
    for stage in range(1, stages):
        if layouts.clock[stage] > layouts.clock[last]:
            last = stage
    turn = layouts.at[last] - 1
    end = passes.passes[shape, last, turn]
    kind, batch, piece = end[0], end[1], end[2]
    while True:
        layouts.paths[shape, path, kind, piece] += 1.0
        stage = piece % stages
        turn = passes.place[shape, kind, piece, batch] - 1
        latest, before, other = 0.0, -1, piece
        if kind == FORWARD:
            if piece > 0:
                latest, before, other = layouts.finish[FORWARD, piece - 1, batch], FORWARD, piece - 1
        elif kind == BACKWARD:
            latest, before = layouts.finish[FORWARD, piece, batch], FORWARD
            if piece + 1 < pieces and layouts.finish[BACKWARD, piece + 1, batch] > latest:
                latest, before, other = layouts.finish[BACKWARD, piece + 1, batch], BACKWARD, piece + 1
        else:
            latest, before = layouts.finish[BACKWARD, piece, batch], BACKWARD
        if turn >= 0:
            earlier = passes.passes[shape, stage, turn]
            if before < 0 or layouts.finish[earlier[0], earlier[2], earlier[1]] >= latest:
                kind, batch, piece = earlier[0], earlier[1], earlier[2]
                continue
        if before < 0:
            return
        kind, piece = before, other
