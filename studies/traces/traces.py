"""Replay of profilers' traces against what they recorded, and what changes of them would give.

    python studies/traces/traces.py --data HolisticTraceAnalysis/tests/data --data kineto/tb_plugin/samples
    python studies/traces/traces.py --data param/dlrm_kineto --together

Every ``.json``, ``.json.gz`` and ``.et`` below a folder is tried; what is no trace with times, or a copy of another
one, is listed. The measured span is computed here from the raw file, from the first start to the last finish of all
complete events but the profiler's own window; the ranks of one run must share a clock. ``replayed`` simulates the
measured graph: it must agree. ``dependencies alone`` leaves out all pauses of devices that no dependency explains:
durations, launches, streams and waits must account for the span by themselves. The last columns are the spans of
changed graphs, as shares of the replayed one: all-reduces or all collectives twice as fast, kernels and fills 1.5
times as fast, hosts twice as fast, no time for dispatch, and the longest busy time of a stream, which bounds it.
Every graph is also scaled by 1, which must change nothing.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hetgym import HetgymError, simulate
from hetgym.graph import MeasuredGraph, from_trace
from hetgym.workloads import replay

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from _common import command_line, save, seconds, show  # noqa: E402

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "all-to-all", "send-recv", "collective")
NO_COMPUTE = ("idle", "memcpy", "rendezvous")
"""Kinds that a faster device leaves alone; collectives belong to the network."""

SUFFIXES = (".json", ".json.gz", ".et", ".et.gz")


def recorded(path: Path) -> tuple[int, float, float]:
    """Number of events, first start and last finish [s], read without any code of hetgym; NaN if there are no times."""
    data = path.read_bytes()
    if path.name.endswith((".et", ".et.gz")):
        return 0, np.nan, np.nan
    document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    if isinstance(document, dict) and "traceEvents" not in document:
        return 0, np.nan, np.nan
    rows = document["traceEvents"] if isinstance(document, dict) else document
    events = [row for row in rows if row.get("ph") == "X" and row.get("dur", -1) >= 0 and row.get("cat") != "Trace"]
    base = document.get("baseTimeNanoseconds", 0) * 1e-3 if isinstance(document, dict) else 0.0
    first, last = min(row["ts"] for row in events), max(row["ts"] + row["dur"] for row in events)
    return len(events), (base + first) * 1e-6, (base + last) * 1e-6


def makespan(graph: MeasuredGraph) -> float:
    """Of the replay [s]."""
    return simulate(*replay(graph)).makespan


def row_of(paths: list[Path], name: str) -> dict[str, Any]:
    """One row: a trace, or the traces of all ranks of a run."""
    graph = from_trace(paths)  # first, since it refuses what is no trace
    counts, firsts, lasts = zip(*[recorded(path) for path in paths], strict=True)
    replayed = makespan(graph)
    if makespan(graph.scaled(1)) != replayed:
        raise SystemExit(f"{name}: scaled by 1, the graph takes another time")
    measured = None if np.isnan(firsts).any() else max(lasts) - min(firsts)
    row: dict[str, Any] = {
        "what": name,
        "events": sum(counts),
        "nodes": len(graph.names),
        "measured": measured,
        "replayed": replayed,
        "error": None if measured is None else replayed / measured - 1,
        "alone": None if measured is None else makespan(graph.explained()) / measured - 1,
    }
    present = [kind for kind in COLLECTIVES if kind in graph.kinds]
    if present:
        row["collectives"] = makespan(graph.scaled(0.5, kind=present)) / replayed
    if "all-reduce" in present:
        row["all-reduces"] = makespan(graph.scaled(0.5, kind="all-reduce")) / replayed
    if not graph.host.all():
        kinds = {graph.kinds[i] for i in np.flatnonzero(graph.select(host=False))} - {*present, *NO_COMPUTE}
        row["hosts"] = makespan(graph.scaled(0.5, host=True)) / replayed
        row["devices"] = makespan(graph.scaled(1 / 1.5, kind=sorted(kinds), host=False)) / replayed
        bare, busy = makespan(graph.without_dispatch()), float(graph.busy()[~graph.host].max())
        if bare < busy * (1 - 1e-9):
            raise SystemExit(f"{name}: without dispatch the graph takes less time than a stream is busy")
        row |= {"no dispatch": bare / replayed, "busy": busy / replayed}
    return row


def key(row: dict[str, Any]) -> tuple[int, float]:
    """What tells runs apart: repositories hold several copies of some traces."""
    return row["events"], round(row["measured"] or 0.0, 7)


def percent(value: float | None, digits: int = 1) -> str:
    """A share in percent; a dash if there is none."""
    return "-" if value is None else f"{100 * value:.{digits}f} %"


COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "what": lambda row: row["what"],
    "events": lambda row: str(row["events"] or "-"),
    "nodes": lambda row: str(row["nodes"]),
    "measured": lambda row: seconds(row["measured"]),
    "replayed": lambda row: seconds(row["replayed"]),
    "error": lambda row: percent(row["error"], 4),
    "dependencies alone": lambda row: percent(row["alone"], 2),
    "all-reduces x2": lambda row: percent(row.get("all-reduces")),
    "collectives x2": lambda row: percent(row.get("collectives")),
    "devices x1.5": lambda row: percent(row.get("devices")),
    "hosts x2": lambda row: percent(row.get("hosts")),
    "no dispatch": lambda row: percent(row.get("no dispatch")),
    "busy": lambda row: percent(row.get("busy")),
}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--data", type=Path, action="append", required=True, help="folder or file; may be repeated")
    parser.add_argument("--together", action="store_true", help="read the files of a folder as the ranks of one run")
    parser.add_argument("--markdown", type=Path, help="file for the table")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for place in options.data:
        found = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.name.endswith(SUFFIXES))
        for paths in [found] if options.together else [[path] for path in found]:
            name = str(place.name if options.together else paths[0].relative_to(place.parent))
            try:
                row = row_of(paths, name)
            except HetgymError as error:
                print(f"{name}: {error}")
                continue
            same = next((other["what"] for other in rows if row["measured"] and key(other) == key(row)), None)
            if same is None:
                rows.append(row)
            else:
                print(f"{name}: the same run as {same}")
    show("Traces, replayed", rows, COLUMNS)
    for column, what in (("error", "replayed"), ("alone", "dependencies alone")):
        errors = np.array([row[column] for row in rows if row[column] is not None])
        if len(errors):
            print(
                f"{what}: n = {len(errors)}, mean |error| {100 * np.abs(errors).mean():.3f} %, median "
                f"{100 * np.median(np.abs(errors)):.3f} %, P90 {100 * np.quantile(np.abs(errors), 0.9):.3f} %, worst "
                f"{100 * np.abs(errors).max():.3f} %, median signed {100 * np.median(errors):+.3f} %"
            )
    save(options.json, "traces", rows)
    if options.markdown is not None:
        cells = [[cell(row) for cell in COLUMNS.values()] for row in rows]
        lines = [list(COLUMNS), ["---", *["---:"] * (len(COLUMNS) - 1)], *cells]
        options.markdown.write_text("".join(f"| {' | '.join(line)} |\n" for line in lines))


if __name__ == "__main__":
    main()
