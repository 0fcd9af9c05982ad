"""Intervals: the times at which devices are busy, in order, with room to insert anywhere.

One sorted array for each device would do for short schedules. But leaves come last in list scheduling and are ready
early: each would shift half of the array, and a schedule of n operators would cost O(n^2). So each device has a chain
of blocks of at most :data:`BLOCK` intervals. An insertion moves only later intervals of one block; a full block is
split in two. A search skips blocks without a gap that is wide enough, and groups of blocks at a time.
"""

from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import step
from hetgym._kernels.records import record
from hetgym._types import FloatArray, IntArray

BLOCK = 64
"""Intervals that a block has room for: a power of two, so that ``k & -BLOCK`` is where the block of column k begins."""

GROUP = 64  # Neighbouring blocks of a chain that have a common bound: a power of two

ROUNDING = 1e-15  # Share of an end that rounding may add to it: a few units in the last place


@record
class Intervals(NamedTuple):
    """Occupied intervals of devices, sorted by begin and end.

    Interval k of block b of a device is in column ``b * BLOCK + k``. An operator that takes no
    time holds an empty interval: it delays no operator, but none may run across it.
    """

    begin: FloatArray  # [d, m * BLOCK] begin of each interval [s]
    end: FloatArray  # [d, m * BLOCK] end of each interval [s]
    operator: IntArray  # [d, m * BLOCK] the operator that occupies it
    # [d, m] a permutation of the device's blocks: first those in use, in order of time; then the others
    chain: IntArray
    blocks: IntArray  # [d] number of blocks in use; none of them is empty
    held: IntArray  # [d, m] intervals in each block that is in use
    # [d, m] no gap before an interval of the block is longer [s]: a bound that is never too small, and too large at
    # times
    widest: FloatArray
    # [d, m / GROUP + 1] no gap of the blocks at places g * GROUP .. of the chain is longer [s]: a bound like `widest`
    group: FloatArray
    size: IntArray  # [d] intervals of each device
    following: IntArray  # [d] the column behind the last interval of each device
    latest: FloatArray  # [d] end of the last interval of each device [s]; 0 if it has none


def new_intervals(n: int, d: int) -> Intervals:
    """Allocate for d devices, each with room for n operators.

    Blocks without removals are at least half full, except for the last one. Blocks with removals are packed
    when no unused block is left.
    """
    m = 1 if n <= BLOCK else 2 * n // BLOCK + 2
    chain = np.empty((d, m), np.int32)
    chain[:] = np.arange(m)
    return Intervals(
        begin=np.zeros((d, m * BLOCK)),
        end=np.zeros((d, m * BLOCK)),
        operator=np.zeros((d, m * BLOCK), np.int32),
        chain=chain,
        blocks=np.zeros(d, np.int32),
        held=np.zeros((d, m), np.int32),
        widest=np.zeros((d, m)),
        group=np.zeros((d, m // GROUP + 1)),
        size=np.zeros(d, np.int32),
        following=np.zeros(d, np.int32),
        latest=np.zeros(d),
    )


@step
def clear(v: Intervals) -> None:
    """Remove all intervals."""
    for device in range(len(v.blocks)):
        v.blocks[device] = 0
        v.size[device] = 0
        v.following[device] = 0
        v.latest[device] = 0.0


@step
def copy_into(v: Intervals, other: Intervals) -> None:
    """Make other intervals of the same size equal to these."""
    for device in range(len(v.blocks)):
        other.blocks[device] = v.blocks[device]
        other.size[device] = v.size[device]
        other.following[device] = v.following[device]
        other.latest[device] = v.latest[device]
        for j in range(v.chain.shape[1]):
            other.chain[device, j] = v.chain[device, j]
        for g in range((v.blocks[device] + GROUP - 1) // GROUP):
            other.group[device, g] = v.group[device, g]
        for j in range(v.blocks[device]):
            block = v.chain[device, j]
            other.held[device, block] = v.held[device, block]
            other.widest[device, block] = v.widest[device, block]
            for k in range(block * BLOCK, block * BLOCK + v.held[device, block]):
                other.begin[device, k] = v.begin[device, k]
                other.end[device, k] = v.end[device, k]
                other.operator[device, k] = v.operator[device, k]


@step
def copy_prefix(v: Intervals, other: Intervals, turn: IntArray, first: int) -> None:
    """Make other intervals of the same size equal to those of the operators whose turn is before ``first``."""
    for device in range(len(v.blocks)):
        count = 0
        for j in range(v.blocks[device]):
            block = v.chain[device, j]
            for k in range(block * BLOCK, block * BLOCK + v.held[device, block]):
                if turn[v.operator[device, k]] < first:
                    to = other.chain[device, count // BLOCK] * BLOCK + count % BLOCK
                    other.begin[device, to] = v.begin[device, k]
                    other.end[device, to] = v.end[device, k]
                    other.operator[device, to] = v.operator[device, k]
                    count += 1
        _note_packed(other, device, count)


@step
def last_end(v: Intervals, device: int) -> float:
    """End of a device's last interval [s]; 0 if it has none."""
    return float(v.latest[device])


@step
def _end_before(v: Intervals, device: int, at: int) -> float:
    """End of the last interval before a place in the chain [s]; 0 if there is none."""
    if at == 0:
        return 0.0
    block = v.chain[device, at - 1]
    return float(v.end[device, block * BLOCK + v.held[device, block] - 1])


# Bisection keeps: the first intervals of all blocks at places up to low - 1 are not behind (begin, end), those of
# blocks from `high` on are. O(log of the blocks).
@step
def _place_of(v: Intervals, device: int, begin: float, end: float) -> int:
    """The last place in the chain whose block's first interval is not behind (begin, end); 0 without one."""
    low, high = 1, max(1, v.blocks[device])
    while low < high:
        middle = (low + high) // 2
        k = v.chain[device, middle] * BLOCK
        if (v.begin[device, k], v.end[device, k]) > (begin, end):
            high = middle
        else:
            low = middle + 1
    return low - 1


# The gap before an interval runs from the end of the one before (0 for the first) to its begin. Begins and ends rise
# along the chain, so only gaps before intervals that begin at ready + duration or later can be wide enough: a suffix.
# Mostly it lies in the last block, which is scanned backward: `found` is the earliest start in the gaps before
# intervals k + 1 and later. The scan ends at the block's first interval, which begins too early. O(BLOCK).
@step
def earliest_gap(v: Intervals, device: int, ready: float, duration: float) -> float:
    """Earliest start from ``ready`` on at which a device is idle for a duration [s]."""
    end = v.latest[device]
    if ready >= end:
        return ready
    least = ready + duration
    k = v.following[device] - 1
    if v.begin[device, k & -BLOCK] >= least:
        return _gap_anywhere(v, device, ready, duration)
    found = end
    while v.begin[device, k] >= least:
        start = max(ready, v.end[device, k - 1])
        found = start if start + duration <= v.begin[device, k] else found
        k -= 1
    return float(found)


# The suffix begins in the block at `at`, or behind it. That block is scanned backward, as in `earliest_gap`. What is
# found there precedes all that is in later blocks. O(BLOCK + log of the blocks), and the blocks of `_gap_behind`.
@step
def _gap_anywhere(v: Intervals, device: int, ready: float, duration: float) -> float:
    """As :func:`earliest_gap`, where gaps in other blocks than the last one may be wide enough."""
    end = v.latest[device]
    least = ready + duration
    at = _place_of(v, device, least, -np.inf)
    first = v.chain[device, at] * BLOCK
    found, k = end, first + v.held[device, v.chain[device, at]] - 1
    while k >= first and v.begin[device, k] >= least:
        start = max(ready, v.end[device, k - 1] if k > first else _end_before(v, device, at))
        found = start if start + duration <= v.begin[device, k] else found
        k -= 1
    return float(found) if found < end else _gap_behind(v, device, at, ready, duration)


# Blocks are scanned forward, up to the first gap that fits. A block or a group of them is skipped if its bound is too
# small; one that was scanned in vain gets its exact bound. `most` is the longest of the bounds from the begin of the
# group on, infinite if the scan began inside. O(groups), and the blocks that are scanned.
@step
def _gap_behind(v: Intervals, device: int, at: int, ready: float, duration: float) -> float:
    """As :func:`earliest_gap`, of the gaps before intervals in the blocks behind a place, or behind the last one."""
    end = v.latest[device]
    short = duration - ROUNDING * end  # what fits into a gap is at least so long
    j, most = at + 1, np.inf
    while j < v.blocks[device]:
        if j & (GROUP - 1) == 0:
            if v.group[device, j // GROUP] < short:
                j += GROUP
                continue
            most = 0.0
        block = v.chain[device, j]
        if v.widest[device, block] >= short:
            widest, before = 0.0, _end_before(v, device, j)
            for k in range(block * BLOCK, block * BLOCK + v.held[device, block]):
                start = max(ready, before)
                if start + duration <= v.begin[device, k]:
                    return start
                widest = max(widest, v.begin[device, k] - before)
                before = v.end[device, k]
            v.widest[device, block] = widest
        most = max(most, v.widest[device, block])
        j += 1
        if j & (GROUP - 1) == 0 or j == v.blocks[device]:
            v.group[device, (j - 1) // GROUP] = min(v.group[device, (j - 1) // GROUP], most)
    return float(end)


@step
def insert(v: Intervals, device: int, operator: int, begin: float, end: float) -> None:
    """Occupy a device, which is idle then, from ``begin`` to ``end`` [s]."""
    k = v.following[device]
    if begin < v.latest[device] or k & (BLOCK - 1) == 0:  # there is one behind it, or the last block is full
        _insert_anywhere(v, device, operator, begin, end)
        return
    v.begin[device, k] = begin
    v.end[device, k] = end
    v.operator[device, k] = operator
    v.size[device] += 1
    v.held[device, k // BLOCK] += 1
    if begin - v.latest[device] > v.widest[device, k // BLOCK]:
        _raise_bound(v, device, v.blocks[device] - 1, begin - v.latest[device])
    v.following[device] = k + 1
    v.latest[device] = end


# The interval goes into the last block that begins no later than it does, behind those that are equal to it; that
# block is the last one, mostly. A block that is full is split first, unless the interval comes last of all: then it
# begins a block, so that schedules that only grow fill their blocks. O(BLOCK), O(log of the blocks) to find the block,
# and O(blocks) once in BLOCK / 2 insertions, to split one.
@step
def _insert_anywhere(v: Intervals, device: int, operator: int, begin: float, end: float) -> None:
    """As :func:`insert`, without a guess where the interval goes."""
    if v.blocks[device] == 0:
        _open_block(v, device, 0)
    at = v.blocks[device] - 1
    first = v.chain[device, at] * BLOCK
    if at > 0 and (v.begin[device, first], v.end[device, first]) > (begin, end):
        at = _place_of(v, device, begin, end)
    if v.held[device, v.chain[device, at]] == BLOCK:
        if v.blocks[device] == v.chain.shape[1]:
            _pack(v, device)
            at = _place_of(v, device, begin, end)
        at = _make_room(v, device, at, begin, end)
    block = v.chain[device, at]
    first = block * BLOCK
    k = first + v.held[device, block]
    while k > first and (v.begin[device, k - 1], v.end[device, k - 1]) > (begin, end):
        v.begin[device, k] = v.begin[device, k - 1]
        v.end[device, k] = v.end[device, k - 1]
        v.operator[device, k] = v.operator[device, k - 1]
        k -= 1
    v.begin[device, k] = begin
    v.end[device, k] = end
    v.operator[device, k] = operator
    v.size[device] += 1
    v.held[device, block] += 1
    _widen(v, device, at, k)
    _find_end(v, device)


@step
def _find_end(v: Intervals, device: int) -> None:
    """Note where a device's last interval is, and when it ends."""
    v.following[device], v.latest[device] = 0, 0.0
    if v.blocks[device] > 0:
        block = v.chain[device, v.blocks[device] - 1]
        v.following[device] = block * BLOCK + v.held[device, block]
        v.latest[device] = v.end[device, v.following[device] - 1]


# Intervals that begin and end alike may lie in several blocks: the search starts in the last block that can hold the
# interval and goes backward until it meets the operator. Intervals behind it in its block move up by one. A block that
# becomes empty goes out of use, and the gap before the next interval, which has grown, enters its block's bound.
# O(BLOCK + log of the blocks), and O(blocks) to close one.
@step
def remove(v: Intervals, device: int, operator: int, begin: float, end: float) -> None:
    """Remove the interval of an operator, which :func:`insert` added with the same arguments."""
    v.size[device] -= 1
    at = _place_of(v, device, begin, end)
    k = v.chain[device, at] * BLOCK + v.held[device, v.chain[device, at]] - 1
    while v.operator[device, k] != operator:
        k -= 1
        if k < v.chain[device, at] * BLOCK:
            at -= 1
            k = v.chain[device, at] * BLOCK + v.held[device, v.chain[device, at]] - 1
    block = v.chain[device, at]
    v.held[device, block] -= 1
    top = block * BLOCK + v.held[device, block]
    for m in range(k, top):
        v.begin[device, m] = v.begin[device, m + 1]
        v.end[device, m] = v.end[device, m + 1]
        v.operator[device, m] = v.operator[device, m + 1]
    if k < top:
        _widen(v, device, at, k)
    else:
        behind = at + 1
        if v.held[device, block] == 0:
            _close_block(v, device, at)
            behind = at
        if behind < v.blocks[device]:
            _widen(v, device, behind, v.chain[device, behind] * BLOCK)
    _find_end(v, device)


@step
def left_at(v: Intervals, device: int, moment: float) -> int:
    """The operator that leaves a device at a moment, having begun before it [s]; -1 without one."""
    if v.blocks[device] == 0:
        return -1
    block = v.chain[device, _place_of(v, device, moment, -np.inf)]
    k = block * BLOCK + v.held[device, block] - 1
    while k >= block * BLOCK and v.begin[device, k] >= moment:
        k -= 1
    return int(v.operator[device, k]) if k >= block * BLOCK and v.end[device, k] == moment else -1


@step
def write_operators(v: Intervals, device: int, order: IntArray, first: int) -> int:
    """Write a device's operators in order of time into ``order`` from ``first`` on; return where they end."""
    for j in range(v.blocks[device]):
        block = v.chain[device, j]
        for k in range(block * BLOCK, block * BLOCK + v.held[device, block]):
            order[first] = v.operator[device, k]
            first += 1
    return first


@step
def _widen(v: Intervals, device: int, at: int, k: int) -> None:
    """Let the bound of the block at a place hold for the gap before its interval in column k."""
    block = v.chain[device, at]
    before = v.end[device, k - 1] if k > block * BLOCK else _end_before(v, device, at)
    _raise_bound(v, device, at, v.begin[device, k] - before)


@step
def _raise_bound(v: Intervals, device: int, at: int, gap: float) -> None:
    """Let the bounds of the block at a place, and of its group, hold for a gap [s]."""
    block = v.chain[device, at]
    v.widest[device, block] = max(v.widest[device, block], gap)
    v.group[device, at // GROUP] = max(v.group[device, at // GROUP], gap)


# Each group from there on gives its last block to the next one, whose bound it enters. The bound of a group that comes
# into use begins at 0.
@step
def _open_block(v: Intervals, device: int, at: int) -> None:
    """Put an empty block, one of those that are not in use, at a place in the chain."""
    block = v.chain[device, v.blocks[device]]
    for j in range(v.blocks[device], at, -1):
        v.chain[device, j] = v.chain[device, j - 1]
    v.chain[device, at] = block
    v.held[device, block] = 0
    v.widest[device, block] = 0.0
    v.blocks[device] += 1
    last = v.blocks[device] - 1
    if last & (GROUP - 1) == 0:
        v.group[device, last // GROUP] = 0.0
    for g in range(at // GROUP + 1, last // GROUP + 1):
        v.group[device, g] = max(v.group[device, g], v.widest[device, v.chain[device, g * GROUP]])


@step
def _close_block(v: Intervals, device: int, at: int) -> None:
    """Take the empty block at a place out of use."""
    block = v.chain[device, at]
    v.blocks[device] -= 1
    for j in range(at, v.blocks[device]):
        v.chain[device, j] = v.chain[device, j + 1]
    v.chain[device, v.blocks[device]] = block
    for g in range(at // GROUP, v.blocks[device] // GROUP):  # whose last block was the first of the next
        moved = v.chain[device, g * GROUP + GROUP - 1]
        v.group[device, g] = max(v.group[device, g], v.widest[device, moved])


@step
def _make_room(v: Intervals, device: int, at: int, begin: float, end: float) -> int:
    """Open a block behind a full one, and let it take half of that, or nothing if the interval comes last of all.

    Returns:
        The place in the chain of the block that the interval goes into.
    """
    full = v.chain[device, at]
    if v.held[device, full] < BLOCK:
        return at
    top = full * BLOCK + BLOCK - 1
    _open_block(v, device, at + 1)
    if at + 2 == v.blocks[device] and (v.begin[device, top], v.end[device, top]) <= (begin, end):
        return at + 1
    block, half = v.chain[device, at + 1], BLOCK // 2
    _raise_bound(v, device, at + 1, v.widest[device, full])
    v.held[device, full] = v.held[device, block] = half
    for k in range(half):
        v.begin[device, block * BLOCK + k] = v.begin[device, full * BLOCK + half + k]
        v.end[device, block * BLOCK + k] = v.end[device, full * BLOCK + half + k]
        v.operator[device, block * BLOCK + k] = v.operator[device, full * BLOCK + half + k]
    behind = (v.begin[device, block * BLOCK], v.end[device, block * BLOCK]) > (begin, end)
    return at if behind else at + 1


# Reads run along the chain and writes follow them: a write never passes the next read, since no block holds more
# than BLOCK intervals. O(intervals), after so many removals at least that blocks have run out.
@step
def _pack(v: Intervals, device: int) -> None:
    """Fill the blocks of a device from the first on."""
    count = 0
    for j in range(v.blocks[device]):
        block = v.chain[device, j]
        for k in range(block * BLOCK, block * BLOCK + v.held[device, block]):
            to = v.chain[device, count // BLOCK] * BLOCK + count % BLOCK
            v.begin[device, to] = v.begin[device, k]
            v.end[device, to] = v.end[device, k]
            v.operator[device, to] = v.operator[device, k]
            count += 1
    _note_packed(v, device, count)


@step
def _note_packed(v: Intervals, device: int, count: int) -> None:
    """Note that a device's intervals fill its blocks from the first on; nothing is known of their gaps."""
    v.size[device] = count
    v.blocks[device] = (count + BLOCK - 1) // BLOCK
    for j in range(v.blocks[device]):
        v.held[device, v.chain[device, j]] = min(BLOCK, count - j * BLOCK)
        v.widest[device, v.chain[device, j]] = np.inf
        v.group[device, j // GROUP] = np.inf
    _find_end(v, device)
