"""Intervals in blocks against a sorted list, and how much an insertion moves."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np
import oracle
import pytest
from steps import callable_step

from hetgym.planning import intervals as module
from hetgym.planning.intervals import BLOCK, GROUP, Intervals, new_intervals

insert, remove, gap = (callable_step(step) for step in (module.insert, module.remove, module.earliest_gap))
left_at, last_end = callable_step(module.left_at), callable_step(module.last_end)


def listed(v: Intervals) -> list[tuple[float, float, int]]:
    """The intervals of device 0 in the order of its chain."""
    found: list[tuple[float, float, int]] = []
    for block in v.chain[0, : v.blocks[0]].tolist():
        row = slice(block * BLOCK, block * BLOCK + int(v.held[0, block]))
        assert row.start < row.stop <= (block + 1) * BLOCK
        found += zip(v.begin[0, row].tolist(), v.end[0, row].tolist(), v.operator[0, row].tolist(), strict=True)
    assert len(found) == v.size[0]
    assert sorted(v.chain[0].tolist()) == list(range(v.chain.shape[1]))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_leaves_what_a_sorted_list_holds(seed: int) -> None:
    """Waves of insertions and removals, far more than there is room for at a time: blocks are split, closed, packed."""
    rng = np.random.default_rng(seed)
    room = (40, 64, 65, 200, 300, 700)[seed]
    v, plain = new_intervals(room, 1), list[tuple[float, float, int]]()
    free, grow = list(range(room)), True
    for _ in range(6 * room):
        grow = len(plain) == 0 or (grow and len(plain) < room) or (not grow and len(plain) < room // 8)
        if grow or (len(plain) < room and rng.random() < 0.3):
            begin, duration = float(rng.integers(4 * room)), float(rng.choice([0.0, 0.5]))
            item = (begin, begin + duration, free.pop())
            insert(v, 0, item[2], item[0], item[1])
            plain.insert(bisect.bisect(plain, item[:2], key=lambda held: held[:2]), item)
        else:
            item = plain.pop(int(rng.integers(len(plain))))
            remove(v, 0, item[2], item[0], item[1])
            free.append(item[2])
        assert last_end(v, 0) == (plain[-1][1] if plain else 0.0)
        moment = float(rng.integers(4 * room)) + float(rng.choice([0.0, 0.5]))
        before = [held for held in plain if held[0] < moment]
        assert left_at(v, 0, moment) == (before[-1][2] if before and before[-1][1] == moment else -1)
    assert listed(v) == plain


@pytest.mark.parametrize("seed", range(4))
def test_gaps_are_found_across_blocks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    v, busy = new_intervals(500, 1), list[tuple[float, float]]()
    for operator in range(500):
        ready, duration = float(rng.integers(800)), float(rng.choice([0.0, 1.0, 1.5, 4.0]))
        start = gap(v, 0, ready, duration)
        assert start == oracle.earliest_gap(busy, ready, duration)
        insert(v, 0, operator, start, start + duration)
        busy.append((start, start + duration))


def moved(order: Any) -> tuple[float, int]:
    """Mean number of intervals that an insertion moves within blocks, and the blocks that are used."""
    v = new_intervals(len(order), 1)
    total = 0
    for operator, begin in enumerate(order.tolist()):
        before = int(v.blocks[0])
        insert(v, 0, operator, float(begin), float(begin))
        block = v.operator[0].reshape(-1, BLOCK) == operator
        place = [(b, k) for b, k in np.argwhere(block) if b in v.chain[0, : v.blocks[0]] and k < v.held[0, b]]
        (b, k), *_ = place
        total += int(v.held[0, b]) - 1 - int(k) + (BLOCK // 2 if v.blocks[0] > before else 0)
    return total / len(order), int(v.blocks[0])


@pytest.mark.parametrize("count", [1_000, 4_000])
def test_an_insertion_anywhere_moves_less_than_a_block(count: int) -> None:
    """However many there are: a sorted array would move a quarter of them each time, or half if they fall."""
    rising = np.arange(count)
    cost, blocks = moved(rising)
    assert cost < 1 and blocks == -(-count // BLOCK)
    for order in (rising[::-1], np.random.default_rng(0).permutation(count)):
        cost, blocks = moved(order)
        assert cost < BLOCK
        assert blocks <= 2 * count // BLOCK + 1


def test_bounds_of_groups_hold_and_hide_no_gap() -> None:
    """Blocks enough for several groups, split, closed and searched in between; the peer looks at every gap."""
    rng = np.random.default_rng(0)
    room = 6 * GROUP * BLOCK // 2
    v = new_intervals(room, 1)
    slots = rng.permutation(2 * room)[:room]  # of which each has a begin of its own
    held: dict[int, tuple[float, float]] = {}
    deepest = 0
    for turn, slot in enumerate(slots.tolist()):
        held[turn] = (2.0 * slot, 2.0 * slot + float(rng.choice([1.0, 2.0])))
        insert(v, 0, turn, *held[turn])
        if rng.random() < 0.3:
            gone = int(rng.choice(np.fromiter(held, np.int64)))
            remove(v, 0, gone, *held.pop(gone))
        if turn % 397 == 0:
            for _ in range(8):
                ready, duration = float(rng.uniform(0.0, 4.0 * room)), float(rng.choice([0.5, 1.0, 6.0, 40.0, 200.0]))
                assert gap(v, 0, ready, duration) == earliest(held, ready, duration)
        deepest = max(deepest, int(v.blocks[0]))
    assert deepest > 2 * GROUP
    used = v.chain[0, : v.blocks[0]]
    times = np.array(sorted(held.values()))
    gaps = times[:, 0] - np.concatenate([[0.0], times[:-1, 1]])
    first = np.cumsum(v.held[0, used]) - v.held[0, used]
    assert (v.widest[0, used] >= np.maximum.reduceat(gaps, first)).all()
    groups = np.maximum.reduceat(v.widest[0, used], np.arange(0, len(used), GROUP))
    assert (v.group[0, : len(groups)] >= groups).all() and (v.group[0, : len(groups)] < 200.0).any()


def earliest(held: dict[int, tuple[float, float]], ready: float, duration: float) -> float:
    """Earliest start in any gap, or behind the last interval."""
    times = np.array(sorted(held.values())).reshape(-1, 2)
    start = np.maximum(ready, np.concatenate([[0.0], times[:, 1]]))
    end = np.concatenate([times[:, 0], [np.inf]])
    return float(start[start + duration <= end].min())
