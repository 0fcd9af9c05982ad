"""Pilot: each decision is judged by the schedule that a heuristic makes of the rest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hetgym._jit import lean, step
from hetgym._types import FloatArray, IntArray
from hetgym.errors import unknown_name
from hetgym.planning import ranks, timeline
from hetgym.planning.evaluation import planned
from hetgym.planning.registry import register
from hetgym.planning.search import Search, check_limits, run
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule

COMPLETIONS = ("insertion", "append")
TIE = 1.0 - 1e-12
"""A completion counts as better than another when it is shorter by more than rounding."""

_CITATION = "Duin, Voss, Networks 34(3), 1999 (pilot method); completion after HEFT and PEFT"
_COMPLEXITY = "O(n p (e p + n log n))"


@register("pilot", kind="search", citation=_CITATION, complexity=_COMPLEXITY)
@register("pilot-eft", kind="search", citation=_CITATION, complexity=_COMPLEXITY, optimistic=False)
@register("pilot-append", kind="search", citation=_CITATION, complexity=_COMPLEXITY, completion="append")
@register(
    "pilot-append-eft", kind="search", citation=_CITATION, complexity=_COMPLEXITY, completion="append", optimistic=False
)
def pilot(
    problem: Problem,
    completion: str = "insertion",
    optimistic: bool = True,
    budget: int = 1_000_000,
    seconds: float | None = None,
) -> Schedule:
    """Try every device for an operator by completing the whole schedule with a heuristic, and keep the best.

    Operators come by falling upward rank. The heuristic places the rest in the same order, each
    where its finish time, or its finish time plus PEFT's optimistic cost to an exit, is least. Its
    own choice stands unless another device gives a shorter schedule (the smaller device of equals),
    so the result is never worse than the heuristic alone. A completion is given up as soon as a
    lower bound shows that it cannot be shorter.

    Args:
        problem: what is to be scheduled.
        completion: ``"insertion"`` fills idle gaps, ``"append"`` does not.
        optimistic: whether the heuristic adds PEFT's optimistic cost when it compares devices.
        budget: most operators placed in completions; when it is spent, the heuristic's choices stand.
        seconds: most wall-clock time [s]; by default none, and results do not depend on the machine.

    Raises:
        UnknownName: no such completion.
        ConfigError: a negative budget, or no time.

    >>> from hetgym.workloads import textbook
    >>> pilot(textbook("topcuoglu")).makespan
    73.0
    """
    began = check_limits("pilot", budget, seconds)
    search = Pilot(problem, completion, optimistic)
    run(search, budget, seconds, began=began)
    return search.schedule()


class Pilot(Search):
    """The search behind :func:`pilot`."""

    def __init__(self, problem: Problem, completion: str = "insertion", optimistic: bool = True) -> None:
        if completion not in COMPLETIONS:
            raise unknown_name("completion", completion, COMPLETIONS)
        n, d = problem.num_operators, problem.num_devices
        self.problem = problem
        self.insertion = completion == "insertion"
        self.order = ranks.list_order(problem.arrays, np.array(ranks.upward_rank(problem)))
        self.bonus = np.array(ranks.optimistic_cost(problem)) if optimistic else np.zeros((n, d))
        self.bound = np.array(ranks.least_cost_to_exit(problem))
        self.free = np.full(n, -1, np.int32)
        self.partial, self.scratch = timeline.new_timeline(n, d), timeline.new_timeline(n, d)
        self.count = np.zeros(2, np.int64)
        self.makespan = timeline.place_in_order(
            problem.arrays, self.scratch, self.order, self.free, self.bonus, self.insertion
        )
        self.choice = self.scratch.assignment.copy()
        self.count[_PLACED] = self.placed = n

    def advance(self, target: int, total: int) -> None:
        """Decide operators until the target is reached; see :meth:`Search.advance`."""
        self.makespan = _decide(
            self.problem.arrays, self.partial, self.scratch, self.order, self.free, self.bonus, self.bound,
            self.insertion, self.choice, self.makespan, self.count, target,
        )  # fmt: skip
        self.placed = int(self.count[_PLACED])
        self.finished = bool(self.count[_STEP] == len(self.order))

    def schedule(self) -> Schedule:
        """The best schedule so far."""
        placed = timeline.new_timeline(self.problem.num_operators, self.problem.num_devices)
        timeline.place_in_order(self.problem.arrays, placed, self.order, self.choice, self.bonus, self.insertion)
        return planned(self.problem, placed)


_PLACED, _STEP = 0, 1  # in count


@lean
def _decide(
    p: ProblemArrays, partial: timeline.Timeline, scratch: timeline.Timeline, order: IntArray, free: IntArray,
    bonus: FloatArray, bound: FloatArray, insertion: bool, choice: IntArray, makespan: float,
    count: npt.NDArray[np.int64], target: int,
) -> float:  # fmt: skip
    """Decide operators one after the other; return the makespan of ``choice``, which stays complete.

    What the heuristic makes of the decisions so far is ``choice``, so its own device for the next
    operator needs no trial.
    """
    n, d = p.cost.shape
    while count[_STEP] < n and count[_PLACED] < target:
        step = count[_STEP]
        operator = order[step]
        for device in range(d):
            if device == choice[operator] or p.cost[operator, device] == np.inf:
                continue
            start = _start(p, partial, operator, device, insertion)
            count[_PLACED] += 1
            limit = makespan * TIE
            if start + p.cost[operator, device] + bound[operator, device] > limit:
                continue
            timeline.copy_into(partial, scratch)
            timeline.book(p, scratch, operator, device, start)
            last, placed = timeline.place_within(p, scratch, order[step + 1 :], free, bonus, insertion, bound, limit)
            count[_PLACED] += placed
            if last < np.inf and timeline.end(scratch) < limit:
                makespan = timeline.end(scratch)
                for i in range(n):
                    choice[i] = scratch.assignment[i]
        device = choice[operator]
        timeline.book(p, partial, operator, device, _start(p, partial, operator, device, insertion))
        count[_STEP] += 1
    return makespan


@step
def _start(p: ProblemArrays, t: timeline.Timeline, operator: int, device: int, insertion: bool) -> float:
    ready = timeline.data_ready(p, t, operator, device)
    return timeline.earliest_start(t, device, ready, p.cost[operator, device], insertion)
