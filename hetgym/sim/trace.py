"""Trace: a record of a run, with its memory use, blame, Gantt chart and export."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hetgym._input.files import atomic_write
from hetgym._types import FloatArray, IntArray
from hetgym.problem import Problem
from hetgym.sim.blame import Blame, blame
from hetgym.sim.energy import EnergyUse, energy_use, rent
from hetgym.sim.gantt import draw
from hetgym.sim.kernel import State
from hetgym.sim.memory import MemoryUse, check_capacity, memory_use
from hetgym.sim.record import Record, Transfer
from hetgym.sim.runtime import Runtime, runtime_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Trace", "Transfer"]


@dataclass(frozen=True, eq=False)
class Trace(Record):
    """Everything that happened in one run; see :class:`~hetgym.sim.record.Record` for the arrays."""

    def __repr__(self) -> str:
        by = f" by {self.scheduler!r}" if self.scheduler else ""
        under = f"{self.makespan:.4g} s under {self.runtime!r}"
        return f"Trace({self.problem.name!r}, {len(self.start)} operators, {under}{by})"

    @cached_property
    def memory(self) -> MemoryUse:
        """Memory in use on each device over time, see :mod:`hetgym.sim.memory`."""
        return memory_use(self, cached=self.switches.transfers == "cached")

    @cached_property
    def blame(self) -> Blame:
        """The causes that the makespan was spent on, see :mod:`hetgym.sim.blame`."""
        return blame(self)

    @cached_property
    def energy(self) -> EnergyUse:
        """The energy that each device took, see :mod:`hetgym.sim.energy`.

        Raises:
            ProblemError: the problem does not state the power of its devices.
        """
        return energy_use(self)

    @cached_property
    def cost(self) -> float:
        """The rent of all devices for the time in which the run held them [currency].

        Raises:
            ProblemError: the problem does not state the price of its devices.
        """
        return float(rent(self).sum())

    def to_chrome(self) -> dict[str, Any]:
        """The run in the Chrome trace event format, which ``ui.perfetto.dev`` opens.

        Devices are tracks of one process, pairs of devices that exchange data those of another, and memory in use is a
        counter for each device if the runtime tracks it; times are in microseconds, as the format requires.
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
            "problem": p.name,
            "scheduler": self.scheduler,
            "runtime": self.runtime,
            "makespan_s": self.makespan,
            "blame": self.blame.shares,
        }
        return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}

    def save_chrome(self, path: str | Path) -> None:
        """Write :meth:`to_chrome` to a file.

        Raises:
            OSError: the file cannot be written.
        """
        text = json.dumps(self.to_chrome(), separators=(",", ":"))
        atomic_write(Path(path), lambda file: file.write(text.encode()))

    def gantt(
        self,
        path: str | Path | None = None,
        size: tuple[float, float | None] | None = None,
        dpi: int = 100,
        colours: Mapping[str, str] | None = None,
    ) -> Figure:
        """Draw devices and links over time with matplotlib; write an image if a path is given.

        Args:
            path: image file to write, whose suffix gives the format.
            size: width and height [inch], such as ``(6.3, None)`` for a page of text; without a height it follows from
                the number of rows.
            dpi: pixels per inch.
            colours: name, kind or family of operators -> colour, such as ``{"Conv": "#d9534f", "view": "white"}``.

        Raises:
            MissingExtra: matplotlib is not installed.
            ConfigError: an impossible size, not a colour, or a file that cannot be written.
            UnknownName: the problem has no operator of such a name, kind or family.
        """
        return draw(self, None if path is None else Path(path), size, dpi, colours)


def traced(
    problem: Problem,
    assignment: IntArray,
    state: State,
    switches: Runtime,
    scheduler: str,
    order: tuple[IntArray, ...],
    speed: FloatArray | None = None,
) -> Trace:
    """The trace of a run that has ended in a state.

    Raises:
        OutOfMemory: the runtime enforces capacities, and a device exceeded its own.
    """
    times = state.start, state.finish, state.sent, state.arrived
    trace = Trace(problem, assignment, *times, runtime_name(switches), scheduler, switches, order, speed)
    if switches.memory == "enforce":
        check_capacity(trace, trace.memory)
    return trace


def _label(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _span(name: str, process: int, thread: int, start: float, finish: float) -> dict[str, Any]:
    microseconds = 1e6
    return {
        "ph": "X",
        "name": name,
        "pid": process,
        "tid": thread,
        "ts": float(start) * microseconds,
        "dur": float(finish - start) * microseconds,
    }
