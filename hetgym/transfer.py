"""Transfer time: latency + bytes / bandwidth, used throughout the package.

Latencies are 0 and bandwidths infinite on the diagonal, so the formula gives exactly 0 s for a transfer from a device
to itself.
"""

from hetgym._kernels.jit import inlined
from hetgym._types import FloatArray, IntArray
from hetgym.problem import Problem, ProblemArrays


@inlined
def transfer_time(p: ProblemArrays, a: int, b: int, size: float) -> float:
    """Duration of a transfer that shares its links with no other, for kernels [s].

    Args:
        a, b, size: device that sends, device that receives (0 s if it is the same), and payload [byte].
    """
    return float(p.latency[a, b] + size / p.bandwidth[a, b])


def transfer_times(problem: Problem, a: IntArray, b: IntArray, size: FloatArray) -> FloatArray:
    """As :func:`transfer_time`, for arrays of k transfers: ``a``, ``b``, ``size`` and the result are [k].

    >>> import numpy as np
    >>> problem = Problem.from_arrays([[1.0, 1.0]], [], latency=0.5, bandwidth=4.0)
    >>> transfer_times(problem, np.array([0, 1]), np.array([1, 1]), np.array([6.0, 6.0]))
    array([2., 0.])
    """
    return problem.latency[a, b] + size / problem.bandwidth[a, b]
