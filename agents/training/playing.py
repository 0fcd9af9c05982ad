"""The episodes of an update of self-labelling, independent of the process that plays them."""

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
    """The input of playing on a problem, besides the problem itself."""

    embedded: npt.NDArray[np.float32]  # [n, d, h] the problem's embeddings
    temperatures: tuple[float, ...]  # of the episodes
    search: int  # number of operators that a search places for a first label; 0 for no search
    makespan: float  # of the label [s]; inf before the first visit
    choice: IntArray  # [n] its devices
    seed: tuple[int, ...]  # of the draws


class Played(NamedTuple):
    """The result of playing on a problem."""

    sampled: float  # mean makespan of the episodes [s]
    improved: bool  # true if one of them was better than the previous label
    makespan: float  # of the new label [s]
    choice: IntArray  # [n] its devices
    seen: npt.NDArray[np.float32]  # [n, d, F] features of the candidates, turn by turn, in the label's episode


class Players(Protocol):
    """The workers that play."""

    def play(
        self, numbers: Sequence[int], on: Sequence[tuple[Problem, View]], turns: Sequence[Turn], head: HeadWeights
    ) -> list[Played]:
        """Play on some problems; the results do not depend on the workers.

        Args:
            numbers: numbers that identify the problems from update to update.
            on: the problems, and the policy's views of them.
            turns: the further input for each problem.
        """


class Threads:
    """Threads of this process."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def play(
        self, numbers: Sequence[int], on: Sequence[tuple[Problem, View]], turns: Sequence[Turn], head: HeadWeights
    ) -> list[Played]:
        """Play; see :class:`Players`."""
        problems, views = zip(*on, strict=True)
        return list(self._pool.map(play, problems, views, turns, repeat(head)))


def play(problem: Problem, view: View, turn: Turn, head: HeadWeights) -> Played:
    """Sample episodes on a problem, take the best of them and of the label as new label, and replay it."""
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
    """A first label from a search in the policy's order of decisions: its makespan [s] and devices [n]."""
    _, choice = episodes.greedy(problem, stage, head, desk)
    search = Refinement(problem, stage, head, choice, view.order, Refining(reorder=0.0))
    search.advance(operators, operators)
    return search.makespan, search.walk.best_assignment.copy()
