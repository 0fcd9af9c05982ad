"""Several jobs on one machine: independent problems that arrive one after the other, and the order to serve them in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray, IntArray
from hetgym.envs.place.instance import heft_makespan
from hetgym.errors import ConfigError
from hetgym.problem import Problem
from hetgym.sim import Runtime
from hetgym.weights import SharedWeights


def side_by_side(problems: Sequence[Problem]) -> Problem:
    """The union of several problems, on the devices and links of the first.

    Args:
        problems: problems with equal numbers of devices; no edge connects one with another.

    Returns:
        The operators of the first problem, then those of the second, and so on; named ``job<k>/<name>``.

    Raises:
        ConfigError: the problems have different numbers of devices.

    >>> one = Problem.from_arrays([[1.0], [2.0]], [(0, 1, 3.0)])
    >>> side_by_side([one, one]).operator_names
    ('job0/op0', 'job0/op1', 'job1/op0', 'job1/op1')
    """
    first = problems[0]
    if len(problems) == 1:
        return first
    counts = {problem.num_devices for problem in problems}
    if len(counts) > 1:
        raise ConfigError(f"jobs on one machine must have the same number of devices, not {sorted(counts)}")
    operators = np.cumsum([0, *(problem.num_operators for problem in problems)])
    tensors = np.cumsum([0, *(int(p.edge_tensor.max(initial=-1)) + 1 for p in problems)])

    def joined(name: str) -> Any:
        return np.concatenate([getattr(problem, name) for problem in problems])

    def moved(name: str, by: Any) -> IntArray:
        return np.concatenate([getattr(p, name) + by[k] for k, p in enumerate(problems)]).astype(np.int32)

    return first.replace(
        cost=joined("cost"),
        edge_source=moved("edge_source", operators),
        edge_target=moved("edge_target", operators),
        edge_bytes=joined("edge_bytes"),
        edge_tensor=moved("edge_tensor", tensors),
        weight_bytes=joined("weight_bytes"),
        output_bytes=joined("output_bytes"),
        operator_names=[f"job{k}/{name}" for k, problem in enumerate(problems) for name in problem.operator_names],
        operator_kinds=[kind for problem in problems for kind in problem.operator_kinds],
        name=" + ".join(problem.name for problem in problems),
        occupancy=joined("occupancy"),
        notes=tuple(dict.fromkeys(note for problem in problems for note in problem.notes)),
        shared_weights=SharedWeights.of(
            int(operators[-1]),
            [
                ([int(operators[k]) + i for i in ids], size)
                for k, problem in enumerate(problems)
                for ids, size in problem.shared_weights.pairs()
            ],
        ),
    )


def arrivals(problems: Sequence[Problem], gap: float, rng: np.random.Generator) -> FloatArray:
    """Arrival times of several jobs' operators: the first job arrives at once, the others in a Poisson process.

    Args:
        gap: mean time from one arrival to the next [s].

    Returns:
        [n] time at which each operator becomes known [s].
    """
    moments = np.cumsum([0.0, *(rng.exponential(gap) for _ in problems[1:])])
    return np.repeat(moments, [problem.num_operators for problem in problems])


class Jobs(NamedTuple):
    """The jobs whose ends the objective averages: all that arrive, or a single one for the whole run."""

    job: IntArray  # [n] job of each operator
    came: FloatArray  # [j] arrival of each job [s]


def deadlines(
    problems: Sequence[Problem], release: FloatArray, factor: float, runtime: Runtime
) -> tuple[Jobs, FloatArray]:
    """All jobs, and [j] their deadlines: the arrival, and a multiple of the makespan of HEFT for the job alone [s].

    Args:
        release: [n] time at which each operator becomes known [s].
    """
    jobs = counted(problems, release, "job-time")
    return jobs, jobs.came + factor * np.array([heft_makespan(problem, runtime) for problem in problems])


def counted(problems: Sequence[Problem], release: FloatArray, objective: str) -> Jobs:
    """The jobs whose ends an objective averages.

    Args:
        release: [n] time at which each operator becomes known [s].
        objective: ``"makespan"`` or ``"job-time"``.
    """
    sizes = [problem.num_operators for problem in problems]
    if objective == "makespan":
        return Jobs(np.zeros(summed(sizes), np.int32), np.zeros(1))
    first = np.cumsum([0, *sizes[:-1]])
    return Jobs(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes), release[first])
