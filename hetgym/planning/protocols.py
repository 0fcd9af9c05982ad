"""Protocols of planning: the types that users implement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hetgym.problem import Problem
    from hetgym.schedule import Schedule


class Scheduler(Protocol):
    """Anything that turns a problem into a schedule: a heuristic, a search, a trained policy, any plain function.

    The problem comes first, by position. Whatever else a scheduler takes has a default, so that ``scheduler(problem)``
    always works; options are named and are fixed before the call, as :func:`hetgym.baselines.get` does. The name
    ``runtime`` is reserved for the runtime that will execute the plan.

    A schedule must pass :func:`hetgym.validate`, and the same problem must give the same schedule.

    >>> from hetgym.planning import place_by_priority
    >>> from hetgym.workloads import textbook
    >>> def longest_first(problem: Problem) -> Schedule:
    ...     return place_by_priority(problem, problem.mean_cost)
    >>> scheduler: Scheduler = longest_first
    >>> scheduler(textbook("topcuoglu")).makespan
    76.0
    """

    def __call__(self, problem: Problem, /) -> Schedule:
        """Schedule a problem.

        The docstrings of schedulers do not repeat what these arguments and errors of theirs mean:

        Other Parameters:
            runtime: the runtime that will run the schedule; a preset's name or a :class:`~hetgym.Runtime`.
            seed: seed of all draws; the same seed gives the same schedule.
            seconds: limit of wall-clock time [s]; without one, the default, results do not depend on the machine.

        Raises:
            OutOfMemory: the runtime enforces capacities, and no plan that fits was found.
        """
        ...
