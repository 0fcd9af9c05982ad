"""Executors, which anneal the windows of a round on threads or elsewhere, with the same results.

A window, a seed and what the round asks for determine what becomes of the window, so a round may be shared out in any
way, and a window that is lost may be annealed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from hetgym._input.random import generator
from hetgym._kernels.threads import cores
from hetgym.baselines.region_search import Mix, anneal
from hetgym.problem import ProblemArrays
from hetgym.search import course as courses
from hetgym.search.proposals import Network, sized_proposals
from hetgym.search.search import Cooling
from hetgym.search.windows import Change, Window, change_of
from hetgym.sim.kernel import Switches


class Setting(NamedTuple):
    """What all windows of a search have in common."""

    p: ProblemArrays  # the problem
    network: Network | None  # proposes regions
    switches: Switches


class Work(NamedTuple):
    """What a round asks for in one window."""

    seed: int  # of the draws
    launches: int  # operators launched in trials, at least
    temperature: float  # a difference of makespans [s]
    mix: Mix


class WindowExecutor(Protocol):
    """Anneals windows, here or elsewhere."""

    @property
    def description(self) -> str:
        """The place where windows are annealed, for messages."""

    def anneal(self, cut: Callable[[int], Window], works: Sequence[Work], setting: Setting) -> list[Change]:
        """What :func:`anneal_window` makes of each window of a round, in their order.

        Args:
            cut: cuts a window out of the plan, by its number; threads may cut at the same time.
            setting: the same object in all rounds of a search.
        """


class Threads:
    """Executor in this process; kernels release the interpreter's lock.

    Args:
        count: largest number of threads; by default one for each core of the process.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = count or cores()

    @property
    def description(self) -> str:
        """The number of threads."""
        return f"{self.count} thread{'s' * (self.count != 1)}"

    def anneal(self, cut: Callable[[int], Window], works: Sequence[Work], setting: Setting) -> list[Change]:
        """Cut and anneal each window on the next free thread."""

        def one(number: int) -> Change:
            return anneal_window(cut(number), works[number], setting)

        if min(self.count, len(works)) < 2:
            return [one(number) for number in range(len(works))]
        with ThreadPoolExecutor(min(self.count, len(works))) as pool:
            return list(pool.map(one, range(len(works))))


def anneal_window(window: Window, work: Work, setting: Setting) -> Change:
    """Anneal a window, which has not begun, at one temperature; return what its turns hold then."""
    course, switches = window.course, setting.switches
    courses.begin(window.p, course, switches)
    course.counts[courses.PLACED] = course.counts[courses.TRIED] = course.counts[courses.KEPT] = 0
    guide = sized_proposals(len(window.operators), window.p.cost.shape[1], setting.network)
    goal, cooling = work.launches, Cooling(work.temperature, work.temperature)
    anneal(window.p, course, guide, generator(work.seed), goal, goal, cooling, work.mix, switches)
    return change_of(window, int(course.counts[courses.PLACED]))
