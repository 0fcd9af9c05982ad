"""The shipped planner of training steps: cuts by dynamic programming, improved under the simulated step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from hetgym._types import FloatArray
from hetgym.baselines.parallel.cutting import cuts
from hetgym.baselines.parallel.exhaustive import known
from hetgym.baselines.parallel.options import Options, in_flight, options
from hetgym.parallel import Group, ParallelPlan, Stage, TrainingProblem

STARTS = 2
"""Cuts of a data degree and a micro-batch that are simulated."""

KEPT = 4
"""Plans that are improved."""

TRIES = 4000
"""Most plans that are simulated in all."""

State = tuple[tuple[int, int, int], ...]
"""Stages as (first layer, end, option)."""


def search(problem: TrainingProblem, tries: int = TRIES) -> ParallelPlan:
    """The best plan that is found.

    Data degrees and micro-batches are left out if a lower bound on their step is not below the best step so far. Of the
    others, the cuts by dynamic programming, which know neither transfers nor all-reduces, and equal cuts are simulated,
    as long as their estimate is shorter than the best step. The best are improved: boundaries move, stages take other
    groups or mixtures of them, swap, merge and split, as long as the simulated step gets shorter. The same problem
    gives the same plan.

    Args:
        problem: the problem.
        tries: most plans that are simulated.

    Raises:
        ProblemError: no plan fits in memory.
    """
    values: dict[tuple[int, int, State], float] = {}
    starts: list[tuple[float, int, _Space, State]] = []

    def value(space: _Space, state: State) -> float:
        key = space.found.data, space.found.micro_batch, state
        if key not in values:
            values[key] = problem.value(space.plan(state)) if len(values) < tries else np.inf
        return values[key]

    bounds = []
    for data, batch in problem.degrees():
        found = options(problem, data, batch, mixed=False) or options(problem, data, batch)
        if found is not None:
            bounds.append((bound(found), found))
    best = np.inf
    for least, found in reversed(bounds):  # the largest data degrees, whose cuts are found soonest, come first
        if least >= best:
            continue
        space = _Space(problem, found)
        guesses = [(estimate, space.state(plan)) for estimate, plan in cuts(problem, found, below=best)]
        grids = sorted(space.grids(best))
        for estimate, state in sorted(guesses)[:STARTS] + grids:
            if estimate < best:
                starts.append((value(space, state), len(starts), space, state))
                best = min(best, starts[-1][0])
    best, plan = np.inf, None
    for start, _, space, state in sorted(starts, key=lambda entry: entry[:2])[:KEPT]:
        if start < np.inf:
            mixed = options(problem, space.found.data, space.found.micro_batch)  # begins with those of the space
            assert mixed is not None
            space = _Space(problem, mixed)
            least, state = space.improved(state, value)
            if least < best:
                best, plan = least, space.plan(state)
    return known(plan)


def bound(found: Options) -> float:
    """Least time of a step: a stage is busy for M slots, and a micro-batch must pass all layers [s]."""
    return (found.turns - 1) * found.longest + float(found.fastest.sum())


@dataclass
class _Space:
    """Plans of one data degree and micro-batch as states."""

    problem: TrainingProblem
    found: Options

    def __post_init__(self) -> None:
        found, problem = self.found, self.problem
        self.slots: FloatArray = found.slots()
        self.held: FloatArray = found.held()
        self.gpus = np.array([pool.gpus for pool in problem.cluster.pools])
        self.stages = min(problem.stages, problem.costs.layers)
        self.kept = in_flight(problem, self.stages, found.turns)
        self.groups: dict[int, tuple[Group, ...]] = {}

    def plan(self, state: State) -> ParallelPlan:
        """The plan of a state."""
        for _, _, option in state:
            if option not in self.groups:
                self.groups[option] = self.found.groups(option)
        stages = tuple(Stage(first, end - 1, self.groups[option]) for first, end, option in state)
        samples = self.problem.samples(self.found.data, self.found.micro_batch)
        return ParallelPlan(stages, self.found.micro_batch, samples, self.problem.schedule)

    def state(self, plan: ParallelPlan) -> State:
        """The state of a plan of these options."""
        choices = range(len(self.found.used))
        return tuple(
            (stage.first, stage.last + 1, next(k for k in choices if self.found.groups(k) == stage.groups))
            for stage in plan.stages
        )

    def grids(self, below: float) -> Iterator[tuple[float, State]]:
        """Equal cuts with the same option on each stage and their estimates, if these are shorter than ``below``."""
        layers, used = self.problem.costs.layers, self.found.used
        most = int(np.where(used > 0, self.gpus // used.clip(1), self.gpus.sum()).min(axis=1).max())
        for stages in range(1, min(self.stages, most) + 1):
            bounds = [s * (layers // stages) + min(s, layers % stages) for s in range(stages + 1)]
            slots, held = self.slots[:, bounds[:-1], bounds[1:]], self.held[:, bounds[:-1], bounds[1:]]
            estimates = slots.sum(axis=1) + (self.found.turns - 1) * slots.max(axis=1)
            fits = (self.kept[stages - 1 :: -1] <= held).all(axis=1) & (stages * used <= self.gpus).all(axis=1)
            for option in np.flatnonzero(fits & (estimates < below)).tolist():
                spans = zip(bounds, bounds[1:], strict=False)
                yield float(estimates[option]), tuple((first, end, option) for first, end in spans)

    def estimate(self, state: State) -> float:
        """Time of a step without transfers and all-reduces [s]; inf if the GPUs or their memory do not suffice."""
        depth = len(state)
        used = self.found.used[[option for _, _, option in state]].sum(axis=0)
        if depth > self.stages or (used > self.gpus).any():
            return np.inf
        if any(self.kept[depth - 1 - s] > self.held[o, a, b] for s, (a, b, o) in enumerate(state)):
            return np.inf
        slots = [float(self.slots[option, first, end]) for first, end, option in state]
        return sum(slots) + (self.found.turns - 1) * max(slots)

    def improved(self, state: State, value: Callable[[_Space, State], float]) -> tuple[float, State]:
        """A state without better neighbours, and its value."""
        least, better = value(self, state), True
        while better:
            better = False
            for other in self.neighbours(state):
                if self.estimate(other) < least and value(self, other) < least:
                    least, state, better = value(self, other), other, True
                    break
        return least, state

    def neighbours(self, state: State) -> Iterator[State]:
        """States that differ in one boundary, one stage's option, two neighbouring stages, or by one stage."""
        choices = range(len(self.found.used))
        for s in range(len(state) - 1):
            (first, cut, a), (_, end, b) = state[s : s + 2]
            before, behind = state[:s], state[s + 2 :]
            for shift in (1, -1, 2, -2):
                if first < cut + shift < end:
                    yield (*before, (first, cut + shift, a), (cut + shift, end, b), *behind)
            if a != b:
                yield (*before, (first, cut, b), (cut, end, a), *behind)
            for option in (a, b):
                yield (*before, (first, end, option), *behind)
        for s, (first, end, kept) in enumerate(state):
            before, behind = state[:s], state[s + 1 :]
            for option in choices:
                if option != kept:
                    yield (*before, (first, end, option), *behind)
            middle = (first + end + 1) // 2
            if middle < end:
                for option in choices:
                    yield (*before, (first, middle, kept), (middle, end, option), *behind)
                    yield (*before, (first, middle, option), (middle, end, kept), *behind)
