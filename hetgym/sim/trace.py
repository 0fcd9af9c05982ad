"""Trace: what a simulation did, when and where."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hetgym._files import atomic_write
from hetgym._types import BoolArray, FloatArray, IntArray
from hetgym.problem import Problem
from hetgym.sim.blame import Blame, blame
from hetgym.sim.memory import MemoryUse, memory_use
from hetgym.sim.runtime import Runtime

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Transfer(NamedTuple):
    """One tensor on its way between two devices."""

    edge: int
    source: int
    target: int
    start: float
    finish: float


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything that happened in one run.

    Attributes:
        problem: what ran.
        assignment: [n] device of each operator.
        start, finish: [n] of each operator [s].
        sent, arrived: [e] begin and end of each edge's transfer [s]; equal if it stayed on a device.
        runtime: name of the runtime.
        scheduler: name of what made the schedule.
        switches: of the runtime.
        order: for each device its operators in the order in which they were launched; empty if nobody
            wrote it down. Times alone do not tell it where operators take none.
    """

    problem: Problem
    assignment: IntArray
    start: FloatArray
    finish: FloatArray
    sent: FloatArray
    arrived: FloatArray
    runtime: str
    scheduler: str = ""
    switches: Runtime = field(default_factory=Runtime)
    order: tuple[IntArray, ...] = ()

    @property
    def makespan(self) -> float:
        """Finish of the last operator [s]."""
        return float(self.finish.max())

    @property
    def remote(self) -> BoolArray:
        """[e] whether an edge crosses between two devices; not while one of its ends has device -1."""
        a, b = self.assignment[self.problem.edge_source], self.assignment[self.problem.edge_target]
        return np.not_equal(a, b) & (a >= 0) & (b >= 0)

    @property
    def transfers(self) -> list[Transfer]:
        """All transfers between devices, by start."""
        p = self.problem
        edges = np.flatnonzero(self.remote)
        edges = edges[np.argsort(self.sent[edges], kind="stable")]
        return [
            Transfer(
                int(k), int(self.assignment[p.edge_source[k]]), int(self.assignment[p.edge_target[k]]),
                float(self.sent[k]), float(self.arrived[k]),
            )
            for k in edges
        ]  # fmt: skip

    @property
    def utilisation(self) -> FloatArray:
        """[d] share of the makespan in which each device runs an operator; 0 if the makespan is."""
        busy = np.bincount(self.assignment, self.finish - self.start, minlength=self.problem.num_devices)
        return busy / self.makespan if self.makespan > 0 else np.zeros(self.problem.num_devices)

    @cached_property
    def memory(self) -> MemoryUse:
        """Memory in use on each device over time, see :mod:`hetgym.sim.memory`."""
        return memory_use(self, cached=self.switches.transfers == "cached")

    @cached_property
    def blame(self) -> Blame:
        """What the makespan was spent on, see :mod:`hetgym.sim.blame`."""
        return blame(self)

    def to_chrome(self) -> dict[str, Any]:
        """The run in the Chrome trace event format, which ``ui.perfetto.dev`` opens.

        Devices are tracks of one process, pairs of devices that exchange data those of another, and
        memory in use is a counter for each device if the runtime keeps track of it; times are in
        microseconds, as the format wants.
        """
        p = self.problem
        links = sorted({(t.source, t.target) for t in self.transfers})
        track = {link: number for number, link in enumerate(links)}
        events: list[dict[str, Any]] = [_label("process_name", 0, 0, "devices"), _label("process_name", 1, 0, "links")]
        events += [_label("thread_name", 0, d, name) for d, name in enumerate(p.device_names)]
        events += [
            _label("thread_name", 1, track[a, b], f"{p.device_names[a]} → {p.device_names[b]}") for a, b in links
        ]
        for i in np.argsort(self.start, kind="stable").tolist():
            event = _span(p.operator_names[i], 0, int(self.assignment[i]), self.start[i], self.finish[i])
            events.append({**event, "cat": p.operator_kinds[i]})
        for transfer in self.transfers:
            name = p.operator_names[p.edge_source[transfer.edge]]
            event = _span(name, 1, track[transfer.source, transfer.target], transfer.start, transfer.finish)
            reader = p.operator_names[p.edge_target[transfer.edge]]
            arguments = {"bytes": float(p.edge_bytes[transfer.edge]), "read by": reader}
            events.append({**event, "cat": "transfer", "args": arguments})
        if self.switches.memory != "off":
            use = self.memory
            for moment, device, used in zip(use.time.tolist(), use.device.tolist(), use.used.tolist(), strict=True):
                name = f"memory of {p.device_names[device]}"
                counter = {"ph": "C", "name": name, "pid": 0, "ts": moment * 1e6, "args": {"bytes": used}}
                events.append(counter)
        other = {
            "problem": p.name, "scheduler": self.scheduler, "runtime": self.runtime, "makespan_s": self.makespan,
            "blame": self.blame.shares,
        }  # fmt: skip
        return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}

    def save_chrome(self, path: str | Path) -> None:
        """Write :meth:`to_chrome` to a file.

        Raises:
            OSError: the file cannot be written.
        """
        text = json.dumps(self.to_chrome(), separators=(",", ":"))
        atomic_write(Path(path), lambda file: file.write(text.encode()))

    def gantt(self, path: str | Path | None = None) -> Figure:
        """Draw devices and links over time with matplotlib; write an image if a path is given.

        Raises:
            MissingExtra: matplotlib is not installed.
        """
        from hetgym.sim.gantt import draw

        return draw(self, None if path is None else Path(path))


def _label(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _span(name: str, process: int, thread: int, start: float, finish: float) -> dict[str, Any]:
    microseconds = 1e6
    return {
        "ph": "X", "name": name, "pid": process, "tid": thread,
        "ts": float(start) * microseconds, "dur": float(finish - start) * microseconds,
    }  # fmt: skip
