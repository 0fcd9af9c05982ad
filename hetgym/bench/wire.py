"""Attempts as plain arrays, for processes that share no memory; :mod:`hetgym.workloads.packing` is for problems."""

from typing import Any

import numpy as np

from hetgym._types import frozen
from hetgym.bench.attempt import Attempt
from hetgym.problem import Problem
from hetgym.sim import Trace
from hetgym.sim.runtime import runtime
from hetgym.sim.simulation import at_speed

Packed = dict[str, Any]  # Words, numbers, lists and arrays; no class of ours

_TIMES = ("start", "finish", "sent", "arrived")


def pack_attempt(made: Attempt) -> Packed:
    """An attempt without its problem, which the receiver has."""
    traces = {runtime: _pack_trace(trace) for runtime, trace in made.traces.items()}
    tables = {"seconds": dict(made.seconds), "bounds": dict(made.bounds), "failures": dict(made.failures)}
    return {"status": made.status, "traces": traces} | tables


def unpack_attempt(packed: Packed, problem: Problem) -> Attempt:
    """The same attempt, on the receiver's problem."""
    traces = {runtime: _unpack_trace(fields, problem) for runtime, fields in packed["traces"].items()}
    return Attempt(**packed | {"traces": traces})


def _pack_trace(trace: Trace) -> Packed:
    order = np.concatenate(trace.order) if trace.order else np.empty(0, np.int32)
    ends = np.cumsum([len(row) for row in trace.order], dtype=np.int64)
    words = {"runtime": trace.runtime, "scheduler": trace.scheduler}
    arrays = {"assignment": trace.assignment, "order": order, "ends": ends, "speed": trace.speed}
    return words | arrays | {name: getattr(trace, name) for name in _TIMES}


def _unpack_trace(fields: Packed, problem: Problem) -> Trace:
    """A trace of its own arrays: what was received may lie in memory that goes away with a connection."""
    speed = None if fields["speed"] is None else np.array(fields["speed"])
    rows = np.split(fields["order"], fields["ends"][:-1]) if len(fields["ends"]) else []
    return Trace(
        problem=at_speed(problem, speed),
        assignment=np.array(fields["assignment"]),
        **{name: np.array(fields[name]) for name in _TIMES},
        runtime=fields["runtime"],
        scheduler=fields["scheduler"],
        switches=runtime(fields["runtime"]),
        order=tuple(frozen(np.array(row)) for row in rows),
        speed=speed,
    )
