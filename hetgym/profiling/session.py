"""Profiles: operators and graphs measured one after another; every result is written to disk immediately."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hetgym._groups import gathered
from hetgym._sums import summed
from hetgym.errors import ConfigError, ProfilingError
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.ops import Operator, Tensor
from hetgym.graph.serialization import to_document
from hetgym.measurements.dataset import Dataset
from hetgym.measurements.table import Journal, Measurement, Measurements
from hetgym.profiling.cuda import device_number
from hetgym.profiling.host import HostSettings

_START_LIMIT = 120.0  # longest time for a worker to start and import torch [s]


@dataclass(frozen=True)
class Item:
    """One thing to measure: an operator alone, or a graph as a whole."""

    source: str  # the design or graph that it belongs to
    operator: Operator | None = None  # the operator, with `direction`; None for a graph
    graph: DataflowGraph | None = None  # the graph; None for an operator
    direction: str = "forward"  # `forward` or `backward`

    def __post_init__(self) -> None:
        if (self.operator is None) == (self.graph is None):
            raise ConfigError(f"item {self.source!r} must hold either an operator or a graph")

    @property
    def blank(self) -> Measurement:
        """The row of the table before the measurement; for a graph, the row of its wall time."""
        nan, context = float("nan"), "graph" if self.operator is None else "isolated"
        operator = self.operator or Operator(self.source, "Graph", (), (Tensor(()),))
        return Measurement(operator, nan, nan, nan, 0, self.direction, context, self.source, 1, "unsupported")

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify it."""
        return tuple(self.blank.row()[:7])

    @property
    def bytes(self) -> float:
        """Estimated memory for the measurement: operands twice, and gradients [byte]."""
        if self.operator is not None:
            op = self.operator
            own = summed(t.bytes for t in (*op.inputs, *op.outputs))
            return 2.0 * own * (2 if self.direction == "backward" else 1)
        assert self.graph is not None
        return summed(op.weight_bytes for op in self.graph.operators) + summed(
            op.output_bytes for op in self.graph.operators
        )


class Worker(AbstractContextManager["Worker"]):
    """A measuring process that is restarted whenever it was killed; ProfilingError if it does not start."""

    def __init__(self, settings: HostSettings, memory_limit: float = 8e9, device: str = "cpu") -> None:
        self._arguments = json.dumps(
            {"host": settings.to_dict(), "parent": os.getpid(), "memory_limit": memory_limit, "device": device}
        )
        self._environment = {**os.environ, **settings.environment(), "PYTHONHASHSEED": "0"}
        self._process: subprocess.Popen[bytes] | None = None

    def __exit__(self, *_: object) -> None:
        self.stop()

    def ask(self, request: dict[str, Any], limit: float) -> dict[str, Any] | None:
        """The answer to a request of :mod:`~hetgym.profiling.worker`; None if none came within ``limit`` [s]."""
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            self.stop()
            return None
        answer = _line(process, limit)
        if answer is None or answer.get("lost"):
            self.stop()
        return answer

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # with the copy of it that is measuring
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-m", "hetgym.profiling.worker", self._arguments]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment, start_new_session=True
            )
            if _line(self._process, _START_LIMIT) is None:
                code = self._process.poll()
                self.stop()
                raise ProfilingError(f"the measuring process did not start (exit code {code}); see its messages above")
        return self._process


def _line(process: subprocess.Popen[bytes], limit: float) -> dict[str, Any] | None:
    """Read one line of JSON from a process; None after the time limit or if the process ends."""
    assert process.stdout is not None
    file, end, data = process.stdout.fileno(), time.monotonic() + limit, b""
    while not data.endswith(b"\n"):
        left = end - time.monotonic()
        if left <= 0 or not select.select([file], [], [], left)[0]:
            return None
        part = os.read(file, 1 << 16)
        if not part:
            return None
        data += part
    answer = json.loads(data)
    return answer if isinstance(answer, dict) else None


class Profile:
    """Measures items into a journal; items that are already in the journal are not measured again.

    The journal is kept beside the table until the table and its card are written, so that a profile can be killed at
    any time and continued later.

    Args:
        path: path of the table to make, ``NAME.csv.gz``.
        settings: settings of the measuring process.
        time_limit: time after which an operator is aborted [s]; a graph may take ten times as long.
        memory_limit: items whose estimated memory is larger are not run [byte].
        rounds: number of runs of a graph.
        device: ``cpu``, or a CUDA device such as ``cuda:0``.

    Raises:
        ConfigError: the finished table already exists, its folder cannot be written, or there is no such device.
        MissingExtra: a CUDA device is asked for, and torch sees none.
        ArtefactError: the journal of an earlier run is damaged.
    """

    def __init__(
        self,
        path: str | Path,
        settings: HostSettings | None = None,
        *,
        time_limit: float = 20.0,
        memory_limit: float = 8e9,
        rounds: int = 11,
        device: str = "cpu",
    ) -> None:
        self.path = Path(path)
        self.settings = settings or HostSettings()
        self.time_limit = time_limit
        self.memory_limit = memory_limit
        self.rounds = rounds
        self.device = device
        if device != "cpu":
            device_number(device)
        journal = self.path.parent / f"{self.path.name.partition('.')[0]}.part.csv"
        if self.path.exists() and not journal.exists():
            raise ConfigError(f"{self.path} already exists; give the profile another name")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.journal = Journal.open(journal)
        except OSError as error:
            raise ConfigError(f"{journal}: cannot be written ({error.strerror or error})") from error

    def missing(self, items: Iterable[Item], passes: int = 1) -> list[Item]:
        """The items that are still to be measured in ``passes`` passes, in the order of measurement.

        Each pass takes all items in a different random order. This turns drift of the machine (clocks, other load) into
        noise, and makes the remaining time predictable.
        """
        done = Counter(tuple(row.row()[:7]) for row in self.journal.rows)
        wanted = {item.key: item for item in items}
        keys = sorted(wanted)
        left: list[Item] = []
        for number in range(passes):
            order = np.random.default_rng(number).permutation(len(keys))
            left += [wanted[keys[i]] for i in order if done[keys[i]] <= number]
        return left

    def run(
        self, items: Sequence[Item], passes: int = 1, progress: Callable[[Item, str], None] | None = None
    ) -> Measurements:
        """Measure the missing items; :meth:`finish` then writes the table, sorted by context, source and operator.

        Of ``passes`` measurements of each item, far apart in time, the median of the medians is kept. ``progress`` is
        called after each item with its status.

        Raises:
            ProfilingError: the measuring process cannot be started.
            OSError: the journal cannot be written.
        """
        with Worker(self.settings, self.memory_limit, self.device) as worker:
            for item in self.missing(items, passes):
                rows = self._measure(worker, item)
                self.journal.add(rows)
                if progress is not None:
                    progress(item, rows[-1].status)
        return Measurements(merged(self.journal.rows), self.path.name.partition(".")[0])

    def finish(self, dataset: Dataset) -> None:
        """Write the table of :meth:`run` and its card, then remove the journal, which stays after an error."""
        dataset.save(self.path)
        self.journal.path.unlink()

    def _measure(self, worker: Worker, item: Item) -> list[Measurement]:
        blank = item.blank
        if item.bytes > self.memory_limit:
            return [replace(blank, status="memory")]
        if item.operator is not None:
            answer = worker.ask({"row": blank.row()}, self.time_limit)
        else:
            assert item.graph is not None
            answer = worker.ask({"graph": to_document(item.graph), "rounds": self.rounds}, 10 * self.time_limit)
        if answer is None:
            return [replace(blank, status="timeout")]
        if answer["status"] != "ok":
            return [replace(blank, status=answer["status"])]
        if item.graph is not None:
            return _graph_rows(item.graph, blank, answer)
        seconds, p10, p90 = (float(answer[key]) for key in ("seconds", "p10", "p90"))
        count = int(answer["repetitions"])
        return [replace(blank, status="ok", repetitions=count, seconds=seconds, p10=p10, p90=p90)]


def merged(rows: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Merge repeated measurements of operators: medians of the times, sums of the repetitions.

    Rows are sorted by context, source and operator; an operator that failed in some passes only has times.
    """
    members = gathered(((row.context, row.source, *row.row()[:5]), row) for row in rows)
    result = []
    for key in sorted(members):
        timed = [row for row in members[key] if row.status == "ok"]
        if not timed:
            result.append(members[key][-1])
            continue
        seconds, p10, p90 = (
            float(np.median([getattr(row, name) for row in timed])) for name in ("seconds", "p10", "p90")
        )
        repetitions = summed(row.repetitions for row in timed)
        result.append(replace(timed[0], seconds=seconds, p10=p10, p90=p90, repetitions=repetitions))
    return tuple(result)


def _graph_rows(graph: DataflowGraph, blank: Measurement, answer: dict[str, Any]) -> list[Measurement]:
    """One row for every shape in the graph, the mean over operators of that shape, and one for the whole graph."""
    rows_of = (Measurement(op, 0.0, 0.0, 0.0, 1).row() for op in graph.operators)
    members = gathered((tuple(row[:4]), i) for i, row in enumerate(rows_of))
    repetitions = int(answer["repetitions"])
    medians, lows, highs = (np.array(answer[key]) for key in ("seconds", "p10", "p90"))
    rows = [
        replace(
            blank,
            operator=graph.operators[at[0]],
            count=len(at),
            status="ok",
            repetitions=repetitions,
            seconds=float(medians[at].mean()),
            p10=float(lows[at].mean()),
            p90=float(highs[at].mean()),
        )
        for at in members.values()
    ]
    p10, median, p90 = answer["wall"]
    whole = replace(blank, seconds=median, p10=p10, p90=p90, repetitions=repetitions, status="ok")
    return [*rows, whole]
