"""Workers of a training: Ray actors, and what is done when one of them is lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hetgym import _ray
from hetgym.errors import ClusterError, ConfigError

RETRIES = 3
"""How often a call is made again whose worker was lost."""

TIMEOUT = 120.0
"""Seconds that workers get to start: a Ray cluster whose cores are all taken would keep them waiting for ever."""

Call = tuple[str, tuple[Any, ...]]
"""A method's name and its arguments."""

Recall = Callable[[int], Call | None]
"""What brings the new worker at a post to where the lost one stood before its last call; None for nothing."""

Reference = Any
"""A ``ray.ObjectRef``, whose type is known only where Ray is installed."""


@dataclass(frozen=True)
class RayCluster:
    """A Ray cluster to train on.

    Attributes:
        ray: the module, connected.
        workers: how many of them play.
    """

    ray: ModuleType
    workers: int

    @property
    def description(self) -> str:
        """One clause that says how large it is."""
        return f"{_ray.describe(self.ray)}: {self.workers} worker{'s' * (self.workers != 1)}"

    def crew(self, kind: type[Any], arguments: Sequence[tuple[Any, ...]], recall: Recall = lambda post: None) -> Crew:
        """Start workers; see :class:`Crew`."""
        return Crew(self.ray, kind, arguments, recall)


@contextmanager
def join(address: str = _ray.LOCAL, workers: int | None = None) -> Iterator[RayCluster]:
    """Be connected to a Ray cluster to train on, for the time of a ``with`` statement.

    Args:
        address: see :func:`hetgym._ray.connect`; by default a Ray cluster of this machine's cores.
        workers: how many play; by default as many as the Ray cluster has cores.

    Raises:
        MissingExtra: Ray is not installed.
        ClusterError: the Ray cluster cannot be joined or worked on, or has fewer cores than there are to be workers.
    """
    with _ray.connect(address) as ray:
        cores = _ray.cores(ray)
        if workers is not None and workers > cores:
            raise ClusterError(f"the Ray cluster has {cores} cores, too few for {workers} workers")
        yield RayCluster(ray, workers or cores)


class Crew:
    """Workers at posts; at a post whose worker is lost a new one does the work again.

    Args:
        ray: the module, connected.
        kind: class of the workers, whose methods are called; it is made in the worker's process.
        arguments: of the class, for each post.
        recall: see :data:`Recall`; asked when a call is made of a new worker.

    Raises:
        ClusterError: workers do not start, or a worker is lost again and again at the same call.
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
        """Call a method of every worker, all at the same time.

        Args:
            method: its name.
            arguments: of the method, for each post.

        Returns:
            What each gave.

        Raises:
            ClusterError: a worker is lost again and again.
        """
        calls = [self._submit(post, method, of) for post, of in enumerate(arguments)]
        try:
            return list(self._ray.get(calls))
        except self._ray.exceptions.RayError:  # of one of them: each is looked at
            running = {call: (post, post) for post, call in enumerate(calls)}
            return self._finish(method, arguments, running, iter(()))

    def each(self, method: str, tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method for each of some tasks, of whichever worker is free.

        Args:
            method: its name.
            tasks: arguments of the calls.

        Returns:
            What came of each task.

        Raises:
            ClusterError: a worker is lost again and again.
        """
        left = iter(range(len(tasks)))
        first = zip(range(len(self._actors)), left, strict=False)
        running = {self._submit(post, method, tasks[task]): (post, task) for post, task in first}
        return self._finish(method, tasks, running, left)

    def processes(self) -> list[int]:
        """Number of each worker's process, on its node."""
        return list(self._ray.get([actor.process.remote() for actor in self._actors]))

    def close(self) -> None:
        """End the workers."""
        for actor in self._actors:
            with suppress(Exception):  # whatever keeps a lost one from being ended
                self._ray.kill(actor)
        self._actors = []

    def _start(self, post: int, **options: Any) -> Any:
        try:
            return self._actor.options(**options).remote(self._kind, self._arguments[post], os.getcwd())
        except TypeError as error:
            why = str(error).strip().splitlines()[0]
            raise ConfigError(f"what the workers need cannot be sent to another process ({why})") from error

    def _await(self) -> None:
        """Until all have started, so that calls find them at work.

        Raises:
            ClusterError: they do not.
        """
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
        """Wait for calls, hand out what is left, and do again what is lost.

        Args:
            method: that is called.
            tasks: arguments of all calls.
            running: calls under way -> their posts and tasks.
            left: tasks that nobody has begun.
        """
        results: list[Any] = [None] * len(tasks)
        while running:
            (done, *_), _ = self._ray.wait(list(running), num_returns=1)
            post, task = running.pop(done)
            try:
                results[task] = self._ray.get(done)
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from error  # what the worker's own code raised
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
        """Give a post a new worker, which claims no core: where a node was lost there may be none.

        Raises:
            ClusterError: it has been lost too often.
        """
        self._lost[post] += 1
        if self._lost[post] > RETRIES:
            raise ClusterError(
                f"a worker was lost {RETRIES + 1} times at the same work ({_ray.last_line(error)}); "
                "the same command goes on from the last checkpoint"
            ) from error
        with suppress(Exception):  # it may live on where only its answer was lost
            self._ray.kill(self._actors[post])
        self._actors[post] = self._start(post, num_cpus=0, scheduling_strategy="SPREAD")


class _Worker:
    """What runs in a worker's process.

    Args:
        kind: class of what does the work; it is made by the first call, which can say what went wrong.
        arguments: of the class.
        folder: where relative paths begin, if the node has such a folder.
    """

    def __init__(self, kind: type[Any], arguments: tuple[Any, ...], folder: str) -> None:
        self._kind, self._arguments, self._made = kind, arguments, None
        with suppress(OSError):
            os.chdir(folder)

    def process(self) -> int:
        """Number of the process."""
        return os.getpid()

    def call(self, before: Call | None, method: str, *arguments: Any) -> Any:
        """Call a method, after another one where a lost worker is taken over from."""
        if self._made is None:
            self._made = self._kind(*self._arguments)
        if before is not None:
            name, of = before
            getattr(self._made, name)(*of)
        return getattr(self._made, method)(*arguments)
