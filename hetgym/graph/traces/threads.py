"""Threads: nested events become consecutive steps, and threads that hand control over wait for each other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from hetgym.graph.traces.chrome import Event
from hetgym.graph.traces.steps import Step

HANDOFF = 20e-6
"""Shortest interval in which a thread is taken to wait for another one [s]; waking a thread takes about as long."""

PASSIVE = frozenset(("idle", "annotation", "python"))
"""Kinds of steps in which a thread may do nothing but wait."""


def tile(events: list[Event], track: int) -> list[Step]:
    """Steps that cover a thread from time 0 to its last finish, without overlap.

    At any time the step belongs to the event that started last among those that have not ended; where there is none,
    the thread is idle. An event that outlives the one around it therefore ends when it ends, as happens where clocks
    are rounded.

    Args:
        events: those of one thread. Their ``parent``, ``before`` and ``step`` are set.
        track: number of the thread's track.
    """
    events.sort(key=lambda event: (event.start, -event.finish))
    steps = [Step("idle", "idle", track, 0.0, 0.0, flexible=True)]
    open_events: list[Event] = []
    now = 0.0

    def advance(until: float) -> float:
        """Cover the time from ``now`` on; the innermost event that is open gets it."""
        at = now
        while at < until:
            while open_events and open_events[-1].finish <= at:
                open_events.pop()
            inner = open_events[-1] if open_events else None
            end = until if inner is None else min(until, inner.finish)
            if inner is None:
                step = Step("idle", "idle", track, at, end, flexible=True)
            else:
                step = Step(inner.name, inner.kind, track, at, end)
                inner.step = step
            steps.append(step)
            at = end
        return at

    for event in events:
        now = advance(event.start)
        while open_events and open_events[-1].finish <= now:
            open_events.pop()
        event.parent = open_events[-1] if open_events else None
        event.before = steps[-1]
        open_events.append(event)
    advance(max((event.finish for event in events), default=0.0))
    return steps


def hand_over(threads: list[list[Step]]) -> None:
    """Find threads of a process that wait while another one works, such as a caller of the backward pass.

    Profilers record no such waits. Thread A is taken to wait for thread B during one of A's steps if B works for more
    than half of that step. If B was idle when the step began, its work waits for A's step before; if B is idle when the
    step ends, the rest of the step waits for the end of B's work. If only one of the two holds, the step must be one in
    which A has nothing to do itself, as far as recorded: idle, or within an annotation or a Python function. Calls of
    the device's runtime wait for the device instead.

    Args:
        threads: steps of each thread, as :func:`tile` makes them.
    """
    begins = [[step.start for step in steps] for steps in threads]
    for a, steps in enumerate(threads):
        for i, step in enumerate(steps):
            if i > 0 and step.finish - step.start >= HANDOFF and step.kind != "runtime":
                for b, others in enumerate(threads):
                    if b != a:
                        _link(steps[i - 1], step, others, begins[b])


def _link(before: Step, step: Step, others: list[Step], begins: list[float]) -> None:
    """Link a step to the work of another thread within it, where the rules of :func:`hand_over` hold."""
    first, last = bisect_right(begins, step.start) - 1, bisect_left(begins, step.finish) - 1
    if first < 0 or last < first:
        return
    sleeps = others[first].kind == "idle" and others[first].finish > step.start
    begin = others[first].finish if sleeps else step.start
    over = last + 1 == len(others) and others[last].finish <= step.finish
    rests = over or others[last].kind == "idle"
    end = step.finish if not rests else others[last].finish if over else others[last].start
    if end - begin <= (step.finish - step.start) / 2 or not (sleeps or rests):
        return
    if not (sleeps and rests) and step.kind not in PASSIVE:
        return
    if sleeps:
        others[first].after.append((before, "handoff"))
    if rests:
        step.flexible = True
        step.after.append((others[last if over else last - 1], "handoff"))
