"""Traces as compact JSON, from which the report's Gantt charts are drawn.

All times of a problem are whole multiples of one quantum, which keeps five significant digits of its lower bound. Times
that the page can compute itself (run times, transfer times) are left out.
"""

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._text import plain_values
from hetgym.problem import Problem
from hetgym.sim import Trace

DIGITS = 5  # Significant digits of the times in a report

_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


def quantum(lower_bound: float) -> float:
    """The unit of time of one problem's charts [s].

    >>> quantum(80.0), quantum(0.0)
    (0.001, 1.0)
    """
    return float(f"1e{math.floor(math.log10(lower_bound)) + 1 - DIGITS}") if lower_bound > 0 else 1.0


def significant(value: float, digits: int = DIGITS) -> float | int:
    """A number rounded to some significant digits, whole if it then is.

    >>> significant(123456.7), significant(0.00123456)
    (123460, 0.0012346)
    """
    if not math.isfinite(value):
        return -1
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


def encode_graph(problem: Problem) -> str:
    """Operators and edges, which all platforms of a graph share; ``tensor`` only where edges share one.

    ``shared`` holds the readers and bytes of weights that several operators read; a device holds one copy of each.
    """
    kinds = sorted(set(problem.operator_kinds))
    fields: dict[str, Any] = {
        "ops": list(problem.operator_names),
        "kinds": kinds,
        "kind": [kinds.index(kind) for kind in problem.operator_kinds],
        "source": deltas(problem.edge_source),
        "target": problem.edge_target.tolist(),
        "bytes": [significant(size) for size in problem.edge_bytes.tolist()],
        "weights": [significant(size) for size in problem.weight_bytes.tolist()],
        "outputs": [significant(size) for size in problem.output_bytes.tolist()],
    }
    if len(problem.shared_weights.size):
        fields["shared"] = [[readers, significant(size)] for readers, size in problem.shared_weights.pairs()]
    if len(np.unique(problem.edge_tensor)) < problem.num_edges:
        fields["tensor"] = deltas(problem.edge_tensor)
    return compact(fields)


def encode_problem(problem: Problem, lower_bound: float) -> dict[str, Any]:
    """Devices, run times, links and memories; times in quanta, -1 for what is infinite."""
    unit = quantum(lower_bound)
    return {
        "devices": list(problem.device_names),
        "quantum": unit,
        "bound": encode_bound(lower_bound, unit),
        "cost": [[significant(x / unit, 4) for x in column] for column in problem.cost.T.tolist()],
        "latency": [[significant(x / unit, 4) for x in row] for row in problem.latency.tolist()],
        "rate": [[significant(x * unit) for x in row] for row in problem.bandwidth.tolist()],
        "memory": [significant(size) for size in problem.memory_capacity.tolist()],
    }


def encode_bound(lower_bound: float, unit: float) -> float | int:
    """A lower bound on the makespan [s] in quanta [s]."""
    return significant(lower_bound / unit, DIGITS + 1)


def encode_trace(trace: Trace, lower_bound: float) -> str:
    """Encode one run: ``a`` devices, ``s`` starts, ``w`` the time for which each transfer waited for its link.

    ``d`` and ``t`` (run and transfer times) are included only if the runtime changed them, ``c`` only if readers of a
    tensor on one device share a copy of it.
    """
    p, unit = trace.problem, quantum(lower_bound)
    n = p.num_operators
    devices = trace.assignment.tolist()
    small = p.num_devices <= len(_LETTERS)
    fields: dict[str, Any] = {
        "a": "".join(_LETTERS[d] for d in devices) if small else devices,
        "s": deltas(_quanta(trace.start, unit)),
        "m": significant(trace.makespan / unit, DIGITS + 1),
    }
    duration = trace.finish - trace.start
    if not np.allclose(duration, p.cost[np.arange(n), trace.assignment], rtol=1e-6, atol=unit / 10):
        fields["d"] = _quanta(duration, unit).tolist()
    if trace.switches.transfers == "cached":
        fields["c"] = 1
    edges = np.flatnonzero(trace.remote)
    waits = _quanta(trace.sent[edges] - trace.finish[p.edge_source[edges]], unit)
    if waits.any():
        fields["w"] = waits.tolist()
    here, there = trace.assignment[p.edge_source[edges]], trace.assignment[p.edge_target[edges]]
    travel = trace.arrived[edges] - trace.sent[edges]
    expected = p.latency[here, there] + p.edge_bytes[edges] / p.bandwidth[here, there]
    if not np.allclose(travel, expected, rtol=1e-6, atol=unit / 10):
        fields["t"] = _quanta(travel, unit).tolist()
    return compact(fields)


def deltas(values: npt.NDArray[Any]) -> list[int]:
    """The first value, then differences: neighbouring values are close, so the numbers are short.

    >>> deltas(np.array([5, 7, 6]))
    [5, 2, -1]
    """
    items: list[int] = values.tolist()
    return items[:1] + [b - a for a, b in pairwise(items)]


def compact(value: Any) -> str:
    """JSON without blanks, and with plain texts."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    if text.isprintable() and "\\u" not in text and "\\n" not in text:
        return text
    return json.dumps(plain_values(value), separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def _quanta(times: npt.NDArray[np.float64], unit: float) -> npt.NDArray[np.int64]:
    return np.rint(times / unit).astype(np.int64)
