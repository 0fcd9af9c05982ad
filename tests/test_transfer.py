"""The two forms of the transfer time."""

from __future__ import annotations

import numpy as np
import strategies
from hypothesis import given
from hypothesis import strategies as st
from steps import callable_step

from hetgym import Problem
from hetgym.transfer import transfer_time, transfer_times

kernel = callable_step(transfer_time)


@given(problem=strategies.problems(max_operators=1), size=st.floats(0.0, 1e12))
def test_kernels_and_arrays_agree_to_the_last_bit_and_a_device_is_no_way_from_itself(
    problem: Problem, size: float
) -> None:
    d = problem.num_devices
    a, b = (pairs.ravel().astype(np.int32) for pairs in np.meshgrid(range(d), range(d)))
    times = transfer_times(problem, a, b, np.full(d * d, size))
    assert times.tolist() == [kernel(problem.arrays, i, j, size) for i, j in zip(a.tolist(), b.tolist(), strict=True)]
    assert (times[a == b] == 0.0).all()
    assert (times >= problem.latency[a, b]).all()
