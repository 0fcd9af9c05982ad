"""Transfer time: latency + bytes / bandwidth, the one formula of the package.

Latencies are 0 and bandwidths infinite on the diagonal, so a transfer from a device to itself takes
exactly 0 s and needs no case of its own.
"""

from __future__ import annotations

from hetgym._jit import step
from hetgym._types import FloatArray, IntArray
from hetgym.problem import Problem, ProblemArrays


@step
def transfer_time(p: ProblemArrays, a: int, b: int, size: float) -> float:
    """Duration of a transfer that has its route to itself, for kernels [s].

    Args:
        p: the problem.
        a: device that sends.
        b: device that receives; 0 s if it is the same.
        size: payload [byte].
    """
    return float(p.latency[a, b] + size / p.bandwidth[a, b])


def transfer_times(problem: Problem, a: IntArray, b: IntArray, size: FloatArray) -> FloatArray:
    """As :func:`transfer_time` for arrays of transfers, [k] each.

    >>> import numpy as np
    >>> problem = Problem.from_arrays([[1.0, 1.0]], [], latency=0.5, bandwidth=4.0)
    >>> transfer_times(problem, np.array([0, 1]), np.array([1, 1]), np.array([6.0, 6.0]))
    array([2., 0.])
    """
    return problem.latency[a, b] + size / problem.bandwidth[a, b]
