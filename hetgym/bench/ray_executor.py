"""A run on a Ray cluster: every attempt is a task, and problems travel once."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym import _ray
from hetgym.bench.attempt import Attempt, attempt
from hetgym.bench.case import share_views
from hetgym.bench.executor import Attempts, Batch, Executor
from hetgym.bench.wire import Packed, pack_attempt, unpack_attempt
from hetgym.errors import ConfigError
from hetgym.planning import Baseline
from hetgym.problem import Problem
from hetgym.workloads.packing import pack_problem, unpack_problem

Reference = Any  # A `ray.ObjectRef`, whose type is known only where Ray is installed


@contextmanager
def on_ray(address: str = _ray.LOCAL) -> Iterator[Executor]:
    """An executor on the Ray cluster at an address, see :func:`hetgym._ray.connect`; by default this machine's cores.

    Raises:
        MissingExtra: Ray is not installed.
        ClusterError: the cluster cannot be joined or worked on.
    """
    with _ray.connect(address) as ray:
        yield _OnRay(ray, _work)


class _OnRay(_ray.OnRay):
    def work(self, batches: Iterable[Batch], runtimes: Sequence[str]) -> Iterator[tuple[Batch, Attempts]]:
        """Yield the batches in order; tasks of later problems run while those of one are awaited."""
        return iter(_Flow(self.ray, self.task, batches, runtimes))


class _Flow:
    """Problems that are processed by the cluster, yielded in the order of the run.

    Tasks are submitted until enough are unfinished to keep all cores busy. Results stay in the object store until their
    turn comes, so that one slow scheduler does not delay the others.
    """

    def __init__(self, ray: ModuleType, task: Any, batches: Iterable[Batch], runtimes: Sequence[str]) -> None:
        self._ray = ray
        self._batches = iter(batches)
        self._sent: dict[int, tuple[Baseline, Reference]] = {}
        self._runtimes = tuple(runtimes)
        self._task = task
        self._queue: deque[tuple[Batch, list[Reference]]] = deque()
        self._unfinished: set[Reference] = set()
        self._room = 0
        self._interrupted = False

    def __iter__(self) -> Iterator[tuple[Batch, Attempts]]:
        while self._more():
            batch, tasks = self._queue.popleft()
            if not self._interrupted or any(task not in self._unfinished for task in tasks):
                yield batch, self._attempts(batch, tasks)
        if self._interrupted:
            raise KeyboardInterrupt

    def _attempts(self, batch: Batch, tasks: list[Reference]) -> Attempts:
        for task in tasks:
            while task in self._unfinished and not self._interrupted:
                self._more(wait=True)
            yield None if task in self._unfinished else self._result(batch, task)

    def _more(self, wait: bool = False) -> bool:
        """Keep the cluster busy; return True if any problem is left to yield."""
        try:
            if not self._interrupted:
                self._submit()
                if wait:
                    self._wait()
        except KeyboardInterrupt:
            self._stop()
        return bool(self._queue)

    def _submit(self) -> None:
        """Submit problems while the cluster has room for their tasks."""
        while not self._queue or len(self._unfinished) < self._room:
            batch = next(self._batches, None)
            if batch is None:
                return
            tasks: list[Reference] = []
            if batch.case.built is not None:
                schedulers = [self._send(baseline) for baseline in batch.schedulers]
                data = self._ray.put(np.frombuffer(pack_problem(batch.case.built[0]), np.uint8))
                tasks = [self._task.remote(data.hex(), data, sent, self._runtimes) for sent in schedulers]
            self._unfinished.update(tasks)
            self._queue.append((batch, tasks))
            self._room = 2 * _ray.cores(self._ray)

    def _send(self, baseline: Baseline) -> Reference:
        """A reference to the scheduler in the object store, where it is put once."""
        if id(baseline) not in self._sent:
            self._sent[id(baseline)] = baseline, _sent(self._ray, baseline)
        return self._sent[id(baseline)][1]

    def _wait(self) -> None:
        """Wait until a task is finished, but only for a moment, so that Ctrl-C is noticed."""
        tasks = list(self._unfinished)
        self._ray.wait(tasks, num_returns=1, timeout=0.5, fetch_local=False)
        self._sort_out(tasks)

    def _sort_out(self, tasks: list[Reference]) -> None:
        finished, _ = self._ray.wait(tasks, num_returns=len(tasks), timeout=0, fetch_local=False)
        self._unfinished.difference_update(finished)

    def _stop(self) -> None:
        """Start no more tasks and cancel running ones; finished ones are kept."""
        self._interrupted = True
        if self._unfinished:
            self._sort_out(list(self._unfinished))
        for task in self._unfinished:
            self._ray.cancel(task, force=True)

    def _result(self, batch: Batch, task: Reference) -> Attempt:
        assert batch.case.built is not None
        errors = self._ray.exceptions
        try:
            return unpack_attempt(self._ray.get(task), batch.case.built[0])
        except errors.OutOfMemoryError:
            return Attempt(status="the process that ran it was ended each time because its node ran out of memory")
        except (errors.WorkerCrashedError, errors.NodeDiedError):
            return Attempt(status=f"the process that ran it was killed or crashed, {_ray.RETRIES + 1} times")
        except errors.RayError as error:
            return Attempt(status=f"the Ray task failed: {_ray.last_line(error)}")


def _sent(ray: ModuleType, baseline: Baseline) -> Reference:
    """A scheduler in the object store: those of hetgym by name, others with their code."""
    try:
        return ray.put(baseline)
    except TypeError as error:
        why = str(error).strip().splitlines()[0]
        raise ConfigError(f"scheduler {baseline.name!r} cannot be sent to another process ({why})") from error


_last: tuple[str, Problem] | None = None
"""The last problem of this worker process, which is usually the next one as well."""

_warm: set[tuple[str, tuple[str, ...]]] = set()
"""Schedulers whose kernels this worker process has loaded, and the runtimes with them."""


def _work(key: str, data: npt.NDArray[np.uint8], baseline: Baseline, runtimes: tuple[str, ...]) -> Packed:
    """The task: one scheduler on one problem, with warm kernels."""
    from hetgym.workloads import textbook

    global _last
    if _last is None or _last[0] != key:
        problem = unpack_problem(data.tobytes())
        share_views(problem)
        _last = key, problem
    if (baseline.name, runtimes) not in _warm:
        attempt(baseline, textbook("topcuoglu"), runtimes)
        _warm.add((baseline.name, runtimes))
    return pack_attempt(attempt(baseline, _last[1], runtimes))
