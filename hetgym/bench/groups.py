"""Results by group of problems: family, size, number of devices, CCR or platform."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hetgym.bench.comparison import compare_table
from hetgym.bench.rows import Row
from hetgym.bench.sink import Sink
from hetgym.bench.summary import finished
from hetgym.errors import unknown_name
from hetgym.metrics import arithmetic_mean, ratio
from hetgym.problem import Problem
from hetgym.workloads import ProblemSpec

SIZES = (50, 150, 500, 1500)  # Largest numbers of operators of the groups by size
CCRS = (0.3, 3.0)  # Largest communication-to-computation ratios of the groups by CCR: half a decade around 1


class Traits(Sink):
    """Collects properties of problems that rows do not contain.

    Attributes:
        ccr: problem's name -> mean transfer between devices over mean run time (Topcuoglu 2002, section 6.1).
    """

    def __init__(self) -> None:
        self.ccr: dict[str, float] = {}

    def problem(self, spec: ProblemSpec, problem: Problem, lower_bound: float) -> None:
        """Note the traits of a problem."""
        transfer = float(problem.mean_communication.mean()) if problem.num_edges else 0.0
        self.ccr[spec.name] = ratio(transfer, float(problem.mean_cost.mean()))


def _binned(value: float, edges: Sequence[float], step: float) -> tuple[int, str]:
    """The number and the name of the group in which a value falls."""
    k = sum(value > edge for edge in edges)
    if k == len(edges):
        return k, f"over {edges[-1]:g}"
    return k, f"{edges[k - 1] + step:g} to {edges[k]:g}" if k else f"up to {edges[0]:g}"


def _family(row: Row, traits: Traits) -> tuple[int, str]:
    """The network or the generator: the part of the graph's name before batch, transforms and parameters."""
    return 0, "textbook" if row.platform == "textbook" else row.graph.partition("-")[0]


def _ccr(row: Row, traits: Traits) -> tuple[int, str]:
    return _binned(traits.ccr[row.problem], CCRS, 0) if row.problem in traits.ccr else (-1, "unknown")


COLUMNS: dict[str, Callable[[Row, Traits], tuple[int, str]]] = {
    "family": _family,
    "size": lambda row, _: _binned(row.n, SIZES, 1),
    "devices": lambda row, _: (row.devices, str(row.devices)),
    "ccr": _ccr,
    "platform": lambda row, _: (0, row.platform or "-"),
}
"""Properties by which problems can be grouped."""


@dataclass(frozen=True)
class GroupLine:
    """Results of one scheduler on one group of problems under one runtime."""

    by: str  # one of COLUMNS
    group: str  # its value
    # runtime, scheduler, kind: names
    runtime: str
    scheduler: str
    kind: str
    problems: int  # number of problems of the group that were scheduled
    gap_to_best: float | None  # arithmetic mean; None if nothing succeeded
    ratio: float | None = None  # geometric mean of the makespans over the reference's; None without a reference
    # low, high: 95 % interval of the ratio; None for a single problem
    low: float | None = None
    high: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready mapping, without the column, which is the key of its list."""
        return {key: value for key, value in vars(self).items() if key != "by"}


def pick_columns(text: str) -> tuple[str, ...]:
    """Columns from a comma-separated list; ``all`` stands for all.

    Raises:
        UnknownName: problems cannot be grouped by that.

    >>> pick_columns("size, platform")
    ('size', 'platform')
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    chosen = list(COLUMNS) if words == ["all"] else list(dict.fromkeys(words))
    for name in chosen:
        if name not in COLUMNS:
            raise unknown_name("column to group by", name, [*COLUMNS, "all"])
    return tuple(chosen)


def grouped(rows: Iterable[Row], traits: Traits, columns: Sequence[str], reference: str = "") -> list[GroupLine]:
    """One line for each column of :data:`COLUMNS`, group, runtime and scheduler; unfinished problems are left out.

    Ratios are to the makespans of ``reference``; without one (empty) there are none.
    """
    whole = finished(rows)
    lines: list[GroupLine] = []
    for column in columns:
        labels = {row: COLUMNS[column](row, traits) for row in whole if row.n}
        for _, group in _ordered(labels.values()):
            for runtime in dict.fromkeys(row.runtime for row in whole):
                mine = [row for row, label in labels.items() if label[1] == group and row.runtime == runtime]
                lines += _lines(column, group, runtime, mine, reference)
    return lines


def _ordered(labels: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """Each label once, by number; those of one number in order of appearance."""
    return sorted(dict.fromkeys(labels), key=lambda label: label[0])


def _lines(by: str, group: str, runtime: str, rows: Sequence[Row], reference: str) -> list[GroupLine]:
    table: dict[str, dict[str, float]] = {}
    for row in rows:
        table.setdefault(row.scheduler, {})
        if row.makespan_s is not None:
            table[row.scheduler][row.problem] = row.makespan_s
    compared = compare_table(table, reference) if reference in table else {}
    lines = []
    for scheduler in table:
        good = [row for row in rows if row.scheduler == scheduler and row.ok]
        gaps = [row.gap_to_best for row in good if row.gap_to_best is not None]
        found = compared.get(scheduler)
        ratio = (found.ratio, found.low, found.high) if found else (None, None, None)
        kind = next(row.kind for row in rows if row.scheduler == scheduler)
        gap = arithmetic_mean(gaps) if gaps else None
        lines.append(GroupLine(by, group, runtime, scheduler, kind, len(good), gap, *ratio))
    return lines
