"""Executors: where the schedulers of a run run. All else about a run is the same wherever that is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from hetgym.baselines import Baseline
from hetgym.bench.attempt import Attempt, attempt
from hetgym.bench.case import Case

Attempts = Iterator[Attempt | None]
"""One attempt for each scheduler, in their order; None if the run was interrupted before it was done."""


class Executor(Protocol):
    """Attempts every scheduler on every problem, here or elsewhere."""

    @property
    def description(self) -> str:
        """Where it works, for the record."""

    def work(
        self, cases: Iterable[Case], schedulers: Sequence[Baseline], runtimes: Sequence[str]
    ) -> Iterator[tuple[Case, Attempts]]:
        """Every case once, in order, with its attempts, which are all taken before the next case is asked for.

        An executor may take cases ahead of what it yields. Interrupted by Ctrl-C, it either lets
        :class:`KeyboardInterrupt` through at once, or first yields what is done and raises it at the end.

        Args:
            cases: each is built when it is taken; those that could not be built have no attempts.
            schedulers: what is attempted on each.
            runtimes: names of runtime presets.
        """


class Here:
    """In this process, one after the other, so that schedulers do not disturb each other's times."""

    description = "this process"

    def work(
        self, cases: Iterable[Case], schedulers: Sequence[Baseline], runtimes: Sequence[str]
    ) -> Iterator[tuple[Case, Attempts]]:
        """Each attempt is made when it is asked for."""
        for case in cases:
            yield case, self._attempts(case, schedulers, runtimes)

    def _attempts(self, case: Case, schedulers: Sequence[Baseline], runtimes: Sequence[str]) -> Attempts:
        if case.built is not None:
            for baseline in schedulers:
                yield attempt(baseline, case.built[0], runtimes)
