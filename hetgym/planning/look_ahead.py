"""Look-ahead: the estimated result of a decision after a few more operators, under the classic model."""

from typing import NamedTuple

from hetgym._kernels.jit import step
from hetgym._types import FloatArray, IntArray
from hetgym.planning.list_scheduling import earliest_finish
from hetgym.planning.timeline import Timeline, book, take_back
from hetgym.problem import ProblemArrays


class Remainder(NamedTuple):
    """The operators that are still to be placed, and estimates of the time that they take."""

    order: IntArray  # [n] operators in a topological order
    fixed: IntArray  # [n] device that an operator must take, -1 where it is free
    loose: FloatArray  # [n, d] estimated time from a free operator's finish to the end [s]
    tight: FloatArray  # [n, d] the same for an operator whose device is fixed [s]


@step
def look_ahead(
    p: ProblemArrays, t: Timeline, r: Remainder, turn: int, device: int, start: float, stop: int, bonus: FloatArray
) -> tuple[float, float]:
    """Place an operator and those after it, estimate the time of the end, and undo all of it.

    The others go where finish time plus bonus is least, gaps filled. A short look, of ten operators or so, tells
    devices apart as well as a roll-out to the end does, in a time that does not grow with the graph.

    Args:
        t: holds the operators before ``turn``; unchanged on return.
        turn: place in the order of the operator that is decided.
        start: start of the operator on it [s].
        stop: turn before which the look ends.
        bonus: [n, d] added to the finish time when devices are compared [s].

    Returns:
        Greatest and mean of finish plus time to the end over the operators of the look [s].
    """
    operator = r.order[turn]
    book(p, t, operator, device, start)
    end = start + p.cost[operator, device] + r.loose[operator, device]
    greatest, total = end, end
    for k in range(turn + 1, stop):
        j = r.order[k]
        chosen = r.fixed[j]
        a, begin = earliest_finish(p, t, j, chosen, bonus, True)
        book(p, t, j, a, begin)
        rest = r.tight[j, a] if chosen >= 0 else r.loose[j, a]
        end = begin + p.cost[j, a] + rest
        greatest = max(greatest, end)
        total += end
    for k in range(stop - 1, turn - 1, -1):
        take_back(p, t, r.order[k])
    return greatest, total / (stop - turn)
