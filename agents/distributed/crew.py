"""Workers of a training: Ray actors, and their replacement when one is lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hetgym import _ray
from hetgym.errors import ClusterError, ConfigError

RETRIES = 3  # Number of times that a call is repeated after its worker was lost

TIMEOUT = 120.0
"""Time limit for workers to start [s]: on a Ray cluster whose cores are all taken they would wait forever."""

Call = tuple[str, tuple[Any, ...]]  # A method's name and its arguments

Recall = Callable[[int], Call | None]
"""Function from a post to the call that gives its new worker the state of the lost one; None if no call is needed."""

Reference = Any  # A `ray.ObjectRef`, whose type is known only where Ray is installed


@dataclass(frozen=True)
class RayCluster:
    """A Ray cluster to train on.

    Attributes:
        ray: the connected module.
        workers: number of workers that play.
    """

    ray: ModuleType
    workers: int

    @property
    def description(self) -> str:
        """The size of the cluster, as a clause for messages."""
        return f"{_ray.describe(self.ray)}: {self.workers} worker{'s' * (self.workers != 1)}"


@contextmanager
def join(address: str = _ray.LOCAL, workers: int | None = None) -> Iterator[RayCluster]:
    """Connect to a Ray cluster to train on, for the duration of a ``with`` statement.

    Args:
        address: see :func:`hetgym._ray.connect`; by default a Ray cluster of this machine's cores.
        workers: number of workers; by default the number of the Ray cluster's cores.

    Raises:
        MissingExtra: Ray is not installed.
        ClusterError: the Ray cluster cannot be joined or used, or has fewer cores than workers are asked for.
    """
    with _ray.connect(address) as ray:
        cores = _ray.cores(ray)
        if workers is not None and workers > cores:
            raise ClusterError(f"the Ray cluster has {cores} cores, too few for {workers} workers")
        yield RayCluster(ray, workers or cores)


class Crew:
    """Workers at posts; if a worker is lost, a new one takes its post and repeats the work.

    ``kind`` is the class whose methods are called; it is instantiated, with the ``arguments`` of each post, in the
    worker's process. For ``recall`` see :data:`Recall`; it is used before the first call of a new worker.

    Raises:
        ClusterError: workers do not start, or a worker is lost repeatedly at the same call.
        ConfigError: arguments that cannot be sent to another process.
    """

    def __init__(
        self, ray: ModuleType, kind: type[Any], arguments: Sequence[tuple[Any, ...]], recall: Recall = lambda post: None
    ) -> None:
        self._ray, self._kind, self._arguments, self._recall = ray, kind, arguments, recall
        self._actor = ray.remote(max_restarts=0)(_Worker)
        self._lost = [0] * len(arguments)
        self._actors: list[Any] = []
        try:
            for post in range(len(arguments)):
                self._actors.append(self._start(post, num_cpus=1))
            self._await()
        except BaseException:
            self.close()
            raise

    def all(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every worker at the same time, with arguments for each post; the results in this order."""
        calls = [self._submit(post, method, of) for post, of in enumerate(arguments)]
        try:
            return list(self._ray.get(calls))
        except self._ray.exceptions.RayError:  # one of them failed: each is checked
            running = {call: (post, post) for post, call in enumerate(calls)}
            return self._finish(method, arguments, running, iter(()))

    def each(self, method: str, tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method once for each task, its arguments, on any free worker; the results in the order of tasks."""
        left = iter(range(len(tasks)))
        first = zip(range(len(self._actors)), left, strict=False)
        running = {self._submit(post, method, tasks[task]): (post, task) for post, task in first}
        return self._finish(method, tasks, running, left)

    def processes(self) -> list[int]:
        """Id of each worker's process, on its node."""
        return list(self._ray.get([actor.process.remote() for actor in self._actors]))

    def close(self) -> None:
        """End the workers."""
        for actor in self._actors:
            with suppress(Exception):  # a lost worker may be impossible to end
                self._ray.kill(actor)
        self._actors = []

    def _start(self, post: int, **options: Any) -> Any:
        try:
            return self._actor.options(**options).remote(self._kind, self._arguments[post], os.getcwd())
        except TypeError as error:
            why = str(error).strip().splitlines()[0]
            raise ConfigError(f"what the workers need cannot be sent to another process ({why})") from error

    def _await(self) -> None:
        """Wait until all workers have started; ClusterError if one does not in time."""
        asked = [actor.process.remote() for actor in self._actors]
        ready, waiting = self._ray.wait(asked, num_returns=len(asked), timeout=TIMEOUT)
        if waiting:
            count = f"{len(ready)} of {len(asked)} workers"
            raise ClusterError(
                f"only {count} found a free core of the Ray cluster within {TIMEOUT:.0f} s; ask for fewer by --workers"
            )
        try:
            self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            raise ClusterError(f"a worker of the Ray cluster does not start ({_ray.last_line(error)})") from error

    def _submit(self, post: int, method: str, arguments: tuple[Any, ...]) -> Reference:
        before = self._recall(post) if self._lost[post] else None
        return self._actors[post].call.remote(before, method, *arguments)

    def _finish(
        self,
        method: str,
        tasks: Sequence[tuple[Any, ...]],
        running: dict[Reference, tuple[int, int]],
        left: Iterator[int],
    ) -> list[Any]:
        """Wait for calls, assign remaining tasks to free workers, and repeat calls whose worker is lost.

        ``running``: pending calls -> their posts and tasks; ``left``: tasks that have not been assigned.
        """
        results: list[Any] = [None] * len(tasks)
        while running:
            (done, *_), _ = self._ray.wait(list(running), num_returns=1)
            post, task = running.pop(done)
            try:
                results[task] = self._ray.get(done)
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from error  # an exception of the worker's own code
            except self._ray.exceptions.RayError as error:
                self._replace(post, error)
                running[self._submit(post, method, tasks[task])] = post, task
                continue
            self._lost[post] = 0
            following = next(left, None)
            if following is not None:
                running[self._submit(post, method, tasks[following])] = post, following
        return results

    def _replace(self, post: int, error: Exception) -> None:
        """Give a post a new worker, which reserves no core, as none may be free after the loss of a node."""
        self._lost[post] += 1
        if self._lost[post] > RETRIES:
            raise ClusterError(
                f"a worker was lost {RETRIES + 1} times at the same work ({_ray.last_line(error)}); "
                "the same command resumes from the last checkpoint"
            ) from error
        with suppress(Exception):  # it may still live if only its answer was lost
            self._ray.kill(self._actors[post])
        self._actors[post] = self._start(post, num_cpus=0, scheduling_strategy="SPREAD")


class _Worker:
    """The actor in a worker's process; ``folder`` is the base of relative paths, if the node has such a folder.

    The first call makes an instance of the class that does the work, so that its errors reach the caller.
    """

    def __init__(self, kind: type[Any], arguments: tuple[Any, ...], folder: str) -> None:
        self._kind, self._arguments, self._made = kind, arguments, None
        with suppress(OSError):
            os.chdir(folder)

    def process(self) -> int:
        """Id of the process."""
        return os.getpid()

    def call(self, before: Call | None, method: str, *arguments: Any) -> Any:
        """Call a method; before it, the call that restores the state of a lost worker, if there is one."""
        if self._made is None:
            self._made = self._kind(*self._arguments)
        if before is not None:
            name, of = before
            getattr(self._made, name)(*of)
        return getattr(self._made, method)(*arguments)
