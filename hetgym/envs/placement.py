"""Placement episodes: the dynamics of ``mode="place"``, apart from Gymnasium and from encoding.

Operators come in the order of their upward rank. A decision books the current one on a device at the
time that HEFT's rule gives; the decoded schedule is then simulated under the environment's runtime.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from hetgym import metrics
from hetgym._jit import jit
from hetgym._types import BoolArray, FloatArray, IntArray, frozen
from hetgym.baselines import critical_path_bound, heft
from hetgym.errors import unknown_name
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.sim import Runtime, batch, ranks, simulate, timeline

DECODES = (*batch.DECODES, "best")
"""How the final placement becomes a schedule; ``best`` takes the shortest of the others."""

COMPLETIONS = ("off", "eft", "eft+oct")
"""What finishes the job in the completion feature: nothing, earliest finish, or the same plus PEFT's
optimistic cost."""


@dataclass(frozen=True)
class Rules:
    """What an episode is played by.

    Attributes:
        runtime: the simulated runtime that prices the final schedule.
        decode: one of :data:`DECODES`.
        completion: one of :data:`COMPLETIONS`.
    """

    runtime: Runtime
    decode: str = "insertion"
    completion: str = "eft+oct"

    def __post_init__(self) -> None:
        if self.decode not in DECODES:
            raise unknown_name("decode", self.decode, DECODES)
        if self.completion not in COMPLETIONS:
            raise unknown_name("completion", self.completion, COMPLETIONS)


class Context(NamedTuple):
    """What an episode needs to know of its problem; computed once a problem.

    Attributes:
        problem: the problem.
        order: [n] operators as they are decided.
        upward, downward: [n] ranks [s].
        optimistic: [n, d] PEFT's optimistic cost to an exit [s].
        tail: [n, d] proven least time from the operator's finish to the end [s].
        bonus: [n, d] what the completion adds to finish times when it compares devices [s].
        legal: [n, d] whether the device can run the operator.
        reference: makespan of HEFT's schedule under the environment's runtime [s].
    """

    problem: Problem
    order: IntArray
    upward: FloatArray
    downward: FloatArray
    optimistic: FloatArray
    tail: FloatArray
    bonus: FloatArray
    legal: BoolArray
    reference: float


def prepare(problem: Problem, rules: Rules) -> Context:
    """Compute a problem's context: ranks, cost tables and the reference makespan."""
    upward = ranks.upward_rank(problem)
    optimistic = ranks.optimistic_cost(problem)
    return Context(
        problem=problem,
        order=ranks.list_order(problem.arrays, upward),
        upward=upward,
        downward=ranks.downward_rank(problem),
        optimistic=optimistic,
        tail=ranks.least_cost_to_exit(problem),
        bonus=optimistic if rules.completion == "eft+oct" else np.zeros_like(optimistic),
        legal=frozen(np.isfinite(problem.cost)),
        reference=simulate(problem, heft(problem), rules.runtime).makespan,
    )


class Candidates(NamedTuple):
    """What a decision would lead to, on each device, in seconds; inf where the device is not legal.

    Attributes:
        ready: [d] arrival of the operator's last input.
        start: [d] when it would start.
        finish: [d] when it would finish.
        bound: [d] proven lower bound on the makespan after the decision.
        completion: [d] makespan if the completion heuristic finished the job.
    """

    ready: FloatArray
    start: FloatArray
    finish: FloatArray
    bound: FloatArray
    completion: FloatArray


@jit
def look_ahead(
    p: ProblemArrays, t: timeline.Timeline, scratch: timeline.Timeline, order: IntArray, step: int, tail: FloatArray,
    bonus: FloatArray, bound: float, insertion: bool, complete: bool, out: Candidates,
) -> None:  # fmt: skip
    """Fill in the candidates of the operator ``order[step]``."""
    d = p.cost.shape[1]
    operator = order[step]
    free = np.full(len(order), -1, np.int32)
    so_far = 0.0
    for k in range(step):
        so_far = max(so_far, t.finish[order[k]])
    for device in range(d):
        duration = p.cost[operator, device]
        if duration == np.inf:
            out.ready[device] = out.start[device] = out.finish[device] = np.inf
            out.bound[device] = out.completion[device] = np.inf
            continue
        ready = timeline.data_ready(p, t, operator, device)
        start = timeline.earliest_start(t, device, ready, duration, insertion)
        out.ready[device] = ready
        out.start[device] = start
        out.finish[device] = start + duration
        out.bound[device] = max(bound, start + duration + tail[operator, device])
        out.completion[device] = out.bound[device]
        if complete:
            timeline.copy_into(t, scratch)
            timeline.book(p, scratch, operator, device, start)
            last = timeline.place_in_order(p, scratch, order[step + 1 :], free, bonus, insertion)
            out.completion[device] = max(so_far, max(out.finish[device], last))


class Episode:
    """One placement episode.

    Attributes:
        context: of the problem.
        step: number of operators that are placed.
        placed: the partial schedule.
        candidates: of the current operator; stale when the episode is over.
        potential: estimate of the makespan that rewards are differences of [s]: the reference at the
            start, a proven lower bound on the way, the makespan at the end.
        schedule: the final schedule, None until then.
        makespan: of the final schedule under the runtime [s].
    """

    def __init__(self, context: Context, rules: Rules) -> None:
        self.context = context
        self.rules = rules
        n, d = context.problem.num_operators, context.problem.num_devices
        self.placed = timeline.new_timeline(n, d)
        self._scratch = timeline.new_timeline(n, d)
        self.candidates = Candidates(*(np.zeros(d) for _ in Candidates._fields))
        self.step = 0
        self.potential = context.reference
        self._bound = 0.0
        self.schedule: Schedule | None = None
        self.makespan = np.nan
        self._look_ahead()

    @property
    def over(self) -> bool:
        """Whether every operator is placed."""
        return self.step == len(self.context.order)

    @property
    def current(self) -> int:
        """The operator to be placed next; the last one when the episode is over."""
        return int(self.context.order[min(self.step, len(self.context.order) - 1)])

    @property
    def legal(self) -> BoolArray:
        """[d] devices that can run the current operator."""
        legal: BoolArray = self.context.legal[self.current]
        return legal

    def fallback(self) -> int:
        """The legal device on which the current operator finishes first, the smaller id on ties."""
        return int(np.argmin(self.candidates.finish))

    def place(self, device: int) -> float:
        """Book the current operator on a legal device.

        Returns:
            By how much the potential fell [s].
        """
        before = self.potential
        arrays = self.context.problem.arrays
        timeline.book(arrays, self.placed, self.current, device, float(self.candidates.start[device]))
        self._bound = float(self.candidates.bound[device])
        self.step += 1
        if self.over:
            self.schedule, self.makespan = self._finish()
            self.potential = self.makespan
        else:
            self.potential = self._bound
            self._look_ahead()
        return before - self.potential

    def _look_ahead(self) -> None:
        c = self.context
        look_ahead(
            c.problem.arrays, self.placed, self._scratch, c.order, self.step, c.tail, c.bonus, self._bound,
            self.rules.decode != "append", self.rules.completion != "off", self.candidates,
        )  # fmt: skip

    def _finish(self) -> tuple[Schedule, float]:
        """Decode the placement and price it; of equal decodes the first in :data:`DECODES` wins."""
        problem, decode = self.context.problem, self.rules.decode
        best: tuple[Schedule, float] | None = None
        for how in batch.DECODES if decode == "best" else (decode,):
            schedule = batch.decode_placement(problem, self.placed.assignment, how)
            makespan = simulate(problem, schedule, self.rules.runtime).makespan
            if best is None or makespan < best[1]:
                best = schedule, makespan
        assert best is not None
        return replace(best[0], scheduler="agent"), best[1]

    def summary(self) -> dict[str, float]:
        """Figures of a finished episode: makespan, reference, SLR and speed-up over one device."""
        problem = self.context.problem
        alone = metrics.single_device_makespan(problem, self.rules.runtime)
        return {
            "makespan": self.makespan,
            "reference": self.context.reference,
            "slr": metrics.schedule_length_ratio(self.makespan, critical_path_bound(problem)),
            "speedup": metrics.speedup(self.makespan, alone),
        }
