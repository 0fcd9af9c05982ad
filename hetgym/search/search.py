"""Searches: schedulers that can be run in parts, within a budget of work or of time."""

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from types import FrameType
from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import compiling
from hetgym._types import FloatArray
from hetgym.errors import ConfigError
from hetgym.planning import capacity
from hetgym.planning.timeline import Timeline, planned
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.sim import Runtime

SLICE = 20_000  # Largest number of operators placed between two readings of the clock
BEGINNING = 0.5  # Share of the time after which a search that is beginning tries no further start

LEAST = 1_000  # Smallest such number, however little time is left: a reading costs as much as placing about a hundred


class Cooling(NamedTuple):
    """First and last temperature, as differences of makespans [s]."""

    hot: float
    cold: float


class Search(ABC):
    """A search in progress."""

    placed: int = 0  # operators placed in trial schedules so far
    makespan: float = np.inf  # of the best schedule so far [s]
    finished: bool = False  # true if more budget would change nothing

    @abstractmethod
    def advance(self, target: int, total: int) -> None:
        """Search until ``placed`` reaches a target, or a little beyond.

        Args:
            target: operators placed at which to return.
            total: operators that will be placed until the search ends; searches with a temperature need it.
        """

    @abstractmethod
    def schedule(self) -> Schedule:
        """The best schedule so far."""

    def proceed(self, placed: int) -> None:
        """Count from a number of operators placed before."""
        self.placed = placed


class Estimated(Search):
    """A search that judges plans by the times of a timeline, and simulates those that it takes for the best.

    Under the classic model the two are the same, and nothing is simulated.
    """

    problem: Problem  # the problem
    runtime: Runtime  # the runtime that will run the schedule
    room: FloatArray  # [d] room for weights on each device with which the first plan fits [byte]
    best: Schedule  # the best schedule whose times were simulated
    estimate: float  # makespan of the best plan by the timeline [s]
    exact: bool  # true under the classic model

    def open(self, problem: Problem, runtime: Runtime, place: Callable[[FloatArray], tuple[Timeline, float]]) -> None:
        """Begin with the first plan that fits.

        Args:
            place: fills a timeline under these capacities for weights [d], in bytes, and returns the makespan, too.

        Raises:
            OutOfMemory: the runtime enforces capacities, and no plan that fits was found.
        """
        self.problem, self.runtime = problem, runtime
        self.exact = runtime.is_classic

        def first(room: FloatArray) -> Schedule:
            self.room = room
            placed, self.estimate = place(room)
            return planned(problem, placed, runtime)

        self.best = capacity.fitted(problem, runtime, first)
        self.makespan, self.placed = self.best.makespan, problem.num_operators

    @abstractmethod
    def decode(self) -> Timeline:
        """The timeline of the best plan by estimate."""

    def improve(self, estimate: float) -> None:
        """Note a new best plan by estimate; it is the search's best if it is also the best that fits."""
        self.estimate = estimate
        if self.exact:
            self.makespan = estimate
            return
        plan = planned(self.problem, self.decode(), self.runtime)
        limited = capacity.limited(self.problem, self.runtime)
        if plan.makespan < self.makespan and not (limited and capacity.missing(self.problem, plan, self.runtime).any()):
            self.best, self.makespan = plan, plan.makespan

    def schedule(self) -> Schedule:
        """The best schedule so far."""
        return planned(self.problem, self.decode()) if self.exact else self.best


def clock() -> float:
    """A clock that stands still while kernels are compiled, which happens once and is not part of a search [s]."""
    return perf_counter() - compiling.seconds


def check_limits(name: str, budget: int, seconds: float | None) -> float:
    """Refuse limits that cannot be a budget; return the :func:`clock`, from which the seconds of :func:`run` count.

    Raises:
        ConfigError: a negative budget, or a time that is not positive.
    """
    if budget < 0:
        raise ConfigError(f"{name}: budget is {budget}; it must not be negative")
    if seconds is not None and not seconds > 0:
        raise ConfigError(f"{name}: seconds is {seconds}; it must be positive")
    return clock()


class Interrupts:
    """What Ctrl-C does to searches; see :func:`ended_by_interrupt`."""

    searching: bool = False  # true while a search is under way
    came: bool = False  # true once Ctrl-C has ended a search

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        if self.came or not self.searching:
            raise KeyboardInterrupt
        self.came = True


_interrupts = Interrupts()


@contextmanager
def ended_by_interrupt() -> Iterator[Interrupts]:
    """Within, Ctrl-C ends the search that is under way, which returns the best that it has found.

    So do other signals that have been given its meaning. A second Ctrl-C, or one while nothing is searched, raises
    :class:`KeyboardInterrupt` as usual. Only the main thread can enter.
    """
    global _interrupts
    outer, _interrupts = _interrupts, Interrupts()
    alike = [number for number in signal.valid_signals() if signal.getsignal(number) is signal.default_int_handler]
    before = {number: signal.signal(number, _interrupts) for number in {signal.SIGINT, *alike}}
    try:
        yield _interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _interrupts = outer


_until: ContextVar[float] = ContextVar("until", default=np.inf)  # see `beginning`, on the clock [s]


@contextmanager
def searching() -> Iterator[Callable[[], bool]]:
    """Within, a search is under way that Ctrl-C may end; yields a function that says whether it should end."""
    outer, _interrupts.searching = _interrupts.searching, True
    try:
        yield lambda: _interrupts.came or clock() >= _until.get()
    finally:
        _interrupts.searching = outer


_tell: ContextVar[Callable[[float], None]] = ContextVar("tell", default=lambda makespan: None)


@contextmanager
def watched(tell: Callable[[float], None]) -> Iterator[None]:
    """Within, searches tell the makespan of their best plan so far, whenever it has become shorter [s]."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


@contextmanager
def beginning(began: float, seconds: float | None) -> Iterator[None]:
    """Within, a search begins: after :data:`BEGINNING` of its time :func:`searching` says that it should end.

    Args:
        began: time from which the seconds count, on the :func:`clock`.
    """
    token = _until.set(np.inf if seconds is None else began + BEGINNING * seconds)
    try:
        yield
    finally:
        _until.reset(token)


def searched(name: str, budget: int, seconds: float | None, begin: Callable[[], Search]) -> Schedule:
    """The best schedule of a search within limits, which include its beginning.

    Args:
        name: name of the scheduler, for messages.
        budget: largest number of operators placed in trial schedules.
        begin: makes the search.

    Raises:
        ConfigError: a negative budget, or a time that is not positive.
    """
    began = check_limits(name, budget, seconds)
    with beginning(began, seconds):
        search = begin()
    run(search, budget, seconds, began=began)
    return search.schedule()


def run(
    search: Search, budget: int, seconds: float | None, points: int = 1, began: float | None = None
) -> list[tuple[int, float, float]]:
    """Search within limits.

    Args:
        search, budget: nothing is done if the search has already placed as many operators in trial schedules.
        points: number of parts in which the budget is spent.
        began: time from which the seconds count, on the :func:`clock`; by default now.

    Returns:
        Operators placed, seconds and best makespan at the start and after each part.
    """
    begin = clock() if began is None else began
    curve = [(search.placed, 0.0 if began is None else clock() - begin, search.makespan)]
    part, total, told = -(-budget // points), budget, np.inf
    with searching() as ended:
        while search.placed < budget and not search.finished and not ended():
            placed, before = curve[-1][:2]
            if seconds is not None:
                left = seconds - before
                if left <= 0:
                    break
                rate = (placed - curve[-2][0]) / max(before - curve[-2][1], 1e-9) if len(curve) > 1 else 0.0
                total = max(1, min(budget, placed + int(rate * left))) if rate else budget
                part = max(1, min(-(-budget // points), SLICE, max(LEAST, int(rate * left))))
            search.advance(min(budget, placed + part), total)
            curve.append((search.placed, clock() - begin, search.makespan))
            if search.makespan < told:
                told = search.makespan
                _tell.get()(told)
    return curve
