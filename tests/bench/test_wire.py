"""Values sent between processes arrive unchanged, bit for bit."""

from __future__ import annotations

import json

import numpy as np
import pytest
import strategies
from effort import examples
from hypothesis import given

from hetgym import Problem, baselines
from hetgym.bench.attempt import Attempt, attempt
from hetgym.bench.wire import pack_attempt, unpack_attempt
from hetgym.workloads.packing import pack_problem, unpack_problem


@examples(40)
@given(problem=strategies.problems())
def test_problems(problem: Problem) -> None:
    again = unpack_problem(pack_problem(problem))
    assert again.digest == problem.digest
    assert (again.name, again.operator_names, again.device_names) == (
        problem.name,
        problem.operator_names,
        problem.device_names,
    )


@examples(40)
@given(problem=strategies.problems())
def test_attempts(problem: Problem) -> None:
    made = attempt(baselines.get("heft"), problem, ["classic", "links", "framework"])
    again = unpack_attempt(pack_attempt(made), problem)
    assert (again.status, again.seconds, list(again.traces)) == ("ok", made.seconds, list(made.traces))
    for before, after in zip(made.traces.values(), again.traces.values(), strict=True):
        for name in ("assignment", "start", "finish", "sent", "arrived"):
            x, y = getattr(before, name), getattr(after, name)
            assert (y.dtype, y.tobytes()) == (x.dtype, x.tobytes())
        assert [row.tolist() for row in after.order] == [row.tolist() for row in before.order]
        assert after.problem is problem and after.makespan == before.makespan
        assert (after.runtime, after.scheduler, after.switches) == (before.runtime, before.scheduler, before.switches)


def test_failures() -> None:
    problem = Problem.from_arrays([[1.0]], [])
    for made in (Attempt(status="no luck"), Attempt(failures={"links": "no luck there"})):
        assert unpack_attempt(pack_attempt(made), problem) == made


def test_nothing_of_ours_is_among_it() -> None:
    """No transport needs hetgym's code to restore the values."""
    problem = Problem.from_arrays([[1.0, 2.0], [2.0, 1.0]], [(0, 1, 1.0)])
    packed = pack_attempt(attempt(baselines.get("heft"), problem, ["classic"]))

    def plain(value: object) -> object:
        assert isinstance(value, np.ndarray) and value.dtype != object
        return value.tolist()

    json.dumps(packed, default=plain)


def test_a_damaged_problem_is_refused() -> None:
    data = pack_problem(Problem.from_arrays([[1.0]], []))
    with pytest.raises(ValueError, match="archive: not a readable archive"):
        unpack_problem(data[:100])
