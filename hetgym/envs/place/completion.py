"""The completion of a placement: the makespan if a heuristic placed all remaining operators."""

from __future__ import annotations

import numpy as np

from hetgym._jit import lean
from hetgym._records import alike
from hetgym._types import BoolArray, Int64Array
from hetgym.envs.place.dynamics import show_completion
from hetgym.envs.place.state import read_lanes, read_problem, read_tables
from hetgym.planning import list_scheduling, timeline
from hetgym.planning.timeline import Timeline


@lean
def complete(lanes: Int64Array, active: BoolArray, insertion: bool, like: Timeline) -> None:
    """Compute and write the completion of each decision in every active lane whose episode is running.

    Each costs a list schedule of all remaining operators: each goes to the device with the least finish plus bonus.

    Args:
        lanes: row of a :class:`~hetgym.envs.place.state.PlaceRecord`.
        active: [L] true for lanes that have taken a decision.
        insertion: true if idle gaps are filled.
        like: a timeline of the kind that lanes have: with bookings or without.
    """
    r = read_lanes(lanes)
    b = r.state
    for lane in range(len(active)):
        if not active[lane] or r.over[lane]:
            continue
        p, tables = read_problem(r.problems[lane]), read_tables(r.tables[lane])
        t, spare = alike(r.placed[lane], like), alike(r.spare[lane], like)
        operator, rest = tables.order[b.turn[lane]], tables.order[b.turn[lane] + 1 :]
        best = np.inf
        for device in range(p.cost.shape[1]):
            if p.cost[operator, device] < np.inf:
                timeline.copy_into(t, spare)
                timeline.book(p, spare, operator, device, b.start[lane, device])
                last = list_scheduling.place_in_order(p, spare, rest, tables.free, tables.bonus, insertion)
                b.completion[lane, device] = max(b.last[lane], max(b.finish[lane, device], last))
                best = min(best, b.completion[lane, device])
        show_completion(p, b, r.observation, lane, operator, best)
