"""Gantt charts in plain characters, for runs of few operators."""

from hetgym._text import plain
from hetgym.sim import Trace

COLUMNS = 80  # Characters between time 0 and the end of a chart
MOST = 40  # Most operators of a chart that can be read


def chart(trace: Trace, until: float) -> list[str]:
    """A line for each device with its operators, and one for each pair of devices with the transfers between them.

    An operator is a box with its name, ``[a---]``; a transfer is ``a....>`` with the name of its source. What is too
    short for its name is cut, and what is shorter than a character is left out. ``until`` is at the right edge [s].
    """
    p = trace.problem
    names, operators = ([plain(name) for name in listed] for listed in (p.device_names, p.operator_names))
    lines = {name: [" "] * COLUMNS for name in names}

    def enter(row: str, start: float, finish: float, first: str, middle: str, last: str) -> None:
        a, b = (min(round(COLUMNS * moment / until), COLUMNS) if until > 0 else 0 for moment in (start, finish))
        box = first[: b - a - 1].ljust(b - a - 1, middle) + last
        lines.setdefault(row, [" "] * COLUMNS)[a:b] = box if b - a > 1 else "|" * (b - a)

    for i in trace.start.argsort(kind="stable").tolist():
        row = names[trace.assignment[i]]
        enter(row, float(trace.start[i]), float(trace.finish[i]), f"[{operators[i]}", "-", "]")
    for t in trace.transfers:
        source = operators[trace.problem.edge_source[t.edge]]
        enter(f"{names[t.source]} > {names[t.target]}", t.start, t.finish, source, ".", ">")
    width = max(map(len, lines))
    return [f"{row:<{width}}  {''.join(line)}".rstrip() for row, line in lines.items()]
