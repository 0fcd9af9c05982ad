"""The shipped planner of training steps: cuts by dynamic programming, improved under the simulated step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hetgym._input.config import check_number
from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.baselines.parallel.cutting import coarse, cuts
from hetgym.baselines.parallel.exhaustive import Piece, branch_and_bound, known, pieces, runs
from hetgym.baselines.parallel.options import FEW, Options, in_flight, options
from hetgym.errors import ConfigError
from hetgym.parallel import ParallelPlan, Setting, TrainingProblem
from hetgym.search.search import searching

STARTS = 2  # Cuts of a setting that are simulated
KEPT = 4  # Plans that are improved for each schedule and number of chunks
TRIES = 4000  # Most plans that are simulated in all
SMALL = (12, 16)  # Most layers and GPUs of problems that branch and bound is tried on
NODES = 10_000  # Most nodes of its tree

Value = tuple[float, float]
"""Time of a step [s], inf if it does not fit; and how full its fullest GPU is then, which a search makes smaller."""

State = tuple[Piece, ...]  # Stages, or their chunks in the order of the layers


def search(problem: TrainingProblem, tries: int = TRIES) -> ParallelPlan:
    """The best plan that is found.

    Settings are left out if an estimate of their step from below is not shorter than the best step of their schedule.
    Of the others, the cuts by dynamic programming, which know neither transfers nor all-reduces and count the GPUs of
    large clusters in units of several, and equal cuts are simulated, as long as their estimate is shorter than that
    step. With several chunks, the stages of such a cut share out the layers of every round. The best are improved:
    boundaries move, stages take other groups or mixtures of them, swap, merge and split, as long as the simulated step
    gets shorter, and a plan that does not fit, as long as its fullest GPU gets emptier. The best plan is tried under
    the other switches of the framework that may be chosen. In small problems branch and bound continues from it. The
    same problem gives the same plan.

    Args:
        tries: largest number of plans that are simulated.

    Raises:
        ConfigError: no tries.
        ProblemError: no plan fits in memory, or none was found.
    """
    check_number(tries, "tries", ConfigError, minimum=1)
    with searching() as stopped:
        return _search(problem, tries, stopped)


def _search(problem: TrainingProblem, tries: int, stopped: Callable[[], bool]) -> ParallelPlan:
    """See :func:`search`; it ends when it is stopped."""
    values: dict[tuple[Setting, State], Value] = {}
    starts: list[tuple[Value, int, _Space, State]] = []

    def value(space: _Space, state: State) -> Value:
        key = space.found.setting, state
        if key not in values:
            if len(values) >= tries or stopped():
                return np.inf, np.inf
            seconds = problem.value(plan := space.found.plan(state))
            values[key] = seconds, problem.fullest(plan) if seconds == np.inf else 0.0
        return values[key]

    bounds = []
    for setting in problem.settings():
        found = options(problem, setting, mixed=False) or options(problem, setting)
        if found is not None:
            bounds.append((bound(found), found))
    bests: dict[tuple[str, int], float] = {}
    for least, found in reversed(bounds):  # the largest data degrees, whose cuts are found soonest, come first
        order = found.setting.order
        best = bests.setdefault(order, np.inf)
        if least >= best or stopped():
            continue
        space = _Space(problem, found)
        guesses = space.guesses(best)
        grids = sorted(space.grids(best))
        for estimate, state in sorted(guesses)[:STARTS] + grids:
            if estimate < bests[order]:
                starts.append((value(space, state), len(starts), space, state))
                bests[order] = min(bests[order], starts[-1][0][0])
    best, plan = np.inf, None
    kept: dict[tuple[str, int], int] = {}
    for start, _, space, state in sorted(starts, key=lambda entry: entry[:2]):
        order = space.found.setting.order
        kept[order] = kept.get(order, 0) + 1
        if kept[order] <= KEPT and (start[0] < np.inf or space.chunks > 1):
            mixed = options(problem, space.found.setting)  # begins with those of the space
            assert mixed is not None
            space = _Space(problem, mixed)
            (least, _), state = space.improved(state, value)
            if least < best:
                best, plan = least, space.found.plan(state)
    plan = min(_switched(problem, plan), key=problem.value, default=plan)  # of equals the least switches
    if problem.costs.layers <= SMALL[0] and problem.cluster.gpus <= SMALL[1]:
        plan = branch_and_bound(problem, plan, stopped, NODES)
    return known(plan, problem, stopped(), lambda: any(coarse(problem, found) for _, found in bounds))


def _switched(problem: TrainingProblem, plan: ParallelPlan | None) -> Iterator[ParallelPlan]:
    """A plan under all switches of the framework that may be chosen."""
    if plan is not None and (problem.zeros or problem.sequences):
        known = problem.under(plan).kinds(plan.micro_batch)
        for zero in problem.zeros or (None,):
            for sequence in problem.sequences or (None,):
                other = replace(plan, zero=zero, sequence=sequence)
                if problem.under(other).kinds(plan.micro_batch) == known:
                    yield other


def bound(found: Options) -> float:
    """Least time of a step: a stage is busy for M slots, and a micro-batch must pass the first chunk of all [s]."""
    return (found.turns - 1) * found.longest + float(found.fastest.sum()) / found.setting.chunks


@dataclass
class _Space:
    """Plans of one setting as states."""

    problem: TrainingProblem
    found: Options

    def __post_init__(self) -> None:
        found, problem = self.found, self.problem
        self.slots: FloatArray = found.slots()
        self.held: FloatArray = found.held()
        self.gpus = np.array([pool.gpus for pool in problem.cluster.pools])
        self.stages = min(problem.stages, problem.costs.layers)
        self.chunks, self.schedule = found.setting.chunks, found.setting.schedule
        self.kept = in_flight("1f1b" if self.chunks > 1 else self.schedule, self.stages, found.turns)

    def guesses(self, below: float) -> list[tuple[float, State]]:
        """Cuts by dynamic programming and their estimates, if these are shorter than ``below``."""
        one = replace(self.found, setting=self.found.setting._replace(schedule="1f1b", chunks=1))
        found = [
            (cost, self.state(plan))
            for cost, plan in cuts(self.problem, one if self.chunks > 1 else self.found, below=below)
        ]
        if self.chunks == 1:
            return found
        shapes: list[tuple[list[int], Sequence[float]]] = [
            ([option for _, _, option in plain], [end - first for first, end, _ in plain]) for _, plain in found
        ]
        states = dict.fromkeys(self.spread(*shape) for shape in [*shapes, *self.pairs()])
        return [(self.estimate(state), state) for state in states if state]

    def pairs(self) -> Iterator[tuple[list[int], list[float]]]:
        """Options of few stages and their shares of the layers: as many as possible of one option, then of another.

        Shares are equal, or as the speeds of the options.
        """
        speed = 1.0 / np.maximum(self.slots[:, 0, -1], 1e-300)
        choices = range(len(speed))
        for stages in range(2, min(self.stages, FEW) + 1):
            for a in choices:
                count = int((self.gpus // self.found.used[a].clip(1))[self.found.used[a] > 0].min())
                for b in choices:
                    if 0 < count < stages and a != b:
                        chosen = [a] * count + [b] * (stages - count)
                        for order in (chosen, chosen[::-1]):
                            yield order, speed[order].tolist()
                            yield order, [1.0] * stages

    def spread(self, chosen: list[int], shares: Sequence[float]) -> State:
        """Pieces of every round on the stages, which share out its layers; () if there is no such plan."""
        layers, depth = self.problem.costs.layers, len(chosen)
        if not self.runs(depth) or layers < self.chunks * depth:
            return ()
        parts = np.cumsum(np.tile(shares, self.chunks)) * (layers / (self.chunks * summed(shares)))
        bounds = [0, *np.rint(parts).astype(int).tolist()]
        for k in range(1, len(bounds) - 1):  # a layer for every piece
            bounds[k] = min(max(bounds[k], bounds[k - 1] + 1), layers - (len(bounds) - 1 - k))
        return tuple(pieces(bounds, chosen))

    def runs(self, depth: int) -> bool:
        """True if the schedule exists for a number of stages."""
        setting = self.found.setting
        return runs(setting, depth, self.problem.samples(*setting[:2]))

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
        for stages in range(1, min(self.stages, layers // self.chunks, most) + 1):
            if not self.runs(stages):
                continue
            count = stages * self.chunks
            bounds = [s * (layers // count) + min(s, layers % count) for s in range(count + 1)]
            slots, held = self.slots[:, bounds[:-1], bounds[1:]], self.held[:, bounds[:-1], bounds[1:]]
            loads = slots.reshape(len(used), self.chunks, stages).sum(axis=1)
            estimates = self.time(loads)
            fits = (stages * used <= self.gpus).all(axis=1)
            if self.chunks == 1:
                fits &= (self.kept[stages - 1 :: -1] <= held).all(axis=1)
            for option in np.flatnonzero(fits & (estimates < below)).tolist():
                yield float(estimates[option]), tuple(pieces(bounds, [option] * stages))

    def time(self, loads: FloatArray) -> FloatArray:
        """Time of steps whose stages take [..., p] for a micro-batch, without transfers and all-reduces [s]."""
        longest = loads.max(axis=-1)
        return np.asarray(loads.sum(axis=-1) / self.chunks + (self.found.turns - 1 / self.chunks) * longest)

    def estimate(self, state: State) -> float:
        """The same for a state [s]; inf if the GPUs do not suffice, or for one chunk their memory."""
        depth = len(state) // self.chunks
        used = self.found.used[[option for _, _, option in state[:depth]]].sum(axis=0)
        if depth > self.stages or (used > self.gpus).any():
            return np.inf
        if self.chunks == 1 and any(self.kept[depth - 1 - s] > self.held[o, a, b] for s, (a, b, o) in enumerate(state)):
            return np.inf
        slots = np.array([float(self.slots[option, first, end]) for first, end, option in state])
        return float(self.time(slots.reshape(self.chunks, depth).sum(axis=0)))

    def improved(self, state: State, value: Callable[[_Space, State], Value]) -> tuple[Value, State]:
        """A state without better neighbours, and its value."""
        least, better = value(self, state), True
        while better:
            better = False
            for other in self.neighbours(state):
                if self.estimate(other) < least[0] and value(self, other) < least:
                    least, state, better = value(self, other), other, True
                    break
        return least, state

    def neighbours(self, state: State) -> Iterator[State]:
        """States that differ in one boundary, one stage's option, two neighbouring stages, or by one stage."""
        choices = range(len(self.found.used))
        if self.chunks > 1:
            yield from self.neighbours_of_chunks(state)
            return
        for at in range(len(state) - 1):
            (first, cut, a), (_, end, b) = state[at : at + 2]
            before, behind = state[:at], state[at + 2 :]
            for shift in (1, -1, 2, -2):
                if first < cut + shift < end:
                    yield (*before, (first, cut + shift, a), (cut + shift, end, b), *behind)
            if a != b:
                yield (*before, (first, cut, b), (cut, end, a), *behind)
            for option in (a, b):
                yield (*before, (first, end, option), *behind)
        for at, (first, end, kept) in enumerate(state):
            before, behind = state[:at], state[at + 1 :]
            for option in choices:
                if option != kept:
                    yield (*before, (first, end, option), *behind)
            middle = (first + end + 1) // 2
            if middle < end:
                for option in choices:
                    yield (*before, (first, middle, kept), (middle, end, option), *behind)
                    yield (*before, (first, middle, option), (middle, end, kept), *behind)

    def neighbours_of_chunks(self, state: State) -> Iterator[State]:
        """States that differ in one boundary, one stage's option, two stages' options, or a layer of every chunk."""
        depth = len(state) // self.chunks
        bounds, chosen = [first for first, _, _ in state] + [state[-1][1]], [option for _, _, option in state[:depth]]
        inner = range(1, len(bounds) - 1)
        shifts = [{k: shift} for k in inner for shift in (1, -1, 2, -2)]
        shifts += [{k: a, k + 1: b} for k in inner[:-1] for a in (1, -1) for b in (1, -1)]
        shifts += [{k: shift for k in inner if k % depth == s} for s in range(1, depth) for shift in (1, -1)]
        for shift in shifts:
            moved = [bound + shift.get(k, 0) for k, bound in enumerate(bounds)]
            if all(a < b for a, b in zip(moved, moved[1:], strict=False)):
                yield tuple(pieces(moved, chosen))
        for s in range(depth):
            for option in range(len(self.found.used)):
                if option != chosen[s]:
                    yield tuple(pieces(bounds, [*chosen[:s], option, *chosen[s + 1 :]]))
            for other in range(s):
                if chosen[other] != chosen[s]:
                    swapped = list(chosen)
                    swapped[s], swapped[other] = chosen[other], chosen[s]
                    yield tuple(pieces(bounds, swapped))
