"""Collectives of several ranks: none transfers before the last rank has come, and the clocks of the ranks."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from hetgym.graph.traces.steps import Step
from hetgym.graph.traces.streams import ROUNDING, Work

KINDS = frozenset(
    ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "all-to-all", "send-recv", "collective")
)

TOGETHER = 50e-6  # Longest time between the ends of a collective on its ranks, clocks aligned [s]


def matched(ranks: Sequence[Sequence[Work]]) -> list[list[tuple[int, Work]]]:
    """Collectives that several ranks ran together, those of one kind and process group in the order of each rank.

    Each is a list of rank and work. If the numbers of such collectives differ, the ranks were not recorded over the
    same steps, and none of them is matched. Sends and receives are matched like collectives, since NCCL runs an
    all-to-all as such; :func:`couple` tells them apart.
    """
    groups: dict[tuple[Any, ...], dict[int, list[Work]]] = defaultdict(lambda: defaultdict(list))
    for rank, works in enumerate(ranks):
        for work in sorted(works, key=lambda work: work.event.start):
            if work.event.kind in KINDS:
                args = work.event.args
                group = str(args.get("Process Group Name", "")), str(args.get("Process Group Ranks", ""))
                groups[(work.event.kind, *group)][rank].append(work)
    found = []
    for members in groups.values():
        if len(members) > 1 and len({len(works) for works in members.values()}) == 1:
            found += [list(zip(members, row, strict=True)) for row in zip(*members.values(), strict=True)]
    return found


def clock_shifts(ranks: int, together: Sequence[Sequence[tuple[int, Work]]]) -> list[float]:
    """Time to add to each rank's clock so that collectives end at the same time: the median over all of them [s].

    Sends and receives are ignored. Ranks are compared with the first one that took part; those of no common
    collective keep their clocks.
    """
    differences: dict[int, list[float]] = defaultdict(list)
    for row in together:
        for rank, work in row[1:]:
            if row[0][0] == 0 and work.event.kind != "send-recv":
                differences[rank].append(row[0][1].event.finish - work.event.finish)
    return [float(np.median(differences[rank])) if rank in differences else 0.0 for rank in range(ranks)]


def couple(row: Sequence[tuple[int, Work]]) -> list[Step]:
    """Split a collective into the arrival of each rank and the transfer, which starts when the last rank arrives.

    The new steps each belong before the transfer of their track; there are none if the times of the ranks contradict
    each other, because a rank ended before another began. Sends and receives are one collective if they end at the same
    time on all ranks.
    """
    begin = max(work.step.start for _, work in row)
    if any(work.step.finish < begin - ROUNDING for _, work in row):
        return []
    ends = [work.step.finish for _, work in row]
    if row[0][1].event.kind == "send-recv" and max(ends) - min(ends) > TOGETHER:
        return []
    new = []
    for _, work in row:
        step = work.step
        arrival = Step(step.name, "rendezvous", step.track, step.start, step.start, after=step.after, turn=0)
        step.after = []
        new.append(arrival)
    first = row[0][1].step
    meeting = Step(first.name, "rendezvous", first.track, begin, begin, turn=1)
    meeting.after = [(arrival, "collective") for arrival in new[1:]]
    for _, work in row:
        work.step.start = min(begin, work.step.finish)
        if work.step is not first:
            work.step.after.append((meeting, "collective"))
    return [*new, meeting]
