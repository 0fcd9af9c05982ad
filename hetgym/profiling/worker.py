"""The process that measures: bound to its cores, capped in its instruction set, replaceable when it hangs.

It reads requests from standard input, one JSON object a line, and answers each with one on standard output:
``{"row": [...]}``, an operator as a row of the table, or ``{"graph": {...}, "rounds": k}``. A parent that
gets no answer in time kills it and starts another.
"""

from __future__ import annotations

import json
import os
import sys
from typing import IO, Any

import numpy as np

from hetgym.errors import UnsupportedOperator
from hetgym.graph.serialization import from_json
from hetgym.measurements.table import COLUMNS, read_rows
from hetgym.profiling.host import HostSettings
from hetgym.profiling.ingraph import GraphRunner
from hetgym.profiling.isolated import Bench


def serve(settings: HostSettings, memory_limit: float, requests: IO[str], answers: IO[str]) -> None:
    """Answer requests until their stream ends.

    Args:
        settings: of this process, whose environment was set before it started.
        memory_limit: beyond this the system refuses memory [byte].
        requests: where they come from.
        answers: where answers go.
    """
    settings.settle()
    _limit_memory(int(memory_limit))
    bench = Bench()
    print(json.dumps({"ready": os.getpid()}), file=answers, flush=True)
    for line in requests:
        request = json.loads(line)
        try:
            answer = _operator(bench, request["row"]) if "row" in request else _graph(request)
        except UnsupportedOperator as error:
            answer = {"status": "unsupported", "why": str(error)}
        except (MemoryError, RuntimeError) as error:  # torch says either when memory is refused
            refused = isinstance(error, MemoryError) or "memory" in str(error).lower()
            answer = {"status": "memory" if refused else "unsupported", "why": str(error).partition("\n")[0]}
        print(json.dumps(answer), file=answers, flush=True)


def _operator(bench: Bench, row: list[str]) -> dict[str, Any]:
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, row])
    (wanted,) = read_rows(text.getvalue(), "request")
    timing = (bench.backward if wanted.direction == "backward" else bench.forward)(wanted.operator)
    return {"status": "ok", "seconds": timing.seconds, "p10": timing.p10, "p90": timing.p90,
            "repetitions": timing.repetitions}  # fmt: skip


def _graph(request: dict[str, Any]) -> dict[str, Any]:
    timing = GraphRunner(from_json(request["graph"])).time(int(request["rounds"]))
    p10, median, p90 = np.quantile(timing.seconds, (0.1, 0.5, 0.9), axis=1)
    wall = np.quantile(timing.wall, (0.1, 0.5, 0.9))
    return {"status": "ok", "seconds": median.tolist(), "p10": p10.tolist(), "p90": p90.tolist(),
            "wall": wall.tolist(), "repetitions": int(request["rounds"])}  # fmt: skip


def _limit_memory(limit: int) -> None:
    try:
        import resource
    except ImportError:  # not on this system; the parent's estimate remains
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def main() -> None:
    """Serve on the standard streams; what libraries print goes to standard error instead."""
    settings = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    host = HostSettings(tuple(settings["cores"]), settings["isa"])
    serve(host, float(settings["memory_limit"]), sys.stdin, answers)


if __name__ == "__main__":
    main()
