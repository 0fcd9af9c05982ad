"""The figures and tables of a paper: ``paper/`` in the folder of a run."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hetgym.bench.evaluation import Findings
from hetgym.bench.folder import RunFolder, naming
from hetgym.bench.paper_pictures import WIDTH, draw_boxes, draw_profiles, draw_ranks
from hetgym.bench.profiles import profiles
from hetgym.bench.rows import Row
from hetgym.bench.sink import Sink
from hetgym.bench.summary import Line, finished
from hetgym.bench.typeset import against_tables, group_tables, profile_tables, rank_tables, summary_tables
from hetgym.sim import Trace
from hetgym.workloads import ProblemSpec

FORMATS = ("pdf", "png")  # Formats of each picture: one for LaTeX, one to look at


FEW = 4  # Most devices of a problem whose Gantt chart fits on a page beside text


class Showpiece(Sink):
    """Keeps one schedule for each runtime: the best of the problem on which scheduling gains most.

    Problems of few devices go first, since a chart has a row for each pair of devices that exchange data.
    """

    def __init__(self) -> None:
        self.traces: dict[str, Trace] = {}  # runtime -> the schedule
        self._gain: dict[str, tuple[bool, float]] = {}
        self._current: dict[str, Trace] = {}

    def trace(self, spec: ProblemSpec, trace: Trace) -> None:
        """Keep the shortest schedule of the current problem."""
        best = self._current.get(trace.runtime)
        if best is None or trace.makespan < best.makespan:
            self._current[trace.runtime] = trace

    def complete(self, rows: Sequence[Row]) -> None:
        """Compare the problem's largest speed-up with that of the problems before."""
        for runtime, trace in self._current.items():
            speedup = max((row.speedup or 0.0 for row in rows if row.runtime == runtime), default=0.0)
            gain = trace.problem.num_devices <= FEW, speedup
            if gain > self._gain.get(runtime, (False, 0.0)):
                self._gain[runtime], self.traces[runtime] = gain, trace
        self._current = {}


def write_paper(
    folder: RunFolder,
    title: str,
    rows: Sequence[Row],
    summary: Sequence[Line],
    findings: Findings,
    showpiece: Showpiece,
) -> Path:
    """Write every table as CSV and LaTeX, and every picture as PDF and PNG; return the folder ``paper/``.

    Raises:
        MissingExtra: matplotlib is not installed.
        OSError: a file cannot be written.
    """
    target = folder.path / "paper"
    with naming(target):
        target.mkdir(exist_ok=True)
    ranking = list(dict.fromkeys(line.scheduler for line in summary))
    curves = profiles(rows)
    tables = [
        *summary_tables(summary, title),
        *against_tables(findings.against, title),
        *group_tables(findings.groups, title, ranking),
        *profile_tables(curves, title, ranking),
        *rank_tables(findings.rankings, title),
    ]
    for table in tables:
        folder.write_text(f"paper/{table.name}.csv", table.to_csv())
        folder.write_text(f"paper/{table.name}.tex", table.to_latex())
    whole = finished(rows)
    for runtime in dict.fromkeys(line.runtime for line in summary):
        ordered = [line.scheduler for line in summary if line.runtime == runtime]
        mine = {p.scheduler: p for p in curves if p.runtime == runtime}
        gaps = {
            name: [
                r.gap_to_best
                for r in whole
                if (r.runtime, r.scheduler) == (runtime, name) and r.gap_to_best is not None
            ]
            for name in ordered
        }
        pictures: dict[str, Callable[[Path], Any]] = {
            "profiles": partial(draw_profiles, [mine[name] for name in ordered]),
            "boxes": partial(draw_boxes, gaps),
        }
        for found in findings.rankings:
            if found.runtime == runtime:
                pictures["ranks"] = partial(draw_ranks, found)
        if runtime in showpiece.traces:
            pictures["schedule"] = partial(showpiece.traces[runtime].gantt, size=(WIDTH, None), dpi=200)
        for name, draw in pictures.items():
            for suffix in FORMATS:
                with naming(target / f"{name}-{runtime}.{suffix}") as path:
                    draw(path)
    return target
