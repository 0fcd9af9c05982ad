"""The completion of a placement: the makespan if a heuristic placed all remaining operators."""

from __future__ import annotations

import numpy as np

from hetgym._kernels.jit import lean, step
from hetgym._kernels.records import alike
from hetgym._kernels.threads import done, take
from hetgym._types import Int64Array
from hetgym.envs.place.dynamics import place_one, show_completion
from hetgym.envs.place.state import PlaceRecord, read_lanes, read_problem, read_tables
from hetgym.planning import list_scheduling, timeline
from hetgym.planning.timeline import Timeline


@lean
def place_and_complete(
    lanes: Int64Array, actions: Int64Array, shared: Int64Array, insertion: bool, sparse: bool, like: Timeline
) -> None:
    """As :func:`~hetgym.envs.place.dynamics.place`, and write the completion of each next decision.

    Each completion costs a list schedule of all remaining operators: each goes to the device with the least finish plus
    bonus.

    Args:
        like: a timeline of the kind that lanes have: with bookings or without.
    """
    r = read_lanes(lanes)
    lane = take(shared)
    while lane >= 0:
        place_one(r, lane, actions[lane], insertion, sparse, like)
        if not r.over[lane]:
            _complete(r, lane, insertion, like)
        done(shared)
        lane = take(shared)


@step
def _complete(r: PlaceRecord, lane: int, insertion: bool, like: Timeline) -> None:
    """Write the completions of the next decision in a lane."""
    board, p, tables = r.state, read_problem(r.problems[lane]), read_tables(r.tables[lane])
    t, spare = alike(r.placed[lane], like), alike(r.spare[lane], like)
    operator, rest = tables.order[board.turn[lane]], tables.order[board.turn[lane] + 1 :]
    best = np.inf
    for device in range(p.cost.shape[1]):
        if p.cost[operator, device] < np.inf:
            timeline.copy_into(t, spare)
            timeline.book(p, spare, operator, device, board.start[lane, device])
            last = list_scheduling.place_in_order(p, spare, rest, tables.free, tables.bonus, insertion)
            board.completion[lane, device] = max(board.last[lane], max(board.finish[lane, device], last))
            best = min(best, board.completion[lane, device])
    show_completion(p, board, r.observation, lane, operator, best)
