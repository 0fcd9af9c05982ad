"""Deadlines: how late jobs end."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hetgym._text import brief
from hetgym._types import FloatArray
from hetgym.errors import ProblemError
from hetgym.sim.record import Record


@dataclass(frozen=True, eq=False)
class Lateness:
    """The ends of jobs beside their deadlines."""

    tardiness: FloatArray  # [j] time by which each job ends after its deadline; 0 for those in time [s]

    __repr__ = brief

    @property
    def miss_rate(self) -> float:
        """Share of jobs that end after their deadline."""
        return float((self.tardiness > 0).mean())

    @property
    def mean(self) -> float:
        """Mean tardiness [s]."""
        return float(self.tardiness.mean())

    @property
    def worst(self) -> float:
        """Largest tardiness [s]."""
        return float(self.tardiness.max())


def lateness(trace: Record, due: npt.ArrayLike, job: npt.ArrayLike | None = None) -> Lateness:
    """Compare the ends of jobs with their deadlines.

    Args:
        due: [j] deadlines [s]; inf for a job that has none.
        job: [n] job of each operator, 0 to j - 1; by default every operator is a job of its own.

    Raises:
        ProblemError: a deadline that is not a number, negative or NaN; or a job without operators or a deadline.

    >>> from hetgym import Problem, Schedule, simulate
    >>> problem = Problem.from_arrays([[2.0], [3.0]], [])
    >>> late = lateness(simulate(problem, Schedule([0, 0], order=[[0, 1]])), [4.0, 4.0])
    >>> late.tardiness.tolist(), late.miss_rate
    ([0.0, 1.0], 0.5)
    """
    n = trace.problem.num_operators
    try:
        limits = np.asarray(due, np.float64)
        of = np.arange(n) if job is None else np.asarray(job)
    except (OverflowError, TypeError, ValueError) as cause:
        raise ProblemError(f"deadlines or jobs are not an array of numbers ({cause})") from cause
    if limits.ndim != 1 or not (limits >= 0).all():
        raise ProblemError("deadlines must be one time for each job, not negative")
    if of.shape != (n,) or of.dtype.kind not in "iu" or not np.array_equal(np.unique(of), np.arange(len(limits))):
        raise ProblemError(f"{len(limits)} deadlines need {n} operators' jobs, numbered from 0 without a gap")
    end = np.zeros(len(limits))
    np.maximum.at(end, of, trace.finish)
    return Lateness(np.maximum(end - limits, 0.0))
