"""The shipped planner of training steps: cuts by dynamic programming, improved under the simulated step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hetgym._types import FloatArray
from hetgym.baselines.parallel.cutting import cuts
from hetgym.baselines.parallel.exhaustive import known
from hetgym.baselines.parallel.options import Options, in_flight, options
from hetgym.parallel import Group, ParallelPlan, Stage, TrainingProblem, uniform

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

    Data degrees and micro-batches are taken in the order of a lower bound on their step. Of each, the cuts by dynamic
    programming, which know neither transfers nor all-reduces, and equal cuts are simulated, as long as their estimate
    is shorter than the best step so far. The best are improved: boundaries move, stages take other groups or mixtures
    of them, swap, merge and split, as long as the simulated step gets shorter. The same problem gives the same plan.

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
        found = options(problem, data, batch, mixed=False)
        if found is not None:
            bounds.append((bound(problem, found), len(bounds), found))
    best = np.inf
    for least, _, found in sorted(bounds, key=lambda entry: entry[:2]):
        if least >= best:
            break
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
            space = _Space(problem, known_options(problem, space.found))
            least, state = space.improved(state, value)
            if least < best:
                best, plan = least, space.plan(state)
    return known(plan)


def bound(problem: TrainingProblem, found: Options) -> float:
    """Least time of a step with a data degree and a micro-batch [s].

    A stage is busy for M slots, and one micro-batch must pass all layers. The longest slot is at least that of any
    single layer on its fastest group, and at least the work of all layers, in seconds of GPUs, over what the pools can
    do in that time: with weights w of the pools, the sum over layers of the least w times work, divided by the sum of w
    times GPUs. This holds for all weights; they are chosen so that a layer costs the same everywhere on average.
    """
    each = np.diff(found.slot, axis=1)
    shares, gpus = [], 0.0
    for pool in problem.cluster.pools:
        rows = [row * kind.tensor for kind, row in zip(found.kinds, each, strict=True) if kind.pool == pool.name]
        if rows:
            work = np.min(rows, axis=0)
            weight = 1.0 / max(float(work.mean()), 1e-300)
            shares.append(weight * work)
            gpus += weight * pool.gpus
    fastest = each.min(axis=0)
    longest = max(float(fastest.max()), found.data * float(np.min(shares, axis=0).sum()) / gpus)
    return (found.turns - 1) * longest + float(fastest.sum())


def known_options(problem: TrainingProblem, found: Options) -> Options:
    """The same options, and mixtures behind them."""
    mixed = options(problem, found.data, found.micro_batch)
    assert mixed is not None
    return mixed


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
        return ParallelPlan(stages, self.found.micro_batch, self.problem.global_batch, self.problem.schedule)

    def state(self, plan: ParallelPlan) -> State:
        """The state of a plan whose stages have equal groups."""
        kinds = {self.found.kinds[row[0]]: k for k, row in reversed(list(enumerate(self.found.replicas)))}
        return tuple((stage.first, stage.last + 1, kinds[stage.groups[0]]) for stage in plan.stages)

    def grids(self, below: float) -> Iterator[tuple[float, State]]:
        """Equal cuts on equal groups with their estimates, if these are shorter than ``below``."""
        for stages in range(1, self.stages + 1):
            shape = uniform(self.problem.costs.layers, stages, [self.found.kinds[0]], 1, 1).stages
            for option in range(len(self.found.used)):
                state = tuple((stage.first, stage.last + 1, option) for stage in shape)
                estimate = self.estimate(state)
                if estimate < below:
                    yield estimate, state

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

    def improved(self, state: State, value: object) -> tuple[float, State]:
        """A state without better neighbours, and its value."""
        assert callable(value)
        least, better = value(self, state), True
        while better:
            better = False
            for other in self.neighbours(state):
                if self.estimate(other) < least and value(self, other) < least:
                    least, state, better = value(self, other), other, True
                    break
        return least, state

    def neighbours(self, state: State) -> Iterator[State]:
        """States that differ in one boundary, one stage's option, two neighbouring stages, or one stage more or less."""
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
