"""The report: a self-contained HTML file with tables and Gantt charts, which needs no network."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from hetgym.bench.encode import compact, encode_bound, encode_graph, encode_problem, encode_trace, significant
from hetgym.bench.rows import Row
from hetgym.bench.sink import Sink
from hetgym.problem import Problem
from hetgym.sim import Trace
from hetgym.workloads import ProblemSpec

CHART_BYTES = 5_000_000
"""Most bytes of all charts in a report; if there are more, the schedulers with the largest gaps get no charts."""

MOST_CHARTED = 10_000  # Most operators of a problem whose runs have charts: a page draws as many, and not many more

_SLOT = "{{data}}"
_SCRIPTS = ("report_pareto.js", "report_groups.js")
_COLUMNS = (
    "problem", "platform", "scheduler", "runtime", "makespan_s", "gap_to_best", "gap_to_bound", "slr", "speedup",
    "schedule_seconds", "utilisation", "status",
)  # fmt: skip
_GROUP_COLUMNS = ("group", "runtime", "scheduler", "problems", "gap_to_best", "ratio", "low", "high")


class Gantts(Sink):
    """Keeps every trace of a run in its short form."""

    def __init__(self) -> None:
        self.graphs: dict[str, int] = {}
        self.problems: dict[str, dict[str, Any]] = {}
        self.traces: dict[tuple[str, str, str], str] = {}
        self._bound = 0.0

    def problem(self, spec: ProblemSpec, problem: Problem, lower_bound: float) -> None:
        """Keep the data that all charts of this problem share."""
        if problem.num_operators > MOST_CHARTED:
            return
        graph = encode_graph(problem)
        number = self.graphs.setdefault(graph, len(self.graphs))
        self._bound = lower_bound
        names = {"graph": spec.graph, "platform": spec.platform, "chart": number}
        self.problems[spec.name] = {**names, **encode_problem(problem, lower_bound)}

    def trace(self, spec: ProblemSpec, trace: Trace) -> None:
        """Keep one run."""
        if spec.name not in self.problems:
            return
        self.traces[spec.name, trace.scheduler, trace.runtime] = encode_trace(trace, self._bound)

    def complete(self, rows: Sequence[Row]) -> None:
        """Keep the bound, which a scheduler may have raised."""
        bounds: dict[str, float] = {}
        for row in rows:
            if row.lower_bound_s is not None:
                bounds[row.runtime] = max(bounds.get(row.runtime, 0.0), row.lower_bound_s)
        if bounds and rows[0].problem in self.problems:
            chart = self.problems[rows[0].problem]
            chart["bound"] = encode_bound(min(bounds.values()), chart["quantum"])

    def fitting(self, ranking: list[str], limit: int = CHART_BYTES) -> list[str]:
        """As many schedulers, best first, as have room for all their charts."""
        room = limit - sum(map(len, self.graphs)) - sum(len(compact(p)) for p in self.problems.values())
        chosen = []
        for name in ranking:
            room -= sum(len(text) for (_, scheduler, _), text in self.traces.items() if scheduler == name)
            if room < 0:
                break
            chosen.append(name)
        return chosen


def render(document: dict[str, Any], gantts: Gantts) -> str:
    """The report of a run as text, of the content of ``results.json`` and the charts."""
    folder = files("hetgym.bench")
    template = folder.joinpath("report.html").read_text(encoding="utf-8")
    scripts = "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)
    before, _, after = template.replace("{{scripts}}", scripts).partition(_SLOT)
    return before + embedded(_data(document, gantts)) + after


def embedded(data: str) -> str:
    r"""Escape JSON for use inside a ``<script>`` element, so that no text in it can close the element.

    >>> print(embedded('["</script>"]'))
    ["\u003c/script>"]
    """
    return data.replace("<", "\\u003c")


def _data(document: dict[str, Any], gantts: Gantts) -> str:
    """Everything that the page shows, as JSON."""
    ranking = list(dict.fromkeys(line["scheduler"] for line in document["summary"]))
    charted = gantts.fitting(ranking)
    fields = {key: compact(value) for key, value in document.items() if key not in ("rows", "format", "version")}
    fields["columns"] = compact(_COLUMNS)
    fields["rows"] = compact([[_cell(row[column]) for column in _COLUMNS] for row in document["rows"]])
    fields["group_columns"] = compact(_GROUP_COLUMNS)
    fields["groups"] = compact(
        {
            by: [[_cell(line[column]) for column in _GROUP_COLUMNS] for line in lines]
            for by, lines in document["groups"].items()
        }
    )
    fields["charted"] = compact(charted)
    fields["graphs"] = f"[{','.join(gantts.graphs if charted else [])}]"
    fields["charts"] = compact(gantts.problems if charted else {})
    traces = [f"{compact('/'.join(key))}:{text}" for key, text in gantts.traces.items() if key[1] in charted]
    fields["traces"] = "{" + ",".join(traces) + "}"
    return "{" + ",".join(f"{compact(key)}:{text}" for key, text in fields.items()) + "}"


def _cell(value: Any) -> Any:
    return significant(value) if isinstance(value, float) else value
