"""Room: a table that tells exactly which remaining blocks fit on which remaining devices."""

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import Int64Array, frozen
from hetgym.errors import ProblemError
from hetgym.pipeline.problem import PipelineProblem
from hetgym.pipeline.tables import CutTables, counts_and_first

MAX_ROOM = 4_000_000  # Most entries in the table of room


def with_room(tables: CutTables, problem: PipelineProblem) -> CutTables:
    """Add ``room`` to the tables; ProblemError if devices of too many kinds have too many sets."""
    counts, first = counts_and_first(problem)
    sets, d = int(np.prod(counts + 1)), problem.num_devices
    if len(tables.levels) * (d + 1) * sets > MAX_ROOM:
        raise ProblemError(
            f"pipeline {problem.name!r}: {d} devices of {len(counts)} kinds make {sets} sets, too many to know what "
            "fits on them; let equal devices be one DeviceKind, or take fewer"
        )
    n = len(tables.wall) - 1
    room = np.full((len(tables.levels), d + 1, sets), n, np.int64)
    _fill_room(tables, room, counts, first)
    return tables._replace(room=frozen(room))


def something_fits(tables: CutTables) -> bool:
    """True if some cut fits on the devices."""
    free = int(tables.free[0])
    return any(bool((tables.room[row, : p + 1, free] == 0).any()) for row, p in enumerate(tables.levels.tolist()))


# A dynamic program over the last q of p stages. Invariant before each step of q: room[row, q - 1, S] is the least i
# such that blocks i to the end fit on the last q - 1 stages, on devices of the set S. The stage before these takes the
# blocks before `end` for as long as the device can run and hold them. Its earliest first block is the answer for that
# device, since a later end never allows an earlier first block. The other choice is to leave the stage out, which
# never needs more memory. Cost: O(levels * d * sets * kinds * n).
@jit
def _fill_room(tables: CutTables, room: Int64Array, counts: Int64Array, first: Int64Array) -> None:
    """Fill in the table of room, [l, d + 1, sets]; n everywhere at first."""
    size, stash, wall = tables.size, tables.stash, tables.wall
    for row in range(len(tables.levels)):
        p = tables.levels[row]
        for q in range(1, p + 1):
            keep = tables.peak[1, p, p - q]
            for members in range(room.shape[2]):
                best = room[row, q - 1, members]
                stride = 1
                for kind in range(len(counts)):
                    if members // stride % (counts[kind] + 1) > 0:
                        end = room[row, q - 1, members - stride]
                        i = end
                        while i > 0 and wall[i - 1, first[kind]] >= end:
                            if size[i - 1, end] + keep * (stash[end] - stash[i - 1]) > tables.capacity[first[kind]]:
                                break
                            i -= 1
                        best = min(best, i)
                    stride *= counts[kind] + 1
                room[row, q, members] = best
