"""The dynamic program over downsets, compiled."""

import numpy as np
import numpy.typing as npt

from hetgym._kernels.jit import jit, step
from hetgym._types import BoolArray, FloatArray, Int64Array, IntArray

Bits = npt.NDArray[np.uint64]


@jit
def device_sets(counts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Sets of devices, where devices of one kind are interchangeable, and the results of taking one device out.

    Args:
        counts: [k] devices of each kind.

    Returns:
        [q, 3] set, set without a device of a kind, that kind, for all that there are, sets in rising order; and
        [sets] how many devices are not in each set.
    """
    sets, count = 1, 0
    for devices in counts:
        sets *= devices + 1
    moves, left = np.empty((sets * len(counts), 3), np.int64), np.empty(sets, np.int64)
    for members in range(sets):
        left[members], stride = 0, 1
        for kind in range(len(counts)):
            held = members // stride % (counts[kind] + 1)
            left[members] += counts[kind] - held
            if held > 0:
                moves[count, 0], moves[count, 1], moves[count, 2] = members, members - stride, kind
                count += 1
            stride *= counts[kind] + 1
    return moves[:count].copy(), left


# value[a, S] is the least max-load of the nodes of downset a on devices of the set S. Rows are filled in order: each
# comes after all downsets inside it, so before row a every row b < a is final, and value[a, S] is inf. Row a then
# tries each b inside a as the content of the stages before the last one; from the b of most work downwards, so that the
# last stage grows and the search ends at the first b that leaves more work than `upper` to one device. The transfers of
# a last stage are only computed for pairs whose work alone would be an improvement, which most pairs are not.
#
# Sets from which the devices that are not in them could not finish the rest within `upper` are not filled in, and
# rows that hold no useful value are not tried as b. At the end of a row a device may stay empty (then before[a, S] is
# a). Cost: O(m^2 * (w + q)) for m downsets of w words and q ways of taking a device from a set.
@jit
def fill_values(
    value: FloatArray,
    before: IntArray,
    kind: npt.NDArray[np.int8],
    bits: Bits,
    work: FloatArray,
    cost: FloatArray,
    blocked: FloatArray,
    size: FloatArray,
    crossing: Bits,
    seconds: FloatArray,
    moves: Int64Array,
    left: Int64Array,
    memory: FloatArray,
    pays: BoolArray,
    entry: FloatArray,
    upper: float,
) -> None:
    """Best max-load of each downset on each set of devices, and the last stage of a cut that reaches it.

    Args:
        value: [m, sets] written; max-load [s], inf where there is none as good as ``upper``; must be inf on entry.
        before, kind: [m, sets] written; row of the downset before the last stage, and kind of device of that.
        bits: [m, w] downsets, each after all that it holds; the first is empty, the last is everything.
        work: [m] least work of each, not falling [s].
        cost: [m, k] work on each kind of device [s].
        blocked: [m, k] number of nodes that the kind cannot run.
        size: [m] bytes.
        crossing: [h, w] nodes that a tensor connects.
        seconds: [h] price of the tensor [s].
        moves: [q, 3] set, set without a device of a kind, that kind; sets in rising order.
        left: [sets] number of devices that are not in the set.
        memory: [k] bytes of one device.
        pays: [k] true if it pays for transfers.
        entry: [k] time to enter it [s].
        upper: larger values are of no interest [s].
    """
    m = len(bits)
    useful = np.zeros(m, np.int64)
    outside = np.zeros(m)  # seconds of all tensors that leave a downset
    opened = np.zeros(len(seconds), np.int64)  # tensors that leave the current one
    wanted = np.zeros(len(moves), np.int64)  # the moves to sets that are filled in: set, set without, kind
    without = np.zeros(len(moves), np.int64)
    used = np.zeros(len(moves), np.int64)
    useful[0] = 1
    value[0, :] = 0.0
    for a in range(1, m):
        count = _open_tensors(bits, a, crossing, opened)
        for h in range(count):
            outside[a] += seconds[opened[h]]
        ways = 0
        for k in range(len(moves)):
            rest = left[moves[k, 0]]
            if rest * upper >= work[m - 1] - work[a] if rest > 0 else a == m - 1:
                wanted[ways], without[ways], used[ways] = moves[k, 0], moves[k, 1], moves[k, 2]
                ways += 1
        for inner in range(a - 1, -1, -1):
            if work[a] - work[inner] > upper:
                break
            if useful[inner] == 0 or not _contains(bits, a, inner):
                continue
            transfers = -1.0  # not known yet
            for k in range(ways):
                members, less, which = wanted[k], without[k], used[k]
                load = cost[a, which] - cost[inner, which] + entry[which]
                if max(value[inner, less], load) >= value[a, members]:
                    continue
                if blocked[a, which] > blocked[inner, which] or size[a] - size[inner] > memory[which] * (1 + 1e-12):
                    continue
                if pays[which]:
                    if transfers < 0:
                        beyond = _beyond(bits, a, inner, crossing, seconds, opened, count)
                        transfers = max(0.0, outside[inner] + beyond)
                    load += transfers
                best = max(value[inner, less], load)
                if best < value[a, members] and best <= upper:
                    value[a, members], before[a, members], kind[a, members] = best, inner, which
        for k in range(ways):
            members, less = wanted[k], without[k]
            if value[a, less] < value[a, members]:
                value[a, members], before[a, members], kind[a, members] = value[a, less], a, used[k]
        for members in range(value.shape[1]):
            if value[a, members] <= upper:
                useful[a] = 1


@step
def _contains(bits: Bits, a: int, b: int) -> bool:
    """True if downset a holds all of b."""
    for w in range(bits.shape[1] - 1, -1, -1):  # noqa: SIM110, which Numba makes no loop of
        if bits[b, w] & ~bits[a, w] != 0:
            return False
    return True


@step
def _open_tensors(bits: Bits, a: int, crossing: Bits, opened: Int64Array) -> int:
    """List the tensors that connect a downset with the rest, and count them."""
    count = 0
    for h in range(len(crossing)):
        some, complete = False, True
        for w in range(bits.shape[1]):
            both = crossing[h, w] & bits[a, w]
            some |= both != 0
            complete &= both == crossing[h, w]
        if some and not complete:
            opened[count] = h
            count += 1
    return count


@step
def _beyond(bits: Bits, a: int, b: int, crossing: Bits, seconds: FloatArray, opened: Int64Array, count: int) -> float:
    """Transfers that the stage between downsets b and a pays beyond those of all tensors that leave b [s].

    Tensors that end in the stage are among those. Of tensors that go on behind the stage, those that
    begin in it come on top, and those that pass it by without a reader must be taken off.
    """
    total = 0.0
    for k in range(count):
        reaches, begun = False, False
        for w in range(bits.shape[1]):
            here = crossing[opened[k], w] & bits[a, w]
            reaches |= (here & ~bits[b, w]) != 0
            begun |= (here & bits[b, w]) != 0
        total += seconds[opened[k]] * (reaches - begun)
    return total
