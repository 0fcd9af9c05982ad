"""Deadlines: jobs of several operators, and ends at the deadline."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym import Problem, ProblemError, Schedule, simulate
from hetgym.sim.deadlines import lateness

TRACE = simulate(Problem.from_arrays([[2.0], [3.0], [4.0]], []), Schedule([0, 0, 0], order=[[1, 2, 0]]))
"""Ends at 9, 3 and 7 s."""


def test_a_job_ends_with_its_last_operator() -> None:
    late = lateness(TRACE, [7.0, 5.0], [0, 0, 1])
    assert late.tardiness.tolist() == [2.0, 2.0]
    assert lateness(TRACE, [7.0, 5.0], [1, 0, 0]).tardiness.tolist() == [0.0, 4.0]


def test_a_job_that_ends_at_its_deadline_is_in_time() -> None:
    late = lateness(TRACE, [np.inf, 3.0, 6.0])
    assert late.tardiness.tolist() == [0.0, 0.0, 1.0]
    assert (late.miss_rate, late.mean, late.worst) == (1 / 3, 1 / 3, 1.0)


@pytest.mark.parametrize(
    ("due", "job"),
    [([1.0], None), ([1.0, -1.0, 1.0], None), ([np.nan] * 3, None), ([[1.0] * 3], None), ([1.0, 1.0], [0, 0, 0]),
     ([1.0, 1.0], [0, 1, 2]), ([1.0, 1.0], [0.0, 1.0, 1.0]), ("soon", None)],
)  # fmt: skip
def test_deadlines_that_make_no_sense(due: object, job: object) -> None:
    with pytest.raises(ProblemError, match="deadlines"):
        lateness(TRACE, due, job)  # type: ignore[arg-type]
