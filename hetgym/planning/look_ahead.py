"""Outlook: how a decision looks some operators further on, under the classic model."""

from __future__ import annotations

import numpy as np

from hetgym._jit import step
from hetgym._types import FloatArray, IntArray
from hetgym.planning import timeline
from hetgym.problem import ProblemArrays


@step
def look_ahead(
    p: ProblemArrays, t: timeline.Timeline, order: IntArray, turn: int, device: int, start: float, stop: int,
    fixed: IntArray, bonus: FloatArray, loose: FloatArray, tight: FloatArray, insertion: bool,
) -> tuple[float, float]:  # fmt: skip
    """Place an operator and those after it, look at how far off the end seems, and take all of it back.

    The others go where finish time plus bonus is least, as in :func:`timeline.place_in_order`. A short look,
    of ten operators or so, tells devices apart as well as a roll-out to the end does, in a time that does
    not grow with the graph.

    Args:
        p: the problem.
        t: holds the operators before ``turn``; unchanged on return.
        order: [n] operators in a topological order.
        turn: of the operator that is decided.
        device: on which it is tried,
        start: and from when on [s].
        stop: turn before which the look ends.
        fixed: [n] device that an operator after it must take, -1 where it is free.
        bonus: [n, d] added to the finish time when devices are compared [s].
        loose: [n, d] estimated time from a free operator's finish to the end [s].
        tight: [n, d] the same for one whose device is fixed [s].
        insertion: whether idle gaps may be used.

    Returns:
        Greatest and mean of finish plus time to the end over the operators of the look [s].
    """
    d = p.cost.shape[1]
    operator = order[turn]
    timeline.book(p, t, operator, device, start)
    end = start + p.cost[operator, device] + loose[operator, device]
    greatest, total = end, end
    for k in range(turn + 1, stop):
        j = order[k]
        chosen = fixed[j]
        best_device, best_start, best_key = -1, 0.0, np.inf
        for a in range(max(chosen, 0), chosen + 1 if chosen >= 0 else d):
            duration = p.cost[j, a]
            if duration == np.inf and chosen < 0:
                continue
            begin = timeline.earliest_start(t, a, timeline.data_ready(p, t, j, a), duration, insertion)
            key = begin + duration + bonus[j, a]
            if best_device < 0 or key < best_key:
                best_device, best_start, best_key = a, begin, key
        timeline.book(p, t, j, best_device, best_start)
        rest = tight[j, best_device] if chosen >= 0 else loose[j, best_device]
        end = best_start + p.cost[j, best_device] + rest
        greatest = max(greatest, end)
        total += end
    for k in range(stop - 1, turn - 1, -1):
        timeline.take_back(t, order[k])
    return greatest, total / (stop - turn)
