"""A case: a problem of a run, built, and the reference values of its makespans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hetgym.baselines.trivial import single_device
from hetgym.bench.attempt import sentence
from hetgym.errors import HetgymError
from hetgym.planning.bounds import critical_path_bound, lower_bound
from hetgym.planning.capacity import without_limits
from hetgym.problem import Problem
from hetgym.sim import simulate
from hetgym.workloads import BestKnown, ProblemSpec


class Reference:
    """Reference values of one problem's makespans, each computed once.

    A bound from a table of best-known values is used under the runtimes for which it was proved. The single device has
    memory enough for everything, so that speed-ups are defined where no single one can hold the problem.
    """

    def __init__(self, problem: Problem, runtimes: Sequence[str], known: BestKnown | None = None) -> None:
        share_views(problem)
        self.critical_path = critical_path_bound(problem)
        best = known.best if known else {}
        proved = {runtime: known.bound(runtime) for runtime in runtimes if known and runtime in best}
        self.lower_bound = {
            runtime: max(lower_bound(problem, runtime=runtime), proved.get(runtime, 0.0)) for runtime in runtimes
        }
        self.best_known = {runtime: best[runtime].makespan_s for runtime in runtimes if runtime in best}
        plan = single_device(problem)
        self.single_device = {name: simulate(problem, plan, without_limits(name)).makespan for name in runtimes}


@dataclass(frozen=True)
class Case:
    """A problem whose turn has come."""

    spec: ProblemSpec  # the specification that it was built from
    built: tuple[Problem, Reference] | None  # the problem and its references; None if it cannot be built
    status: str = "ok"  # `"ok"`, or the sentence that says why it cannot

    @classmethod
    def of(cls, spec: ProblemSpec, runtimes: Sequence[str]) -> Case:
        """Build a problem and work out its references; if it cannot be built, the case says why."""
        try:
            return cls.built_of(spec, runtimes)
        except HetgymError as error:
            return cls(spec, None, sentence(error))

    @classmethod
    def built_of(cls, spec: ProblemSpec, runtimes: Sequence[str]) -> Case:
        """Build a problem and work out its references; HetgymError if it cannot be built."""
        problem = spec.build()
        return cls(spec, (problem, Reference(problem, runtimes, spec.known)))


def share_views(problem: Problem) -> None:
    """Build the views of a problem that all schedulers use, so that none of them pays for them."""
    _ = problem.arrays, problem.mean_cost, problem.mean_communication
