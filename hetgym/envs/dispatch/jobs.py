"""Several jobs on one machine: independent problems that arrive one after the other, and the order to serve them in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hetgym._input.files import as_path, read_text
from hetgym._text import brief
from hetgym._types import FloatArray, IntArray, as_numbers
from hetgym.errors import ConfigError, shown
from hetgym.problem import Problem
from hetgym.weights import SharedWeights

_LARGEST = 1 << 26  # Most bytes of a file of times
_NAMED = 64  # Most problems whose names the name of all together has


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

    names = [problem.name for problem in problems]

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
        name=" + ".join([*names[:_NAMED], *([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])]),
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


_OWN = (
    "cost", "edge_source", "edge_target", "edge_bytes", "edge_tensor", "weight_bytes", "output_bytes",
    "operator_names", "operator_kinds", "name", "occupancy", "notes", "shared_weights",
)  # fmt: skip
"""What a job has of its own; all else is its machine's."""


def apart(problems: Sequence[Problem]) -> list[Problem]:
    """The problems that :func:`side_by_side` joins, each by itself on the devices and links of the first."""
    first, *others = problems
    return [first, *(first.replace(**{name: getattr(one, name) for name in _OWN}) for one in others)]


def nonnegative(name: str, values: Any) -> FloatArray | None:
    """An array of numbers from a list; None stays None. Raises ConfigError: not a list of finite numbers from 0 on."""
    if values is None:
        return None
    found = as_numbers(values, f"{name} is not a list of numbers", ConfigError)
    if found.ndim != 1 or not len(found) or not (np.isfinite(found) & (found >= 0)).all():
        raise ConfigError(f"{name} is {shown(values)}; it must be a list of finite numbers, none of them negative")
    return found


def times_of(path: str | os.PathLike[str]) -> list[str]:
    """The words of a file of times [s], which blanks, commas or line ends separate; text after ``#`` is a comment.

    Raises:
        ConfigError: the file cannot be read.
    """
    text = read_text(as_path(path, "a file of times", ConfigError), _LARGEST, ConfigError)
    return [word for line in text.splitlines() for word in line.partition("#")[0].replace(",", " ").split()]


def poisson(count: int, gap: float, rng: np.random.Generator) -> FloatArray:
    """[count] arrivals of jobs [s]: the first at once, the others in a Poisson process of a mean gap [s]."""
    return np.cumsum([0.0, *(rng.exponential(gap) for _ in range(count - 1))])


def mean_work(problems: Sequence[Problem]) -> float:
    """Mean work of problems: the time that all operators of one take, shared out among the devices [s]."""
    return float(np.mean([problem.mean_cost.sum() / problem.num_devices for problem in problems]))


class Jobs(NamedTuple):
    """Jobs: all that arrive, or a single one for the whole run."""

    job: IntArray  # [n] job of each operator
    came: FloatArray  # [j] arrival of each job [s]
    weight: FloatArray  # [j] weight of each job


@dataclass(frozen=True, eq=False, slots=True)
class JobTimes:
    """The times that the jobs of an episode took."""

    arrival: FloatArray  # [j] time at which each job arrived [s]
    end: FloatArray  # [j] time at which its last operator finished [s]
    weight: FloatArray  # [j] its weight

    __repr__ = brief

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JobTimes):
            return False
        pairs = ((self.arrival, other.arrival), (self.end, other.end), (self.weight, other.weight))
        return all(np.array_equal(mine, its) for mine, its in pairs)

    @property
    def flow(self) -> FloatArray:
        """[j] flow time of each job, from its arrival to its end [s]."""
        return self.end - self.arrival


def job_times(jobs: Jobs, finish: FloatArray) -> JobTimes:
    """The times that jobs took, by the finish of each operator [n] [s]."""
    end = np.zeros(len(jobs.came))
    if len(end) == 1:
        end[0] = finish.max()
    else:
        np.maximum.at(end, jobs.job, finish)
    return JobTimes(jobs.came, end, jobs.weight)


def arriving(problems: Sequence[Problem], release: FloatArray, weights: FloatArray | None = None) -> Jobs:
    """The jobs that arrive: the problems, or the connected components of a single one.

    Args:
        release: [n] time at which each operator becomes known [s].
        weights: [j] weights of the jobs; None: they are equal.

    Raises:
        ConfigError: another number of weights than of jobs.
    """
    sizes = [problem.num_operators for problem in problems]
    several = len(problems) > 1
    job = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes) if several else problems[0].component
    return jobs_of(job, release, weights)


def jobs_of(job: IntArray, release: FloatArray, weights: FloatArray | None = None) -> Jobs:
    """Jobs by the job of each operator [n] and the time at which it becomes known [n] [s]; see :func:`arriving`."""
    count = int(job.max()) + 1
    came = np.full(count, np.inf)
    np.minimum.at(came, job, release)
    if weights is not None and len(weights) != count:
        raise ConfigError(f"{len(weights)} weights for {count} jobs; give one for each")
    if weights is not None and not (weights > 0).all():
        raise ConfigError(f"weights must be positive, not {shown(weights.min())}")
    return Jobs(job, came, np.ones(count) if weights is None else weights)


def together(jobs: Jobs) -> Jobs:
    """All operators as one job from time 0 on, whose end is the makespan."""
    return Jobs(np.zeros_like(jobs.job), np.zeros(1), np.ones(1))
