"""Methods that know every device by itself, on devices that share memories or take turns."""

from collections.abc import Callable
from functools import wraps

from hetgym._types import IntArray
from hetgym.errors import HetgymError, InvalidSchedule, ProblemError
from hetgym.pipeline.pools import ROUNDING
from hetgym.pipeline.problem import PipelineProblem
from hetgym.pipeline.sharing import rationed, relaxed


def on_shared_devices(method: Callable[..., IntArray]) -> Callable[..., IntArray]:
    """A method that takes a problem without pools and turns, made to know both.

    Its answer without them is the best one if it respects pools and is no slower with turns. Otherwise the pools are
    divided among their devices in many ways, all or one of the devices that take turns are used, and the best answer to
    any of these problems is taken.
    """

    @wraps(method)
    def find(problem: PipelineProblem, *args: object, **options: object) -> IntArray:
        if not problem.pools and not problem.takes_turns.any():
            return method(problem, *args, **options)
        plain = relaxed(problem)
        found = method(plain, *args, **options)
        if respects_pools(problem, found) and problem.max_load(found) <= plain.max_load(found) * ROUNDING:
            return problem.check(found)
        best: tuple[float, float, IntArray] | None = None
        for divided in rationed(problem):
            try:
                loads = problem.loads(devices := method(divided, *args, **options))
            except HetgymError:
                continue
            rank = problem.max_load(devices), float((loads**2).sum())
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
