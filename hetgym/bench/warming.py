"""Kernels of schedulers, loaded before their times count: from Numba's cache, or compiled while a run begins.

Compiling everything takes longer than most runs. So that nobody waits for it, helper processes compile
schedulers one by one, the searches last; meanwhile a run attempts what is ready, later problems included.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from select import select
from types import TracebackType

from hetgym._jit import compiling
from hetgym._process import end_with_parent
from hetgym.baselines import Baseline, critical_path_bound, get, lower_bound
from hetgym.bench.attempt import Attempt, attempt
from hetgym.bench.case import Reference
from hetgym.bench.executor import Attempts, Batch
from hetgym.problem import Problem
from hetgym.workloads import textbook

PATIENCE = 0.5
"""Time of compiling after which helpers are started [s]."""

MOST_HELPERS = 7
"""More processes compile the same kernels several times."""

_LAST = ("search",)  # kinds that helpers compile last: their runs are long, so that they should begin early here


def warm_up(schedulers: Iterable[str | Baseline], runtimes: Sequence[str]) -> None:
    """Load or compile every kernel that a run needs, so that times to schedule do not contain it.

    Args:
        schedulers: names, or table rows.
        runtimes: names of runtime presets.
    """
    with Kernels([get(item) if isinstance(item, str) else item for item in schedulers], runtimes) as kernels:
        while kernels.load_next():
            pass


class Kernels:
    """Kernels that schedulers need, ready or not.

    Args:
        schedulers: table rows.
        runtimes: names of runtime presets.
    """

    def __init__(self, schedulers: Sequence[Baseline], runtimes: Sequence[str]) -> None:
        self._problem, self._runtimes = textbook("topcuoglu"), tuple(runtimes)
        self._ready: set[str] = set()
        self._left = {baseline.name: baseline for baseline in schedulers}  # neither ready nor under way
        self._helpers: list[_Helper] = []

    def __enter__(self) -> Kernels:
        try:
            critical_path_bound(self._problem)
            lower_bound(self._problem)
            self._start_helpers()  # before what takes longer
            Reference(self._problem, self._runtimes)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for helper in self._helpers:
            helper.end()

    @property
    def compiling_elsewhere(self) -> bool:
        """Whether a helper is at work."""
        return any(helper.task for helper in self._helpers)

    @property
    def ready(self) -> set[str]:
        """Names of the schedulers that can run without compiling."""
        return self._ready

    def load_finished(self) -> None:
        """Load what helpers have finished."""
        self._look(0.0)

    def load_next(self) -> bool:
        """Make one more scheduler ready, here or by waiting for a helper; False if all are."""
        order = sorted(self._left.values(), key=lambda row: row.kind not in _LAST)
        if order:
            self._load(self._left.pop(order[0].name))
            self._start_helpers()
            return True
        if self.compiling_elsewhere:
            self._look(None)
            return True
        return False

    def _load(self, baseline: Baseline) -> None:
        attempt(baseline, self._problem, self._runtimes)  # what it raises, the run itself reports
        self._ready.add(baseline.name)

    def _start_helpers(self) -> None:
        """Start helpers once it shows that kernels have to be compiled, and give them work."""
        if self._helpers or compiling.seconds < PATIENCE:
            return
        count = min((os.cpu_count() or 1) - 1, MOST_HELPERS, len(self._left) // 2)
        with suppress(OSError):  # without helpers it takes longer
            self._helpers = [_Helper() for _ in range(count)]
        for helper in self._helpers:
            self._give(helper)

    def _give(self, helper: _Helper) -> None:
        """Give a helper the next scheduler: of those that it can look up by name, the last."""
        able = [row for row in self._left.values() if row.function.__module__.startswith("hetgym.")]
        if able:
            able.sort(key=lambda row: row.kind not in _LAST)
            helper.give(self._left.pop(able[-1].name))

    def _look(self, seconds: float | None) -> None:
        """Load what helpers have finished, after waiting for one at most some seconds, or as long as it takes."""
        busy = [helper for helper in self._helpers if helper.task]
        done, _, _ = select(busy, [], [], seconds) if busy else ([], [], [])
        for helper in done:
            task = helper.take()
            self._give(helper)
            self._load(task)


class _Helper:
    """A process that compiles kernels into Numba's cache, one scheduler at a time."""

    def __init__(self) -> None:
        self.task: Baseline | None = None
        code = f"from hetgym.bench.warming import serve; serve({os.getpid()})"
        command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def fileno(self) -> int:
        """The descriptor that can be read when the task is done, or the process is gone."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def give(self, task: Baseline) -> None:
        """Give it a task."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # take() then finds it gone
            self._process.stdin.write(task.name.encode() + b"\n")
            self._process.stdin.flush()
        self.task = task

    def take(self) -> Baseline:
        """The task that is done; if the process is gone, the caller compiles what is missing."""
        os.read(self.fileno(), 1)
        task, self.task = self.task, None
        assert task is not None
        return task

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def serve(parent: int) -> None:
    """The program of a helper: schedulers by name from stdin, a byte on stdout for each that is compiled.

    Args:
        parent: process id of the parent, with which it ends.
    """
    end_with_parent(parent)
    problem = textbook("topcuoglu")
    for line in sys.stdin.buffer:
        with suppress(Exception):  # the parent meets it again, and reports it
            get(line.decode().strip())(problem)
        sys.stdout.buffer.write(b".")
        sys.stdout.buffer.flush()


class WarmingUp:
    """An executor for this process whose schedulers run as soon as their kernels are ready.

    While a scheduler is awaited that a helper compiles, others are attempted on the problems that follow;
    attempts come out in their order all the same. Once all kernels are ready it works like
    :class:`~hetgym.bench.executor.Here`.

    Args:
        schedulers: of the run.
        ahead: most problems that are built before their turn.
    """

    description = "this process"

    def __init__(self, schedulers: Sequence[Baseline], ahead: int = 64) -> None:
        self._schedulers = schedulers
        self._most_ahead = ahead
        self._ahead: deque[Batch] = deque()
        self._made: dict[tuple[int, str], Attempt] = {}

    def work(self, batches: Iterable[Batch], runtimes: Sequence[str]) -> Iterator[tuple[Batch, Attempts]]:
        """Each attempt is made when it is asked for, or before."""
        source = iter(batches)
        with Kernels(self._schedulers, runtimes) as kernels:
            while True:
                batch = self._ahead.popleft() if self._ahead else next(source, None)
                if batch is None:
                    return
                yield batch, self._attempts(batch, source, kernels, runtimes)

    def _attempts(self, batch: Batch, source: Iterator[Batch], kernels: Kernels, runtimes: Sequence[str]) -> Attempts:
        for baseline in batch.schedulers if batch.case.built else ():
            key = id(batch), baseline.name
            while key not in self._made and baseline.name not in kernels.ready:
                kernels.load_finished()
                if not (kernels.compiling_elsewhere and self._attempt_ahead(batch, source, kernels, runtimes)):
                    kernels.load_next()
            made = self._made.pop(key, None)
            yield made or attempt(baseline, _problem(batch), runtimes)

    def _attempt_ahead(self, batch: Batch, source: Iterator[Batch], kernels: Kernels, runtimes: Sequence[str]) -> bool:
        """Make the next attempt of a scheduler that is ready; False if there is none within reach."""
        for other in self._within_reach(batch, source):
            for baseline in other.schedulers if other.case.built else ():
                key = id(other), baseline.name
                if baseline.name in kernels.ready and key not in self._made:
                    self._made[key] = attempt(baseline, _problem(other), runtimes)
                    return True
        return False

    def _within_reach(self, batch: Batch, source: Iterator[Batch]) -> Iterator[Batch]:
        """The batch, and those after it, of which more are taken until enough are there."""
        yield batch
        yield from tuple(self._ahead)
        while len(self._ahead) < self._most_ahead:
            following = next(source, None)
            if following is None:
                return
            self._ahead.append(following)
            yield following


def _problem(batch: Batch) -> Problem:
    assert batch.case.built is not None
    return batch.case.built[0]
