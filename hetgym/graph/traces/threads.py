"""Threads: nested events become consecutive steps, and threads that hand control over wait for each other."""

from bisect import bisect_left, bisect_right

from hetgym.graph.traces.chrome import Event
from hetgym.graph.traces.steps import Step

HANDOFF = 20e-6
"""Shortest interval in which a thread is taken to wait for another one [s]; waking a thread takes about as long."""

PASSIVE = frozenset(("idle", "annotation", "python"))  # Kinds of steps in which a thread may do nothing but wait


def tile(events: list[Event], track: int) -> list[Step]:
    """Steps that cover a thread from time 0 to its last finish, without overlap.

    At any time the step belongs to the event that started last among those that have not ended; where there is none,
    the thread is idle. An event that outlives the one around it therefore ends when it ends, as happens where clocks
    are rounded. ``parent``, ``before`` and ``step`` of the events are set.
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

    A step that the end of the recording cut off, see :func:`_cut_off`, waits for the end of B's work in any case, and
    is not work that another one could wait for.
    """
    begins = [[step.start for step in steps] for steps in threads]
    end = max(steps[-1].finish for steps in threads)
    whole = [_cut_off(steps, end) for steps in threads]
    for a, steps in enumerate(threads):
        for i, step in enumerate(steps):
            if i > 0 and step.finish - step.start >= HANDOFF and step.kind != "runtime":
                for b, others in enumerate(threads):
                    if b != a:
                        cut = i == whole[a]
                        _link(steps[i - 1], step, others, begins[b], whole[b] if cut else len(others), cut)


def _cut_off(steps: list[Step], end: float) -> int:
    """Number of the step that the end of the recording cut off; the number of steps if none was.

    A thread that waits in a Python function when the profiler stops has an event that ends just then, or some
    microseconds before or after the last event of the thread that stops it. That end says nothing about the wait.
    """
    i = len(steps) - 1
    while i > 0 and steps[-1].finish - steps[i].start < HANDOFF:  # functions around it, which are closed with it
        i -= 1
    step = steps[i]
    waits = step.kind in PASSIVE and step.finish - step.start >= HANDOFF and step.finish >= end - HANDOFF
    return i if i > 0 and waits else len(steps)


def _link(before: Step, step: Step, others: list[Step], begins: list[float], count: int, cut: bool) -> None:
    """Link a step to the work of another thread within it, where the rules of :func:`hand_over` hold.

    The other thread's first ``count`` steps begin at ``begins`` [s]; ``cut`` says that the recording's end cut the
    step.
    """
    first, last = bisect_right(begins, step.start, 0, count) - 1, bisect_left(begins, step.finish, 0, count) - 1
    if first < 0 or last < first:
        return
    sleeps = others[first].kind == "idle" and others[first].finish > step.start
    begin = others[first].finish if sleeps else step.start
    idle = others[last].kind == "idle"
    rests = cut or idle or (last + 1 == count and others[last].finish <= step.finish)
    end = others[last].start if idle else min(step.finish, others[last].finish)
    if end - begin <= (step.finish - step.start) / 2 or not (sleeps or rests):
        return
    if not (sleeps and rests) and step.kind not in PASSIVE:
        return
    if sleeps:
        others[first].after.append((before, "handoff"))
    if rests:
        step.flexible = True
        step.after.append((others[last - 1 if idle else last], "handoff"))
