"""Parts that benchmarks and studies share: command line, problems of any size, timing, and tables with their JSON."""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from hetgym import Problem

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the plain-Python oracle is the peer

_shown: list[dict[str, Any]] = []  # tables that this process has printed

SIZES = (100, 1_000, 10_000, 100_000)


def command_line(doc: str | None, json: bool = True) -> argparse.ArgumentParser:
    """The parser of a script's arguments.

    Args:
        doc: the script's docstring.
        json: also take ``--json FILE``, where :func:`save` writes the numbers.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if json:
        parser.add_argument("--json", type=Path, help="file for the numbers")
    return parser


def random_problem(operators: int, devices: int, seed: int = 0) -> Problem:
    """A graph like unrolled networks: about three inputs per operator, from among the preceding hundred operators."""
    rng = np.random.default_rng(seed)
    target = np.repeat(np.arange(1, operators), 3)
    source = np.maximum(0, target - rng.integers(1, 101, len(target)))
    pairs = np.unique(np.stack([source, target], axis=1), axis=0)
    size = rng.uniform(0.0, 10.0, len(pairs))
    return Problem.from_arrays(
        rng.uniform(1.0, 10.0, (operators, devices)),
        [(int(i), int(j), float(s)) for (i, j), s in zip(pairs, size, strict=True)],
        latency=0.1,
        bandwidth=rng.uniform(0.5, 4.0, (devices, devices)),
        name=f"random-{operators}x{devices}",
    )


def median_seconds(call: Callable[[], Any], repeats: int = 7, budget: float = 20.0) -> float:
    """Median wall time of a call after one warm-up; at least three runs, and no further ones after the budget [s]."""
    call()
    times: list[float] = []
    while len(times) < repeats and (len(times) < 3 or sum(times) < budget):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def seconds(value: float | None) -> str:
    """Format a time in a suitable unit; a dash if there is none."""
    if value is None:
        return "-"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def ends(low: float | None, high: float | None, form: str = ".4f") -> str:
    """Format an interval; a dash where a single problem gives none."""
    return "-" if low is None or high is None else f"{low:{form}} to {high:{form}}"


def show(
    title: str, rows: list[dict[str, Any]], columns: dict[str, Callable[[dict[str, Any]], str]], name: str = ""
) -> None:
    """Print one table, a row for each result; :func:`save` writes its cells beside the numbers.

    Args:
        name: of the table in the result that is made of it; by default from the title.
    """
    cells = [[cell(row) for cell in columns.values()] for row in rows]
    name = name or re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    _shown.append({"name": name, "title": title[:1].upper() + title[1:], "columns": list(columns), "rows": cells})
    table = Table(title=title)
    for name in columns:
        table.add_column(name, justify="left" if name == "what" else "right")
    for line in cells:
        table.add_row(*line)
    Console(width=None if sys.stdout.isatty() else 240).print(table)


def save(path: Path | None, benchmark: str, rows: list[dict[str, Any]]) -> None:
    """Write the numbers, and the tables that were shown, from which ``docs/results.py record`` makes a result."""
    if path is not None:
        document = {"benchmark": benchmark, "unit": "s", "rows": rows, "tables": _shown}
        path.write_text(json.dumps(document, indent=1) + "\n")
