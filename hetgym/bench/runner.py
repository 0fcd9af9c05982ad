"""The runner: every scheduler on every problem, validated and simulated under every runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from time import perf_counter
from typing import TYPE_CHECKING

from hetgym._text import brief
from hetgym.bench.case import Case
from hetgym.bench.executor import Batch, Executor, Here
from hetgym.bench.loop import Loop, Tell
from hetgym.bench.rows import COLUMNS, Row
from hetgym.bench.sink import Sink
from hetgym.errors import ConfigError, require, shown
from hetgym.planning import Baseline, get
from hetgym.problem import Problem
from hetgym.sim import runtime as as_runtime
from hetgym.workloads import ProblemSpec

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass
class Result:
    """The findings of a run."""

    runtimes: tuple[str, ...]  # the runtimes, in the requested order
    schedulers: tuple[str, ...]  # the schedulers, in the requested order
    rows: list[Row] = field(default_factory=list)  # one for each problem, scheduler and runtime that was finished
    interrupted: bool = False  # True if the run was stopped before its end
    seconds: float = 0.0  # wall time of the run [s]

    __repr__ = brief

    @property
    def failures(self) -> list[Row]:
        """Rows whose scheduler failed."""
        return [row for row in self.rows if not row.ok]

    def to_pandas(self) -> DataFrame:
        """The rows as a table of pandas, a column for each attribute of :class:`Row`; missing numbers are NaN."""
        pandas = require("pandas", "papers", "Result.to_pandas")
        columns = {name: [getattr(row, name) for row in self.rows] for name in COLUMNS}
        table: DataFrame = pandas.DataFrame(columns)
        numbers = [field.name for field in fields(Row) if "float" in str(field.type)]
        return table.astype(dict.fromkeys(numbers, "float64"))


def run(
    specs: Sequence[ProblemSpec | Problem],
    schedulers: Sequence[str | Baseline],
    runtimes: Sequence[str] = ("classic", "links"),
    sink: Sink | None = None,
    progress: Tell | None = None,
    executor: Executor | None = None,
) -> Result:
    """Run schedulers over problems.

    A scheduler that raises, or whose schedule the validator refuses, makes a row that says so; the run
    continues. On Ctrl-C the rows that are finished are returned, marked as interrupted.

    Args:
        specs: the problems, or specifications, each built when its turn comes. A problem
            has a name of its own.
        schedulers: names, or table rows such as ``hetgym.baselines.get("cpgc", budget=0)``.
        runtimes: names of runtimes, presets or with changes as in ``"links,streams=2"``.
        sink: receives rows and traces as they come; by default nothing does.
        progress: called before every schedule and at the end.
        executor: runs the schedulers; by default this process does, one after the other.

    Raises:
        UnknownName: no scheduler, or no runtime, of that name.
        ConfigError: something other than a problem, or a problem or scheduler with the name of another.

    >>> from hetgym.workloads import ProblemSpec
    >>> result = run([ProblemSpec.textbook("topcuoglu")], ["heft", "single-device"], ["classic"])
    >>> [(row.scheduler, row.makespan_s) for row in result.rows]
    [('heft', 80.0), ('single-device', 127.0)]
    """
    if isinstance(runtimes, str):
        raise ConfigError(f"runtimes is {shown(runtimes)}; give a list of names")
    for runtime in runtimes:
        as_runtime(runtime)
    chosen = as_specs(specs)
    table = [get(item) if isinstance(item, str) else item for item in schedulers]
    _all_differ("schedulers", [row.name for row in table])
    loop = Loop(runtimes, len(chosen) * len(table), sink, progress)
    result = Result(loop.runtimes, tuple(row.name for row in table), loop.rows)

    def batches() -> Iterator[Batch]:
        for spec in chosen:
            loop.step(spec.name)
            yield Batch(Case.of(spec, loop.runtimes), table)

    began = perf_counter()
    try:
        loop.run(batches(), executor or Here())
        loop.step()
    except KeyboardInterrupt:
        result.interrupted = True
    result.seconds = perf_counter() - began
    return result


def as_specs(items: Sequence[ProblemSpec | Problem]) -> list[ProblemSpec]:
    """Specifications of problems, those of existing problems by their names."""
    specs: list[ProblemSpec] = []
    for item in items:
        if isinstance(item, Problem):
            specs.append(ProblemSpec.held(item))
        elif isinstance(item, ProblemSpec):
            specs.append(item)
        else:
            raise ConfigError(f"expected a Problem or a ProblemSpec, got {shown(item)}")
    _all_differ("problems", [spec.name for spec in specs])
    return specs


def _all_differ(what: str, names: list[str]) -> None:
    """Refuse two problems or schedulers of the same name, which rows could not tell apart."""
    for name, count in Counter(names).items():
        if count > 1:
            raise ConfigError(f"two {what} are called {shown(name)}; give one another name by replace(name=...)")
