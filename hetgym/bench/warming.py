"""Kernels of schedulers, loaded before their times count: from Numba's cache, or compiled while a run begins.

Compiling everything takes longer than most runs. Helper processes therefore compile schedulers one by one, the searches
last. Meanwhile the run makes those attempts whose kernels are ready, including attempts on later problems.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Thread

from hetgym._kernels import jit
from hetgym._kernels.interpreted import compile_at_once
from hetgym._process import end_with_parent
from hetgym.bench.attempt import Attempt, attempt
from hetgym.bench.case import Reference
from hetgym.bench.executor import Attempts, Batch
from hetgym.planning import Baseline, get
from hetgym.planning.bounds import critical_path_bound, lower_bound
from hetgym.workloads import textbook

PATIENCE = 0.5  # Time of compiling after which helpers are started [s]
GLANCE = 0.05  # Time for which searches with a limit of time run to load their kernels, compiling aside [s]
MOST_HELPERS = 7  # Most helper processes; more would compile the same kernels several times

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
        self._before = jit.compiling.seconds  # what this process compiled for others
        self._problem, self._runtimes = textbook("topcuoglu"), tuple(runtimes)
        self._ready: set[str] = set()
        self._left = {baseline.name: baseline for baseline in schedulers}  # neither ready nor under way
        self._helpers: list[_Helper] = []
        self._done: SimpleQueue[_Helper] = SimpleQueue()  # helpers whose task is done, or that are gone

    def __enter__(self) -> Kernels:
        compile_at_once()
        try:
            critical_path_bound(self._problem)
            lower_bound(self._problem)
            self._start_helpers()  # before what takes longer
            Reference(self._problem, self._runtimes)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        for helper in self._helpers:
            helper.end()

    @property
    def compiling_elsewhere(self) -> bool:
        """True while a helper is at work."""
        return any(helper.task for helper in self._helpers)

    @property
    def ready(self) -> set[str]:
        """Names of the schedulers that can run without compiling."""
        return self._ready

    def load_finished(self) -> None:
        """Load the schedulers that helpers have finished."""
        with suppress(Empty):
            while True:
                self._finish(self._done.get_nowait())

    def load_next(self) -> bool:
        """Make one more scheduler ready, here or by waiting for a helper; False if all are."""
        order = sorted(self._left.values(), key=lambda row: row.kind not in _LAST)
        if order:
            self._load(self._left.pop(order[0].name))
            self._start_helpers()
            return True
        if self.compiling_elsewhere:
            with suppress(Empty):
                self._finish(self._done.get(timeout=0.5))  # and look whether Ctrl-C was pressed
            return True
        return False

    def _load(self, baseline: Baseline) -> None:
        limit = baseline.options.get("seconds")
        if isinstance(limit, float | int) and limit > GLANCE:
            brief = replace(baseline, options={**baseline.options, "seconds": GLANCE})
        else:
            brief = baseline
        attempt(brief, self._problem, self._runtimes)  # what it raises, the run itself reports
        self._ready.add(baseline.name)

    def _start_helpers(self) -> None:
        """Start helpers once it shows that kernels have to be compiled, and give them work."""
        if self._helpers or jit.compiling.seconds - self._before < PATIENCE:
            return
        count = min((os.cpu_count() or 1) - 1, MOST_HELPERS, len(self._left) // 2)
        with suppress(OSError):  # without helpers it takes longer
            self._helpers = [_Helper(self._done) for _ in range(count)]
        for helper in self._helpers:
            self._give(helper)

    def _give(self, helper: _Helper) -> None:
        """Give a helper the next scheduler: of those that it can look up by name, the last."""
        able = [row for row in self._left.values() if row.function.__module__.startswith("hetgym.")]
        if able and helper.alive:
            able.sort(key=lambda row: row.kind not in _LAST)
            helper.give(self._left.pop(able[-1].name))

    def _finish(self, helper: _Helper) -> None:
        """Load the scheduler that a helper has finished; if the helper is gone, that compiles it here."""
        task, helper.task = helper.task, None
        if task is not None:
            self._give(helper)
            self._load(task)


class _Helper:
    """A process that compiles kernels into Numba's cache, one scheduler at a time.

    Args:
        done: the helper itself is put there when its task is done, and when the process is gone.
    """

    def __init__(self, done: SimpleQueue[_Helper]) -> None:
        self.task: Baseline | None = None
        self.alive = True
        self._done = done
        code = f"from hetgym.bench.warming import serve; serve({os.getpid()})"
        command = [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    def give(self, task: Baseline) -> None:
        """Give it a task."""
        assert self._process.stdin is not None
        self.task = task
        with suppress(OSError):
            self._process.stdin.write(task.name.encode() + b"\n")
            self._process.stdin.flush()
        if not self.alive:  # the listener may have ended before it could see the task
            self._done.put(self)

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        self._listener.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        while self._process.stdout.read(1):
            self._done.put(self)
        self.alive = False
        self._done.put(self)


def serve(parent: int) -> None:
    """The program of a helper: schedulers by name from stdin, a byte on stdout for each that is compiled.

    Args:
        parent: process id of the parent, with which it ends.
    """
    end_with_parent(parent)
    compile_at_once()
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
    :class:`~hetgym.bench.executor.Here`. Interrupted by Ctrl-C, it yields what is done.

    Args:
        schedulers: schedulers of the run.
        ahead: largest number of problems that are built before their turn.

    Attributes:
        tell: called with a few words on which kernels are ready, as long as some are not.
    """

    description = "this process"

    def __init__(self, schedulers: Sequence[Baseline], ahead: int = 64) -> None:
        self.tell: Callable[[str], object] = str
        self._schedulers = schedulers
        self._most_ahead = ahead

    def work(self, batches: Iterable[Batch], runtimes: Sequence[str]) -> Iterator[tuple[Batch, Attempts]]:
        """Each attempt is made when it is asked for, or before."""
        with Kernels(self._schedulers, runtimes) as kernels:
            yield from _OutOfOrder(batches, kernels, runtimes, self._most_ahead, self._say)

    def _say(self, ready: int, made: int) -> None:
        told = f"kernels of {ready} of {len(self._schedulers)} schedulers are ready"
        self.tell(f"{told}; {made} schedules are made" if made else told)


class _Turn:
    """A batch whose attempts are made in any order.

    Attributes:
        batch: the batch.
        left: schedulers whose attempts are still to be made.
        made: scheduler -> attempt that was made and not yet given out.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.left = {row.name: row for row in batch.schedulers} if batch.case.built else {}
        self.made: dict[str, Attempt] = {}

    def make(self, name: str, runtimes: Sequence[str]) -> None:
        """Make the attempt of a scheduler."""
        assert self.batch.case.built is not None
        self.made[name] = attempt(self.left.pop(name), self.batch.case.built[0], runtimes)


class _OutOfOrder:
    """Attempts in the order of a run that are made in the order in which their kernels are ready.

    At most ``most_ahead`` batches are taken before their turn. ``say`` is called with the
    number of schedulers that are ready, and of attempts that were made, while some are not.
    """

    def __init__(
        self,
        batches: Iterable[Batch],
        kernels: Kernels,
        runtimes: Sequence[str],
        most_ahead: int,
        say: Callable[[int, int], None],
    ) -> None:
        self._source = iter(batches)
        self._kernels = kernels
        self._runtimes = runtimes
        self._most_ahead = most_ahead
        self._say, self._made = say, 0
        self._ahead: deque[_Turn] = deque()  # taken before their turn
        self._interrupted = False

    def __iter__(self) -> Iterator[tuple[Batch, Attempts]]:
        while (turn := self._ahead.popleft() if self._ahead else self._take()) is not None:
            if not self._interrupted or turn.made:
                yield turn.batch, self._attempts(turn)
        if self._interrupted:
            raise KeyboardInterrupt

    def _take(self) -> _Turn | None:
        """The next batch of the run; None at its end, or after an interrupt."""
        batch = None if self._interrupted else next(self._source, None)
        return None if batch is None else _Turn(batch)

    def _attempts(self, turn: _Turn) -> Attempts:
        for name in tuple(row.name for row in turn.batch.schedulers) if turn.batch.case.built else ():
            try:
                self._wait_for(turn, name)
            except KeyboardInterrupt:
                self._interrupted = True
            yield turn.made.pop(name, None)

    def _wait_for(self, turn: _Turn, name: str) -> None:
        """Make an attempt, after others as long as its kernels are not ready; after an interrupt none is made."""
        while name in turn.left and not self._interrupted:
            self._kernels.load_finished()
            if name in self._kernels.ready:
                turn.make(name, self._runtimes)
                self._made += 1
                continue
            self._say(len(self._kernels.ready), self._made)
            if not (self._kernels.compiling_elsewhere and self._attempt_ahead(turn)):
                self._kernels.load_next()

    def _attempt_ahead(self, turn: _Turn) -> bool:
        """Make the next attempt of a scheduler that is ready; False if there is none within reach."""
        for other in self._within_reach(turn):
            name = next((name for name in other.left if name in self._kernels.ready), None)
            if name is not None:
                other.make(name, self._runtimes)
                self._made += 1
                return True
        return False

    def _within_reach(self, turn: _Turn) -> Iterator[_Turn]:
        """The batch, and as many after it as are needed."""
        yield turn
        yield from tuple(self._ahead)
        while len(self._ahead) < self._most_ahead and (following := self._take()) is not None:
            self._ahead.append(following)
            yield following
