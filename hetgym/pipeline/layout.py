"""Layouts: cuts as arrays that kernels change and price.

Searches hold a few layouts side by side. A layout of p stages in v rounds has v p pieces, in reading order; piece
c p + s is the chunk c of stage s.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array, frozen
from hetgym.pipeline.cuts import Cut, CutProblem, Stage
from hetgym.pipeline.evaluation import BACKWARD, FORWARD, _run_passes, request_table, schedule_table
from hetgym.pipeline.objective import TRAINING, Objective
from hetgym.pipeline.tables import CutTables

PATHS = 24
"""Critical paths that are remembered for each number of stages and rounds."""


@record
class PassTables(NamedTuple):
    """The passes of every number of stages and rounds. Row (v - 1) d + p - 1 is for p stages in v rounds.

    Attributes:
        passes: [v d, d, q, 3] see :func:`~hetgym.pipeline.evaluation.pass_table`; no passes where there is no schedule.
        place: [v d, 3, s, m] place of a pass in the order of its stage, by kind, piece and micro-batch.
    """

    passes: Int64Array
    place: Int64Array


@record
class Layouts(NamedTuple):
    """Layouts, and what pricing them has shown; each of l layouts has a row.

    Attributes:
        shape: [l, 2] stages p and rounds v.
        begun: [l, s + 1] first block of each piece; the number of blocks behind the last one.
        device: [l, d] device of each stage.
        seconds: [l, 3, 1, s] seconds of the forward, backward and weight pass of each piece, transfers included.
        value: [l] value [s].
        finish: [3, s, q] scratch: finishes of passes [s].
        moves: [s] zeros: transfers are part of the passes.
        clock: [d] scratch.
        at: [d] scratch.
        whole: [3, n + 1, d] seconds of the passes of the blocks before each one.
        paths: [v d, PATHS, 3, s] number of passes of each kind and piece on a critical path; by stages and rounds.
        known: [v d] number of paths found so far.
    """

    shape: Int64Array
    begun: Int64Array
    device: Int64Array
    seconds: FloatArray
    value: FloatArray
    finish: FloatArray
    moves: FloatArray
    clock: FloatArray
    at: Int64Array
    whole: FloatArray
    paths: FloatArray
    known: Int64Array


def pass_tables(objective: Objective, devices: int, blocks: int) -> PassTables:
    """The passes of every number of stages and rounds.

    Args:
        objective: the objective.
        devices: number of devices.
        blocks: number of blocks; a layout has no more pieces.
    """
    schedule = objective.schedule if objective.code == TRAINING else ""
    return _pass_tables(schedule, objective.turns, objective.rounds, devices, min(blocks, devices * objective.rounds))


@lru_cache(maxsize=8)
def _pass_tables(schedule: str, turns: int, rounds: int, devices: int, most: int) -> PassTables:
    """As :func:`pass_tables`, for at most `most` pieces; no schedule stands for requests."""
    rows = [
        (v, p, schedule_table(schedule, p, turns, v) if schedule else request_table(p, turns))
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
    """Room for some layouts of a problem.

    Args:
        cuts: the problem.
        tables: of its objective and devices.
        count: number of layouts.
    """
    t = cuts.tables
    rows, d, longest, _ = tables.passes.shape
    n, pieces = len(t.wall) - 1, tables.place.shape[2]
    whole = np.zeros((3, n + 1, d))
    for k, table in enumerate((t.forward, t.backward, t.weight)):
        whole[k, 1:] = np.cumsum(np.where(np.isfinite(t.forward), table, 0.0), axis=0)
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


def write(b: Layouts, row: int, cut: Cut) -> None:
    """Write a cut into a layout."""
    devices = list(dict.fromkeys(stage.device for stage in cut))
    b.shape[row] = len(devices), len(cut) // len(devices)
    b.device[row, : len(devices)] = devices
    b.begun[row, : len(cut)] = [stage.first for stage in cut]
    b.begun[row, len(cut)] = cut[-1].end


def read(b: Layouts, row: int) -> tuple[Stage, ...]:
    """The cut of a layout."""
    p, v = b.shape[row].tolist()
    begun, device = b.begun[row].tolist(), b.device[row].tolist()
    return tuple(Stage(begun[k], begun[k + 1], device[k % p]) for k in range(p * v))


@step
def copy(b: Layouts, source: int, target: int) -> None:
    """Copy a layout."""
    p, v = b.shape[source, 0], b.shape[source, 1]
    b.shape[target, 0], b.shape[target, 1] = p, v
    b.value[target] = b.value[source]
    for s in range(p):
        b.device[target, s] = b.device[source, s]
    for k in range(p * v + 1):
        b.begun[target, k] = b.begun[source, k]
    for kind in range(3):
        for k in range(p * v):
            b.seconds[target, kind, 0, k] = b.seconds[source, kind, 0, k]


@step
def fits(t: CutTables, b: Layouts, row: int) -> bool:
    """True if every device can run and hold its pieces, and the schedule exists."""
    p, v = b.shape[row, 0], b.shape[row, 1]
    if t.peak[v, p, 0] < 0.0:
        return False
    for s in range(p):
        device, keep = b.device[row, s], t.peak[v, p, s]
        need = 0.0
        for c in range(v):
            first, end = b.begun[row, c * p + s], b.begun[row, c * p + s + 1]
            if end <= first or t.wall[first, device] < end:
                return False
            need += t.size[first, end] + keep * (t.stash[end] - t.stash[first])
        if need > t.capacity[device]:
            return False
    return True


@step
def set_times(t: CutTables, b: Layouts, row: int, training: bool) -> None:
    """Compute the seconds of all pieces."""
    p, v = b.shape[row, 0], b.shape[row, 1]
    for k in range(p * v):
        device, first, end = b.device[row, k % p], b.begun[row, k], b.begun[row, k + 1]
        paid = t.comm[first, end] if t.pays[device] > 0.0 else 0.0
        for kind in range(3):
            seconds = b.whole[kind, end, device] - b.whole[kind, first, device]
            if kind == FORWARD or (kind == BACKWARD and training):
                seconds += paid
            b.seconds[row, kind, 0, k] = seconds


@step
def least(b: Layouts, row: int, devices: int, above: float) -> float:
    """A lower bound on the value [s]: the longest critical path of other layouts, with the times of this one.

    A layout of as many stages and rounds has the same passes in the same orders, and so the same paths.

    Args:
        b: the layouts.
        row: the layout.
        devices: number of devices d.
        above: the bound need not be found better than this [s].
    """
    p, v = b.shape[row, 0], b.shape[row, 1]
    shape = (v - 1) * devices + p - 1
    known = min(PATHS, b.known[shape])
    best = 0.0
    for j in range(known):
        path = (b.known[shape] - 1 - j) % PATHS
        length = 0.0
        for kind in range(3):
            for k in range(p * v):
                length += b.paths[shape, path, kind, k] * b.seconds[row, kind, 0, k]
        best = max(best, length)
        if best >= above:
            break
    return best


@step
def price(o: PassTables, b: Layouts, row: int, throughput: bool) -> float:
    """The value of a layout whose times are known [s]; its critical path is remembered."""
    p, v, devices = b.shape[row, 0], b.shape[row, 1], o.passes.shape[1]
    pieces, shape = p * v, (v - 1) * devices + p - 1
    if throughput:
        largest = 0.0
        for k in range(pieces):
            largest = max(largest, b.seconds[row, FORWARD, 0, k])
        b.value[row] = largest
        return largest
    for kind in range(3):
        for k in range(pieces):
            for batch in range(o.place.shape[3]):
                b.finish[kind, k, batch] = np.inf
    for s in range(p):
        b.clock[s], b.at[s] = 0.0, 0
    found = _run_passes(o.passes[shape, :p], b.seconds[row, :, :, :pieces], b.moves, 0, b.finish, b.clock[:p], b.at[:p])
    b.value[row] = found
    _remember(o, b, shape, p, pieces)
    return float(found)


# The walk goes back from a pass that finishes last. Each pass began when the previous pass of its stage or one of its
# inputs finished, whichever was later; the walk goes there, and counts passes. It ends at a pass that began at 0.
# Cost: O(passes on the path).
@step
def _remember(o: PassTables, b: Layouts, shape: int, stages: int, pieces: int) -> None:
    """Count the passes of each kind and piece on a critical path of the run that has just been priced."""
    path = b.known[shape] % PATHS
    b.known[shape] += 1
    for kind in range(3):
        for k in range(pieces):
            b.paths[shape, path, kind, k] = 0.0
    last = 0
    for s in range(1, stages):
        if b.clock[s] > b.clock[last]:
            last = s
    turn = b.at[last] - 1
    kind, batch, piece = o.passes[shape, last, turn, 0], o.passes[shape, last, turn, 1], o.passes[shape, last, turn, 2]
    while True:
        b.paths[shape, path, kind, piece] += 1.0
        s = piece % stages
        turn = o.place[shape, kind, piece, batch] - 1
        latest, before, other = 0.0, -1, piece
        if kind == FORWARD:
            if piece > 0:
                latest, before, other = b.finish[FORWARD, piece - 1, batch], FORWARD, piece - 1
        elif kind == BACKWARD:
            latest, before = b.finish[FORWARD, piece, batch], FORWARD
            if piece + 1 < pieces and b.finish[BACKWARD, piece + 1, batch] > latest:
                latest, before, other = b.finish[BACKWARD, piece + 1, batch], BACKWARD, piece + 1
        else:
            latest, before = b.finish[BACKWARD, piece, batch], BACKWARD
        if turn >= 0:
            k, m, c = o.passes[shape, s, turn, 0], o.passes[shape, s, turn, 1], o.passes[shape, s, turn, 2]
            if before < 0 or b.finish[k, c, m] >= latest:
                kind, batch, piece = k, m, c
                continue
        if before < 0:
            return
        kind, piece = before, other
