"""Task graphs of the Standard Task Graph Set (STG), with and without communication.

A file gives the number of tasks; then a line ``task time count`` for each task, followed by the numbers of as many
predecessors, on the same line. Where communication is given, each predecessor has a line of its own instead, with the
time of the transfer: ``predecessor time``. Text after ``#`` is a comment. Tasks are counted from 0 or 1. The dummies at
the entry and exit, which take no time, are left out of the number of tasks and remain operators; some files count both.

Processors are identical. Their number may follow the number of tasks on the first line; otherwise the caller gives it.
All times are taken as seconds. Transfers cost the given time between any two processors, none without communication:
an edge carries that many bytes at 1 byte/s.

Sources: Tobita and Kasahara, Journal of Scheduling 5, 2002; kasahara.cs.waseda.ac.jp/schedule; the form with
communication is that of Hönig and Schiffmann's test bench, PDCS 2004.
"""

from pathlib import Path

from hetgym.errors import ProblemError
from hetgym.problem import Problem
from hetgym.workloads.lines import MOST_DEVICES, MOST_EDGES, MOST_OPERATORS, Line, Lines, checked_devices, cost_table


def read_stg(path: Path, name: str, devices: int | None = None) -> Problem:
    """Read a task graph; the number of processors is that of the file by default.

    Raises:
        ProblemError: the file is missing or unreadable, a number is missing or out of range, there are more or fewer
            tasks than the first line announces, dummies aside, tasks form a cycle, or neither the file nor the caller
            gives the number of processors.
    """
    lines = Lines(path)
    head = lines.take("the number of tasks")
    announced = head.whole(0, "the number of tasks", 1, MOST_OPERATORS)
    if devices is None and len(head.words) < 2:
        raise ProblemError(f"{path}: the file does not say how many processors there are; give devices, their number")
    d = head.whole(1, "the number of processors", 1, MOST_DEVICES) if devices is None else checked_devices(devices)
    dummies = (0, 2) if len(head.words) == 1 else (0, 1)
    times, edges, first = _tasks(lines, announced + dummies[1])
    if len(times) - announced not in dummies:
        raise ProblemError(f"{path}: {announced} tasks are announced, but {len(times)} follow, dummies included")
    if len(times) == announced and len(head.words) == 1 and times[0] == 0 and not _has_exit(times, edges):
        raise ProblemError(
            f"{path}: {announced} tasks are announced, and as many follow with the dummy at the entry, which does not "
            "count: lines are missing at the end"
        )
    cost = cost_table(len(times), d, str(path))
    cost.T[:] = times
    return Problem.from_arrays(
        cost,
        edges,
        operator_names=[f"T{first + i}" for i in range(len(times))],
        device_names=[f"P{k}" for k in range(d)],
        name=name,
    )


def _tasks(lines: Lines, most: int) -> tuple[list[float], list[tuple[int, int, float]], int]:
    """The times of the tasks; ``(predecessor, task, transfer)`` of each edge; the number of the first task."""
    times: list[float] = []
    edges: list[tuple[int, int, float]] = []
    first = 0
    for line in lines:
        if len(times) == most:
            raise line.fail(f"the file continues after {most} tasks, dummies included")
        task = line.whole(0, "the number of a task", 0, MOST_OPERATORS)
        if not times and task == 1:
            first = 1
        if task != first + len(times):
            raise line.fail(f"task {task} stands where task {first + len(times)} is expected")
        times.append(line.number(1, "a time"))
        count = line.whole(2, "the number of predecessors", 0, MOST_EDGES - len(edges))
        if len(line.words) > 3 or count == 0:
            line.exactly(3 + count)
            sources = [(line.whole(3 + k, "a predecessor", first, first + most - 1), 0.0) for k in range(count)]
        else:
            rows = (lines.take(f"predecessor {k + 1} of task {task}") for k in range(count))
            sources = [_predecessor(row, first, first + most - 1) for row in rows]
        edges += [(source - first, task - first, transfer) for source, transfer in sources]
    return times, edges, first


def _has_exit(times: list[float], edges: list[tuple[int, int, float]]) -> bool:
    """True if the last task is a dummy: it takes no time, and all others come before it."""
    return times[-1] == 0 and {source for source, _, _ in edges} == set(range(len(times) - 1))


def _predecessor(line: Line, first: int, last: int) -> tuple[int, float]:
    line.exactly(2)
    return line.whole(0, "a predecessor", first, last), line.number(1, "the time of a transfer")
