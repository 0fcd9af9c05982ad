"""The folder of one run: rows, results, traces and the report."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from hetgym._input.files import atomic_write, check_run_name, write_json
from hetgym._text import file_stem
from hetgym.bench.rows import Row, RowsFile
from hetgym.bench.sink import Sink
from hetgym.errors import ConfigError, check_name
from hetgym.problem import Problem
from hetgym.sim import Trace
from hetgym.workloads import ProblemSpec

TRACES = ("all", "best", "none")
"""Choices of Chrome traces to keep: of every schedule, of the best one of each problem and runtime, or none."""

_FILES = (
    "rows.csv", "results.json", "report.html", "plan.json", "pareto.csv", "pareto.json", "pareto.png", "pareto.svg",
)  # fmt: skip


class RunFolder(Sink):
    """``<root>/<name>/`` with ``rows.csv``, ``results.json``, ``report.html``, ``traces/*.json`` and ``paper/``.

    Args:
        root: folder of all runs; made if it is missing.
        name: name of this run; by default the date and time.
        traces: one of :data:`TRACES`.
        force: True to replace the files of an older run of that name.

    Raises:
        ConfigError: the folder is not empty, cannot be written, or has an impossible name.
        UnknownName: no such choice of traces.
    """

    def __init__(self, root: Path, name: str = "", traces: str = "best", force: bool = False) -> None:
        check_name("choice of traces", traces, TRACES)
        self.path = make_folder(root, name, force)
        self.keep = traces
        self._best: dict[str, Trace] = {}
        self._spec: ProblemSpec | None = None
        try:
            self._clear()
            self._rows = RowsFile(self.path / "rows.csv")
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be written ({error.strerror or error})") from error

    def _clear(self) -> None:
        """Remove what an earlier run left, and nothing else."""
        old = [self.path / file for file in _FILES] + list((self.path / "traces").glob("*.json"))
        old += [file for file in (self.path / "paper").glob("*") if file.suffix in (".csv", ".tex", ".pdf", ".png")]
        for file in old:
            file.unlink(missing_ok=True)

    def problem(self, spec: ProblemSpec, problem: Problem, lower_bound: float) -> None:
        """Write the best traces of the problem before."""
        self._flush_best()
        self._spec = spec

    def rows(self, rows: Sequence[Row]) -> None:
        """Append to ``rows.csv``."""
        self._rows.add(rows)

    def complete(self, rows: Sequence[Row]) -> None:
        """Write the problem's rows again with their gaps, and its best traces."""
        self._rows.complete(rows)
        self._flush_best()

    def trace(self, spec: ProblemSpec, trace: Trace) -> None:
        """Write a trace, or keep it if it is the best so far."""
        if self.keep == "all":
            self._write_trace(spec, trace)
        elif self.keep == "best":
            best = self._best.get(trace.runtime)
            if best is None or trace.makespan < best.makespan:
                self._best[trace.runtime] = trace

    def _flush_best(self) -> None:
        for trace in self._best.values():
            assert self._spec is not None
            self._write_trace(self._spec, trace)
        self._best.clear()

    def _write_trace(self, spec: ProblemSpec, trace: Trace) -> None:
        folder = self.path / "traces"
        folder.mkdir(exist_ok=True)
        name = "__".join(map(file_stem, (spec.name, trace.scheduler, trace.runtime)))
        trace.save_chrome(folder / f"{name}.json")

    def close(self) -> None:
        """Write what is still held back; the run is over, by its end or by Ctrl-C."""
        self._flush_best()
        self._rows.close()

    def write_json(self, name: str, document: dict[str, Any]) -> Path:
        """Write a JSON file and return its path; infinities become null."""
        return write_json(self.path / name, document)

    def write_text(self, name: str, text: str) -> Path:
        """Write a text file, complete or not at all, and return its path."""
        atomic_write(self.path / name, lambda file: file.write(text.encode()))
        return self.path / name


@contextmanager
def naming(path: Path) -> Iterator[Path]:
    """Put a file's name into an :class:`OSError` about it; a full disk gives no name, other errors a temporary one."""
    try:
        yield path
    except OSError as error:
        error.filename = str(path)
        raise


def make_folder(root: Path, name: str = "", force: bool = False) -> Path:
    """The folder of a run; see :class:`RunFolder`, but that files of an earlier run stay."""
    path = root / check_run_name(name) if name else _fresh(root)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()) and not force:
            raise ConfigError(f"{path}: holds an earlier run; choose another --name or add --force")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror or error})") from error
    return path


def _fresh(root: Path) -> Path:
    """A folder named by date and time that does not exist yet."""
    stamp = datetime.now().strftime("%Y-%m-%d-%H%M%S")
    path, number = root / stamp, 2
    while path.exists():
        path, number = root / f"{stamp}-{number}", number + 1
    return path
