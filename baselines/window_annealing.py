"""Window annealing: region annealing of large problems, a few windows of the plan at a time.

A sweep divides the plan into windows (:mod:`hetgym.search.windows`), from a random offset on. A round takes some of
them that lie apart, anneals each as if the rest of the plan did not change, and pastes them back. The whole plan is
then simulated; if it has become longer than the Metropolis rule allows, the windows are pasted by halves, and those
that make it too long are taken back. All is counted by launches, and the windows of a round do not see each other:
the plan is the same on every machine, for any number of threads, and on a cluster
(:mod:`hetgym.baselines.window_executors`).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from hetgym._sums import summed
from hetgym.baselines.region_search import LARGE, RegionAnnealing
from hetgym.baselines.window_executors import Setting, Threads, WindowExecutor, Work
from hetgym.errors import ConfigError
from hetgym.planning.starts import WORK
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.search import course as courses
from hetgym.search.device_orders import is_shop
from hetgym.search.proposals import Network
from hetgym.search.windows import Change, Cutter
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime

LENGTH = 512  # Turns of a window
TOGETHER, ROUNDS = 10, (2, 4)
"""Windows of a round, and the fewest and most rounds of a sweep: each round simulates the whole plan, and may keep a
core busy for each of its windows. The problem alone decides how many there are, so that the plan is the same on any
number of cores."""

STINT = 300  # Operators launched in a window's trials between two simulations of the whole plan, for each one in it
SWEEPS = 10  # Fewest sweeps of a search; the stints of a short one are shorter, but no shorter than this:
SHORTEST = 20

UNKNOWN = 2**60  # Budgets beyond this say nothing about how long a search will be


class Resources(NamedTuple):
    """What a search works with; settings of the search itself are elsewhere."""

    network: Network | None = None  # proposes regions
    work: float = WORK  # spent on the start of a large problem, see `best_start`
    executor: WindowExecutor | None = None  # anneals windows; by default on the threads of this process


OWN = Resources()  # Nothing but the process's own threads


class WindowAnnealing(RegionAnnealing):
    """Region annealing in windows, for runtimes without events; see the module.

    Args:
        start: the schedule that is improved, or the name of its scheduler, see
            :func:`~hetgym.baselines.region_annealing.region_annealing`.
        resources: the network, work for the start, and executor.

    Attributes:
        setting: the problem, network and switches that all windows share.
    """

    def __init__(
        self,
        problem: Problem,
        start: str | Schedule = "best",
        seed: int = 0,
        heat: float | None = None,
        cooling: float = 0.01,
        runtime: str | Runtime = "classic",
        resources: Resources = OWN,
    ) -> None:
        network, work, executor = resources
        super().__init__(problem, start, seed, heat, cooling, runtime, helped=network is not None, work=work)
        self.executor = executor or Threads()
        self.setting = Setting(problem.arrays, network, self.switches)
        self.cutter = Cutter(problem, self.course, self.switches)
        self._rounds: list[list[tuple[int, int]]] = []

    @property
    def effort(self) -> int:
        """As for :class:`RegionAnnealing`, whose prices go on to the end of the plan."""
        return self.problem.num_operators * LENGTH

    def advance(self, target: int, total: int) -> None:
        """Anneal until the target is reached; see :meth:`Search.advance`."""
        n = self.problem.num_operators
        while self.placed < target:
            self._round(target, total)
            if self.placed >= self._next:
                self._verify()
                self._next = self.placed + STINT * n
        if self.exact:
            self._verify()

    def _round(self, target: int, total: int) -> None:
        """Anneal the next windows at the same time, and paste them back."""
        turns = self._next_windows()
        stint = max(SHORTEST, min(STINT, total // (SWEEPS * self.problem.num_operators)))
        if total > UNKNOWN:  # the first call of a search with a limit of time
            turns, stint = turns[:1], SHORTEST
        heat = self.cooling_of(total)
        temperature = heat.hot * (heat.cold / heat.hot) ** min(1.0, self.placed / total)
        survey, mix = self.cutter.survey(turns), self.mix_of(total)
        works = [
            Work(int(seed), stint * (end - begin), float(temperature), mix)
            for seed, (begin, end) in zip(self.rng.integers(2**62, size=len(turns)), turns, strict=True)
        ]
        changes = self.executor.anneal(partial(self.cutter.cut, survey), works, self.setting)
        self.placed += summed(change.launched for change in changes)
        before = int(self.course.counts[courses.PLACED])
        self._paste(changes, float(temperature))
        self._settle()
        self.placed += int(self.course.counts[courses.PLACED]) - before

    def _paste(self, changes: list[Change], temperature: float) -> None:
        """Paste windows together if the plan stays short enough, else each half of them by itself."""
        limit = float(self.course.value[courses.CURRENT]) - temperature * np.log(1.0 - self.rng.random())
        if not self.cutter.paste(changes, limit) and len(changes) > 1:
            half = len(changes) // 2
            self._paste(changes[:half], temperature)
            self._paste(changes[half:], temperature)

    def _settle(self) -> None:
        """Bring the plan into the order of finishes; once a sweep, as it takes another simulation of the whole plan."""
        if not self._rounds:
            courses.sort_now(self.problem.arrays, self.course, self.switches)

    def _next_windows(self) -> list[tuple[int, int]]:
        """The windows of the next round: their first turns, and the ones behind the last."""
        if not self._rounds:
            spans = divided(self.problem.num_operators, int(self.rng.integers(LENGTH // courses.GRID)) * courses.GRID)
            rounds = min(max(len(spans) // TOGETHER, ROUNDS[0]), ROUNDS[1])
            self._rounds = [spans[number::rounds] for number in self.rng.permutation(rounds)]
        return self._rounds.pop()


def divided(n: int, offset: int) -> list[tuple[int, int]]:
    """Windows of n turns, the first one behind an offset: first turns, and those behind the last.

    Turns before the offset, and those left at the end, are windows of their own unless they are few.

    >>> divided(1500, 64)
    [(0, 576), (576, 1088), (1088, 1500)]
    """
    few = LENGTH // 4
    cuts = [0, *(cut for cut in range(offset, n - few, LENGTH) if cut > few), n]
    return list(zip(cuts, cuts[1:], strict=False))


def check_windows(problem: Problem, runtime: str | Runtime) -> None:
    """Refuse an executor where nothing is searched in windows.

    Raises:
        ConfigError: the problem is small, or a job shop under the classic model.
    """
    why = ""
    if problem.num_operators < LARGE:
        why = f"has {problem.num_operators:,} operators, and problems of fewer than {LARGE:,}"
    elif is_shop(problem) and as_runtime(runtime).is_classic:
        why = "is a shop, and shops under the classic model"
    if why:
        raise ConfigError(f"{problem.name} {why} are not searched in windows, so a cluster is of no use; leave it out")
