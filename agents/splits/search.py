"""SplitSearch: local search over the splits of a graph; a network judges moves before they are priced."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hetgym._input.random import generator
from hetgym.agents.splits.moves import FEATURES, Plan, draw_moves, log_odds, new_moves
from hetgym.agents.splits.tables import new_tables
from hetgym.baselines import get
from hetgym.envs.split.assembly import Assembly
from hetgym.envs.split.instance import SplitInstance
from hetgym.envs.split.menu import Choice
from hetgym.errors import OutOfMemory, ProblemError
from hetgym.planning.critical import critical_chain, find_chain
from hetgym.planning.ranks import assigned_bottom_level
from hetgym.planning.timeline import Timeline
from hetgym.search.proposals import Network
from hetgym.sim import Runtime, Trace, simulate

DRAWS = 128  # Moves that are drawn for each that is priced
UNGUIDED = 0.1  # Share of the moves that are taken without the network

SHARPNESS = 6.0
"""Power to which the odds of moves are raised before one is drawn: at 1 too many are taken that hardly pay."""

BARREN = 20  # Rounds of draws without a new plan after which a search is over
WORTH = 0.002  # Share of the makespan that a move saves which counts a half in training
LEAST_SAVING = 1e-9  # Share of the makespan that a move must save to have saved anything
Entries = tuple[int, ...]  # [k] the entry of the menu of each key operator


class Ground:
    """An instance whose key operators may be split by the entries of a menu; several searches may share it."""

    def __init__(self, instance: SplitInstance, menu: Sequence[Choice]) -> None:
        self.instance, self.tables, self.assembly = instance, new_tables(instance, menu), Assembly(instance, menu)


class SplitSearch:
    """A search in progress.

    It begins with the best of the unsplit graph and the *patterns*. In most of them all key operators that allow it
    are split by one entry of the menu; in two each has the entry with which it takes the least time, without or with
    dealing out and gathering, whatever its neighbours do. Then operators that are split alike get another entry,
    together (:mod:`hetgym.agents.splits.moves`). Every plan is priced by the inner scheduler.

    Args:
        network: judges the moves; None to draw them with equal probability.
        starts: further plans to begin with.
        watched: share of the draws whose moves are all priced, for :meth:`rows`.

    Attributes:
        best: the best entries so far; their makespan is ``makespan`` [s].
        patterns: number of plans with which the search begins.
        finished: true if no move gives a plan that was not priced yet.
    """

    def __init__(
        self,
        ground: Ground,
        scheduler: str,
        runtime: Runtime,
        network: Network | None = None,
        seed: int = 0,
        starts: Sequence[Entries] = (),
        watched: float = 0.0,
    ) -> None:
        self.instance, self.tables, self._assembly = ground.instance, ground.tables, ground.assembly
        self.runtime, self.network, self.scheduler = runtime, network, get(scheduler)
        self._exact = scheduler == "heft" and runtime.is_classic  # then no problem is made
        keys, entries = self.tables.legal.shape
        self._rng = generator(seed)
        self._moves = new_moves(DRAWS, keys)
        self._odds = np.zeros(DRAWS)
        self._known: dict[Entries, float] = {}
        self._refused = np.zeros(self.tables.legal.shape)
        self._rows: list[npt.NDArray[np.float32]] = []
        self._worth: list[float] = []
        self._watched = watched
        self.best: Entries = (0,) * keys
        self.makespan = self._price(self.best)
        self.finished = False
        self._plan: Plan | None = None
        self._patterns = [
            tuple(np.where(self.tables.legal[:, entry], entry, 0).tolist())
            for entry in range(1, entries)
            if self.tables.legal[:, entry].any()
        ]
        for seconds in (self.tables.together, self.tables.alone):
            self._patterns.append(tuple(np.where(self.tables.legal, seconds, np.inf).argmin(axis=1).tolist()))
        self._patterns = list(dict.fromkeys(found for found in (*self._patterns, *starts) if any(found)))
        self.patterns = 1 + len(self._patterns)

    @property
    def priced(self) -> int:
        """Number of plans that were priced."""
        return len(self._known)

    def advance(self, target: int) -> None:
        """Search until `target` plans are priced, the unsplit graph and the patterns included."""
        while self._patterns and self.priced < target:
            self._take(self._patterns.pop(0))
        barren = 0
        while self.priced < target and not self.finished:
            found = self._propose()
            barren = barren + 1 if found is None else 0
            self.finished = barren == BARREN
            if found is not None:
                self._try(*found)

    def rows(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """The inputs [r, f] and worths [r] of all moves of the draws that were watched."""
        inputs = np.array(self._rows, np.float32).reshape(-1, len(FEATURES))
        return inputs, np.array(self._worth, np.float32)

    def _price(self, entries: Entries) -> float:
        """Makespan of a plan [s], which is known from now on; inf if the inner scheduler finds none."""
        if entries not in self._known:
            self._known[entries] = self._simulated(entries)
        return self._known[entries]

    def _simulated(self, entries: Entries) -> float:
        """Makespan of a plan [s]; inf if the inner scheduler finds none."""
        if self._exact:
            priced = self._assembly.price(entries)
            return np.inf if priced is None else priced[0]
        try:
            problem, _ = self._assembly.problem(entries)
            return simulate(problem, self.scheduler(problem), self.runtime).makespan
        except (ProblemError, OutOfMemory):
            return np.inf

    def _take(self, entries: Entries) -> bool:
        """Price a plan, and go on from it if it is not longer; true if it is taken."""
        price = self._price(entries)
        if price > self.makespan:
            return False
        self.best, self.makespan, self._plan = entries, price, None
        return True

    def _propose(self) -> tuple[Entries, int] | None:
        """The entries after a move whose price is not known, and its number; None if no draw gives one."""
        if self._plan is None:
            self._plan = self._view()
        moves, rng = self._moves, self._rng
        draw_moves(self.tables, self._plan, moves, rng)
        if self._watched > 0.0 and rng.random() < self._watched:
            self._watch()
        if self.network is not None and rng.random() >= UNGUIDED:
            log_odds(*self.network, moves.inputs, self._odds)
            keys = SHARPNESS * self._odds + rng.gumbel(size=DRAWS)
        else:
            keys = rng.random(DRAWS)
        for move in np.argsort(-keys, kind="stable").tolist():
            if moves.number[move]:
                found = self._moved(move)
                if found not in self._known:
                    return found, move
        return None

    def _moved(self, move: int) -> Entries:
        """The entries after a move."""
        entries = list(self.best)
        for k in self._moves.operators[move, : self._moves.number[move]].tolist():
            entries[k] = int(self._moves.entry[move])
        return tuple(entries)

    def _watch(self) -> None:
        """Price all moves of a draw; the search continues as if it had not seen them."""
        for move in np.flatnonzero(self._moves.number).tolist():
            saved = 1.0 - self._simulated(self._moved(move)) / self.makespan
            self._rows.append(self._moves.inputs[move].astype(np.float32))
            self._worth.append(saved / (saved + WORTH) if saved > LEAST_SAVING else 0.0)

    def _try(self, entries: Entries, move: int) -> None:
        """Price a move, and note what became of it."""
        tables, moves = self.tables, self._moves
        operators = moves.operators[move, : moves.number[move]].copy()
        if self._take(entries):
            self._refused[operators] = 0.0
            for k in operators.tolist():
                self._refused[tables.neighbour[tables.neighbour_pointer[k] : tables.neighbour_pointer[k + 1]]] = 0.0
        else:
            self._refused[operators[0], moves.entry[move]] += 1.0

    def _view(self) -> Plan:
        """What the moves see of the current plan."""
        placed: Timeline | Trace
        if self._exact:
            arrays, placed, places = self._assembly.timeline(self.best)
            assignment, chain = placed.assignment, np.empty(len(placed.start), np.int32)
            chain = chain[: find_chain(arrays, placed, chain)]
        else:
            problem, places = self._assembly.problem(self.best)
            schedule = self.scheduler(problem)
            arrays, assignment = problem.arrays, schedule.assignment
            placed, chain = simulate(problem, schedule, self.runtime), critical_chain(problem, schedule, self.runtime)
        start, finish, offset = placed.start, placed.finish, places.offset
        keys, makespan = list(self.instance.keys), self.makespan
        block = np.repeat(np.arange(len(offset) - 1), np.diff(offset))
        behind = np.append(start[chain[1:]], makespan)
        waited = np.zeros(len(offset) - 1)
        np.add.at(waited, block[chain], np.maximum(0.0, behind - start[chain]))
        level = assigned_bottom_level(arrays, assignment)
        slack = np.minimum.reduceat(makespan - start - level, offset[:-1])
        busy = np.maximum.reduceat(finish, offset[:-1]) - np.minimum.reduceat(start, offset[:-1])
        lateness = np.zeros(len(keys))
        for k, entry in enumerate(self.best):
            option = self.instance.options[k][entry]
            if option is not None and option.least < option.largest:
                first = places.first[keys[k]]
                small, large = int(np.argmin(option.lengths)), int(np.argmax(option.lengths))
                lateness[k] = finish[first + small] - finish[first + large]
        n, d = arrays.cost.shape
        load = np.bincount(assignment, arrays.cost[np.arange(n), assignment], minlength=d)
        shares = load / max(makespan, 1e-30)
        best, value = np.array(self.best, np.int32), np.array([makespan, shares.max(), shares.min()])
        return Plan(best, waited[keys], busy[keys], np.maximum(0.0, slack[keys]), lateness, self._refused, value)
