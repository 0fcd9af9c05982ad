"""Methods that know the memory of every device by itself, on devices that share memories."""

from collections.abc import Callable
from functools import wraps

from hetgym._types import IntArray
from hetgym.errors import HetgymError, InvalidSchedule, ProblemError
from hetgym.pipeline.pools import exceeded
from hetgym.pipeline.problem import PipelineProblem
from hetgym.pipeline.sharing import rationed, relaxed


def within_pools(method: Callable[..., IntArray]) -> Callable[..., IntArray]:
    """A method that takes a problem without pools, made to respect pools.

    Its answer to the problem without pools is the best one if it respects them. Otherwise the pools are divided among
    their devices in many ways, and the best answer to any of these problems is taken.
    """

    @wraps(method)
    def find(problem: PipelineProblem, *args: object, **options: object) -> IntArray:
        if not problem.pools:
            return method(problem, *args, **options)
        found = method(relaxed(problem), *args, **options)
        if exceeded(problem.pools, problem.held(found)) is None:
            return problem.check(found)
        best: tuple[float, float, IntArray] | None = None
        for divided in rationed(problem):
            try:
                loads = problem.loads(devices := method(divided, *args, **options))
            except HetgymError:
                continue
            rank = float(loads.max()), float((loads**2).sum())
            if best is None or rank < best[:2]:
                best = (*rank, devices)
        if best is None:
            raise ProblemError(f"pipeline {problem.name!r}: no cut fits into memory; {problem.lacks()}")
        return best[2]

    return find


def respects_pools(problem: PipelineProblem, assignment: IntArray) -> bool:
    """True if an assignment is legal."""
    try:
        problem.check(assignment)
    except InvalidSchedule:
        return False
    return True
