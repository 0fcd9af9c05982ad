"""Pilot: each decision is judged by the schedule to which a heuristic completes it."""

from typing import NamedTuple

import numpy as np

from hetgym._kernels.jit import lean
from hetgym._kernels.records import record
from hetgym._types import FloatArray, Int64Array, IntArray
from hetgym.errors import check_name
from hetgym.planning import ranks, timeline
from hetgym.planning.list_scheduling import place_in_order, place_within
from hetgym.problem import Problem, ProblemArrays
from hetgym.schedule import Schedule
from hetgym.search.search import Estimated, searched
from hetgym.search.walk import TIE
from hetgym.sim import Runtime
from hetgym.sim import runtime as as_runtime

COMPLETIONS = ("insertion", "append")


def pilot(
    problem: Problem,
    completion: str = "insertion",
    optimistic: bool = True,
    budget: int = 1_000_000,
    seconds: float | None = None,
    runtime: str | Runtime = "classic",
) -> Schedule:
    """Try every device for an operator by completing the whole schedule with a heuristic, and keep the best.

    Operators come by descending upward rank. The heuristic places the rest in the same order, each where its finish
    time, or its finish time plus PEFT's optimistic cost to an exit, is least. Its own choice stands unless another
    device gives a shorter schedule (the smaller device of equals), so the result is never worse than the heuristic
    alone. A completion is given up as soon as a lower bound shows that it cannot be shorter.

    Under a runtime other than ``classic`` completions are judged by their booked times, and the best is simulated after
    every decision that found a better one.

    Args:
        completion: ``"insertion"`` fills idle gaps, ``"append"`` does not.
        optimistic: true if the heuristic adds PEFT's optimistic cost when it compares devices.
        budget: largest number of operators placed in completions; when it is spent, the heuristic's choices stand.

    Raises:
        UnknownName: no such completion.
        ConfigError: a negative budget, or a time that is not positive.

    >>> from hetgym.workloads import textbook
    >>> pilot(textbook("topcuoglu")).makespan
    73.0
    """
    return searched("pilot", budget, seconds, lambda: Pilot(problem, completion, optimistic, runtime))


class Pilot(Estimated):
    """The search behind :func:`pilot`."""

    def __init__(
        self,
        problem: Problem,
        completion: str = "insertion",
        optimistic: bool = True,
        runtime: str | Runtime = "classic",
    ) -> None:
        check_name("completion", completion, COMPLETIONS)
        n, d = problem.num_operators, problem.num_devices
        switches = as_runtime(runtime)
        self.insertion = completion == "insertion"
        order = ranks.list_order(problem.arrays, ranks.upward_rank(problem))
        bonus = np.array(ranks.optimistic_cost(problem)) if optimistic else np.zeros((n, d))
        free = np.full(n, -1, np.int32)

        def place(room: FloatArray) -> tuple[timeline.Timeline, float]:
            scratch = timeline.new_timeline(problem, switches, room)
            makespan = place_in_order(problem.arrays, scratch, order, free, bonus, self.insertion)
            self.state = State(
                partial=timeline.new_timeline(problem, switches, room),
                scratch=scratch,
                order=order,
                free=free,
                bonus=bonus,
                bound=np.array(ranks.least_cost_to_exit(problem)),
                choice=scratch.assignment.copy(),
                counts=np.array([n, 0], np.int64),
            )
            return scratch, makespan

        self.open(problem, switches, place)

    def advance(self, target: int, total: int) -> None:
        """Decide operators until the target is reached; see :meth:`Search.advance`."""
        n = self.problem.num_operators
        while self.placed < target and not self.finished:
            until = n if self.exact else int(self.state.counts[DECIDED]) + 1
            found = _decide(self.problem.arrays, self.state, self.insertion, self.estimate, target, until)
            self.placed = int(self.state.counts[PLACED])
            self.finished = bool(self.state.counts[DECIDED] == n)
            if found < self.estimate:
                self.improve(found)

    def decode(self) -> timeline.Timeline:
        """The timeline of the best completion."""
        placed, state = timeline.new_timeline(self.problem, self.runtime), self.state
        place_in_order(self.problem.arrays, placed, state.order, state.choice, state.bonus, self.insertion)
        return placed


@record
class State(NamedTuple):
    """The state of a Pilot search."""

    partial: timeline.Timeline  # the operators that are decided
    scratch: timeline.Timeline  # for completions
    order: IntArray  # [n] the operators by descending upward rank
    free: IntArray  # [n] -1: completions choose every device
    bonus: FloatArray  # [n, d] added to finish times by the heuristic [s]
    bound: FloatArray  # [n, d] a lower bound on the time from an operator's finish to the end [s]
    choice: IntArray  # [n] devices of the best completion, which keeps all decisions so far
    counts: Int64Array  # operators placed in completions, operators decided


PLACED, DECIDED = 0, 1  # in State.counts


# Before each round `partial` holds the first operators of the order, as many as counts[DECIDED], on the devices that
# `choice` gives them, and `choice` is the best completion so far, of the given makespan: the heuristic itself would
# complete `partial` that way, so its own device for the next operator needs no trial. A round tries the operator's
# other devices and decides it. The loop ends when enough operators are decided or the target is reached.
@lean
def _decide(p: ProblemArrays, state: State, insertion: bool, makespan: float, target: int, until: int) -> float:
    """Decide operators one after the other, up to `until`; return the makespan of ``choice`` [s]."""
    n, d = p.cost.shape
    while state.counts[DECIDED] < until and state.counts[PLACED] < target:
        turn = state.counts[DECIDED]
        operator = state.order[turn]
        for device in range(d):
            if device == state.choice[operator] or p.cost[operator, device] == np.inf:
                continue
            if not timeline.fits(state.partial, operator, device):
                continue
            start = timeline.start_on(p, state.partial, operator, device, insertion)
            state.counts[PLACED] += 1
            limit = makespan * TIE
            if start + p.cost[operator, device] + state.bound[operator, device] > limit:
                continue
            timeline.copy_into(state.partial, state.scratch)
            timeline.book(p, state.scratch, operator, device, start)
            rest = state.order[turn + 1 :]
            last, placed = place_within(p, state.scratch, rest, state.free, state.bonus, insertion, state.bound, limit)
            state.counts[PLACED] += placed
            if last < np.inf and timeline.end(state.scratch) < limit:
                makespan = timeline.end(state.scratch)
                for i in range(n):
                    state.choice[i] = state.scratch.assignment[i]
        device = state.choice[operator]
        start = timeline.start_on(p, state.partial, operator, device, insertion)
        timeline.book(p, state.partial, operator, device, start)
        state.counts[DECIDED] += 1
    return makespan
