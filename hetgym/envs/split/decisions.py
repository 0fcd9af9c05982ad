"""The steps of HetSplit-v0 in compiled code: one call takes a decision, or writes the observation, in every lane.

A step of all lanes is :func:`choose`; then every graph that gets a split is priced, by
:mod:`~hetgym.envs.split.joining` where HEFT plans for the classic model, otherwise by
:class:`~hetgym.envs.split.dynamics.Splits`; then :func:`settle`.
"""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import lean, step
from hetgym._types import BoolArray, Int64Array
from hetgym.envs.core.scaling import CLIP, scale_of, share
from hetgym.envs.split.joining import UNRUNNABLE
from hetgym.envs.split.observation import SplitCandidateColumn, SplitDeviceColumn, SplitOperatorColumn
from hetgym.envs.split.state import LaneState, SplitObservation, SplitRecord, SplitTables, read_lanes, read_tables


@lean
def choose(lanes: Int64Array, actions: Int64Array, active: BoolArray) -> None:
    """Note the entry that is chosen in every active lane; ``actions``: [L] legal entries of the menu."""
    r = read_lanes(lanes)
    for lane in range(len(active)):
        if active[lane]:
            r.state.log[lane, r.state.turn[lane]] = r.state.entries[lane, r.state.turn[lane]] = actions[lane]
            r.state.action[lane] = actions[lane]
            r.state.before[lane] = r.state.makespan[lane]


@lean
def settle(lanes: Int64Array, active: BoolArray, sparse: bool) -> None:
    """Take the decision that was chosen and priced in every active lane, or open the episode there if it is fresh.

    Where a split makes an operator that no device can run, the operator stays whole.
    A fresh lane's rows, makespan, loads and fixed observations must be in place.
    """
    r = read_lanes(lanes)
    state, seen = r.state, r.observation
    for lane in range(len(active)):
        if not active[lane]:
            continue
        tables = read_tables(r.tables[lane])
        if r.fresh[lane]:
            r.fresh[lane] = False
            state.turn[lane] = 0
            for turn in range(state.entries.shape[1]):
                state.entries[lane, turn] = 0
        else:
            _decide(r, tables, lane, sparse)
        reference = state.reference[lane]
        scale = scale_of(reference)
        seen.makespan[lane, 0] = share(state.makespan[lane], scale)
        _show_devices(tables, state, seen, lane, scale)
        if r.over[lane]:  # no candidates; the mask stays, so that it is never empty
            for entry in range(seen.candidates.shape[1]):
                for column in range(seen.candidates.shape[2]):
                    seen.candidates[lane, entry, column] = 0.0
            for column in range(seen.operator.shape[1]):
                seen.operator[lane, column] = 0.0
        else:
            _show_operator(tables, state, seen, lane)
            _show_candidates(tables, state, seen, lane, scale)


@step
def _decide(r: SplitRecord, tables: SplitTables, lane: int, sparse: bool) -> None:
    state, turn = r.state, r.state.turn[lane]
    entry = 0 if state.found[lane] == UNRUNNABLE else state.action[lane]
    state.entries[lane, turn] = entry
    state.turn[lane] += 1
    r.over[lane] = state.turn[lane] == len(tables.keys)
    reference, now = state.reference[lane], state.makespan[lane]
    gained = (reference if sparse else state.before[lane]) - now
    r.reward[lane] = gained / reference if reference > 0 and (r.over[lane] or not sparse) else 0.0
    row = r.observation.operators[lane, tables.keys[turn]]
    row[SplitOperatorColumn.IS_DECIDED], row[SplitOperatorColumn.IS_CURRENT] = 1.0, 0.0
    if entry > 0:
        option = tables.candidates[turn, entry]
        row[SplitOperatorColumn.PARTS] = min(option[SplitCandidateColumn.PARTS], np.float32(CLIP))
        row[SplitOperatorColumn.PROPORTIONAL] = option[SplitCandidateColumn.PROPORTIONAL]
        row[SplitOperatorColumn.BATCH] = option[SplitCandidateColumn.BATCH]
        row[SplitOperatorColumn.OUTPUT] = option[SplitCandidateColumn.OUTPUT]
        row[SplitOperatorColumn.REDUCTION] = option[SplitCandidateColumn.REDUCTION]
        row[SplitOperatorColumn.SPATIAL] = option[SplitCandidateColumn.SPATIAL]


@step
def _show_devices(tables: SplitTables, state: LaneState, seen: SplitObservation, lane: int, scale: float) -> None:
    """Write the columns that depend on the current schedule."""
    total = 0
    for a in range(len(tables.capacity)):
        total += state.operators[lane, a]
    for a in range(len(tables.capacity)):
        row = seen.devices[lane, a]
        row[SplitDeviceColumn.BUSY] = share(state.busy[lane, a], scale)
        row[SplitDeviceColumn.SHARE] = state.operators[lane, a] / total
        row[SplitDeviceColumn.WEIGHTS] = min(state.weights[lane, a] / tables.capacity[a], CLIP)


@step
def _show_operator(tables: SplitTables, state: LaneState, seen: SplitObservation, lane: int) -> None:
    operator = tables.keys[state.turn[lane]]
    seen.current[lane, 0] = operator
    seen.operators[lane, operator, SplitOperatorColumn.IS_CURRENT] = 1.0
    for column in range(seen.operator.shape[1]):
        seen.operator[lane, column] = seen.operators[lane, operator, column]


@step
def _show_candidates(tables: SplitTables, state: LaneState, seen: SplitObservation, lane: int, scale: float) -> None:
    """Write the mask and the candidates; makespans and completions are those of the current graph."""
    turn, now = state.turn[lane], share(state.makespan[lane], scale)
    for entry in range(seen.candidates.shape[1]):
        row, legal = seen.candidates[lane, entry], tables.legal[turn, entry]
        for column in range(len(row)):
            row[column] = tables.candidates[turn, entry, column]
        seen.mask[lane, entry] = legal
        row[SplitCandidateColumn.LEGAL] = legal
        row[SplitCandidateColumn.COMPLETION] = row[SplitCandidateColumn.MAKESPAN] = now
        if entry > 0 and legal:
            row[SplitCandidateColumn.SPARED_SCATTER] = _spared_scatter(tables, state, lane, turn, entry)
            row[SplitCandidateColumn.SPARED_GATHER] = _spared_gather(tables, state, lane, turn, entry)


@step
def _entry_of(tables: SplitTables, state: LaneState, lane: int, operator: int) -> int:
    """The entry by which an operator is split so far; 0 if it is whole."""
    turn = tables.turns[operator]
    return int(state.entries[lane, turn]) if turn >= 0 else 0


@step
def _spared_scatter(tables: SplitTables, state: LaneState, lane: int, turn: int, entry: int) -> float:
    """Share of the operands that an entry deals out which already lie in the same parts."""
    choice = turn * tables.legal.shape[1] + entry
    there, count = 0, tables.dealt[choice + 1] - tables.dealt[choice]
    for k in range(tables.dealt[choice], tables.dealt[choice + 1]):
        source = tables.source[k]
        other = _entry_of(tables, state, lane, source)
        there += other > 0 and tables.result[tables.turns[source], other] == tables.cut[k]
    return float(there / count) if count > 0 else 0.0


@step
def _spared_gather(tables: SplitTables, state: LaneState, lane: int, turn: int, entry: int) -> bool:
    """True if a reader is split already into the parts that an entry makes of the result."""
    operator, result = tables.keys[turn], tables.result[turn, entry]
    for j in range(tables.reading[operator], tables.reading[operator + 1]):
        reader = tables.reader[j]
        other = _entry_of(tables, state, lane, reader)
        if other == 0:
            continue
        choice = tables.turns[reader] * tables.legal.shape[1] + other
        for k in range(tables.dealt[choice], tables.dealt[choice + 1]):
            if tables.source[k] == operator and tables.cut[k] == result:
                return True
    return False
