"""Executors, which run the schedulers of a run in this process or elsewhere, with the same rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from hetgym.bench.attempt import Attempt, attempt
from hetgym.bench.case import Case
from hetgym.planning import Baseline

Attempts = Iterator[Attempt | None]
"""One attempt for each scheduler of a batch, in their order; None if the run was interrupted before it was done."""


@dataclass(frozen=True)
class Batch:
    """A problem, and the schedulers that attempt it."""

    case: Case  # the problem; if it could not be built, nothing is attempted
    schedulers: Sequence[Baseline]  # the schedulers, in the order in which they run
    label: str = ""  # name under which progress shows it; by default the problem's


class Executor(Protocol):
    """Attempts every scheduler of every batch, here or elsewhere."""

    @property
    def description(self) -> str:
        """The place where schedulers run, for the record."""

    def work(self, batches: Iterable[Batch], runtimes: Sequence[str]) -> Iterator[tuple[Batch, Attempts]]:
        """Every batch once, in order, with its attempts, which are all taken before the next batch is asked for.

        An executor may take batches ahead of what it yields. Interrupted by Ctrl-C, it either lets
        :class:`KeyboardInterrupt` through at once, or first yields what is done and raises it at the end.
        """


class Here:
    """Executor in this process: one attempt after the other, so that schedulers do not disturb each other's times.

    Quick schedulers are timed up to ``repeats`` times; see :func:`~hetgym.bench.attempt.attempt`.
    """

    description = "this process"

    def __init__(self, repeats: int = 1) -> None:
        self.repeats = repeats

    def work(self, batches: Iterable[Batch], runtimes: Sequence[str]) -> Iterator[tuple[Batch, Attempts]]:
        """Make each attempt when it is requested."""
        for batch in batches:
            yield batch, self._attempts(batch, runtimes)

    def _attempts(self, batch: Batch, runtimes: Sequence[str]) -> Attempts:
        if batch.case.built is not None:
            for baseline in batch.schedulers:
                yield attempt(baseline, batch.case.built[0], runtimes, self.repeats)
