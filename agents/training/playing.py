"""What an update of self-labelling plays on each of its problems, apart from where that is done."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from hetgym._types import IntArray
from hetgym.agents.inference import HeadWeights
from hetgym.agents.place import episodes
from hetgym.agents.place.refinement import Refinement, Refining
from hetgym.agents.place.tokens import View
from hetgym.problem import Problem


class Turn(NamedTuple):
    """What there is to play on a problem, beside the problem itself.

    Attributes:
        embedded: [n, d, h] the problem's embeddings.
        temperatures: of the episodes.
        search: operators that a search places for a first label; 0 for none.
        makespan: of the label [s]; inf before the first visit.
        choice: [n] its devices.
        seed: of the draws.
    """

    embedded: npt.NDArray[np.float32]
    temperatures: tuple[float, ...]
    search: int
    makespan: float
    choice: IntArray
    seed: tuple[int, ...]


class Played(NamedTuple):
    """What came of it.

    Attributes:
        sampled: mean makespan of the episodes [s].
        improved: whether one of them was better than the label that there was.
        makespan: of the label now [s].
        choice: [n] its devices.
        seen: [n, d, F] what the policy sees of the candidates, turn by turn, in the label's episode.
    """

    sampled: float
    improved: bool
    makespan: float
    choice: IntArray
    seen: npt.NDArray[np.float32]


class Players(Protocol):
    """Who plays."""

    def play(
        self, numbers: Sequence[int], on: Sequence[tuple[Problem, View]], turns: Sequence[Turn], head: HeadWeights
    ) -> list[Played]:
        """Play on some problems; what comes of it does not depend on who does.

        Args:
            numbers: by which the problems are known from update to update.
            on: the problems, and what the policy sees of them.
            turns: of each problem.
            head: weights of the policy's head.
        """


class Threads:
    """Threads of this process.

    Args:
        pool: of them.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def play(
        self, numbers: Sequence[int], on: Sequence[tuple[Problem, View]], turns: Sequence[Turn], head: HeadWeights
    ) -> list[Played]:
        """Play; see :class:`Players`."""
        problems, views = zip(*on, strict=True)
        return list(self._pool.map(play, problems, views, turns, repeat(head)))


def play(problem: Problem, view: View, turn: Turn, head: HeadWeights) -> Played:
    """Sample episodes on a problem, keep the best there ever was, and look at it again."""
    embedded = np.ascontiguousarray(turn.embedded, np.float64)
    stage = episodes.set_up(problem, view, embedded, head)
    desk = episodes.new_desk(problem, head)
    label, choice = turn.makespan, turn.choice
    if np.isinf(label) and turn.search:
        label, choice = _searched(problem, view, stage, head, desk, turn.search)
    rng = np.random.default_rng(turn.seed)
    makespans, choices = episodes.sample(problem, stage, head, desk, turn.temperatures, rng)
    best = int(makespans.argmin())
    improved = bool(makespans[best] < label)
    if improved:
        label, choice = float(makespans[best]), choices[best].copy()
    seen = episodes.replay(problem, stage, head, desk, choice).astype(np.float32)
    return Played(float(makespans.mean()), improved, label, choice, seen)


def _searched(
    problem: Problem, view: View, stage: episodes.Stage, head: HeadWeights, desk: episodes.Desk, operators: int
) -> tuple[float, IntArray]:
    """A first label, in the order in which the policy decides."""
    _, choice = episodes.greedy(problem, stage, head, desk)
    search = Refinement(problem, stage, head, choice, view.order, Refining(reorder=0.0))
    search.advance(operators, operators)
    return search.makespan, search.walk.best_assignment.copy()
