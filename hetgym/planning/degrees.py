"""Weighted out-degrees: the priorities of DONF, and of its relatives, which count successors' degrees too."""

import math

import numpy as np

from hetgym._kernels.jit import jit
from hetgym._types import FloatArray, IntArray
from hetgym.errors import ConfigError
from hetgym.problem import Problem, ProblemArrays

_NOTHING = -(1 << 30)  # Exponent of 0, below that of any number


@jit
def _weighted_out_degree(p: ProblemArrays) -> FloatArray:
    n = len(p.position)
    degree = np.zeros(n)
    for i in range(n):
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            degree[i] += 1.0 / (p.predecessor_pointer[j + 1] - p.predecessor_pointer[j])
    return degree


def weighted_out_degree(problem: Problem) -> FloatArray:
    """[n] DONF's priority: the sum over successors of one over their in-degree.

    An operator that alone holds up many others scores high. Only direct successors matter, so graphs may still grow.

    Source: Lin, Li, Jia, Liu, An, J. Comput. Sci. Technol. 34(5), 2019.
    """
    return _weighted_out_degree(problem.arrays)


def two_level_out_degree(problem: Problem, alpha: float = 0.5) -> FloatArray:
    """[n] DONF2's priority: WOD(i) plus alpha times the sum of its successors' WOD.

    Raises:
        ConfigError: alpha is negative or not finite.
    """
    _check(alpha)
    degree = weighted_out_degree(problem)
    second = np.bincount(problem.edge_source, degree[problem.edge_target], minlength=problem.num_operators)
    return np.asarray(degree + alpha * second, np.float64)


def nested_out_degree(problem: Problem, alpha: float = 0.5) -> FloatArray:
    """[n] the order of ADON's priority, A(i) = WOD(i) + alpha · sum of its successors' A, as whole numbers.

    Where operators have more than 1 / alpha successors, A grows geometrically from the exits on and overflows float64.
    It is kept as mantissa and exponent; equal values share a number.

    Raises:
        ConfigError: alpha is negative or not finite.
    """
    _check(alpha)
    mantissa, exponent = _nested(problem.arrays, weighted_out_degree(problem), float(alpha))
    order = np.lexsort((mantissa, exponent))
    rises = (np.diff(mantissa[order]) != 0) | (np.diff(exponent[order]) != 0)
    place = np.empty(len(order))
    place[order] = np.concatenate([[0], np.cumsum(rises)])
    return place


def _check(alpha: float) -> None:
    if not 0 <= alpha < math.inf:
        raise ConfigError(f"alpha is {alpha}; it must be a finite number, not negative")


@jit
def _nested(p: ProblemArrays, degree: FloatArray, alpha: float) -> tuple[FloatArray, IntArray]:
    n = len(degree)
    mantissa = np.zeros(n)
    exponent = np.full(n, _NOTHING, np.int32)
    for k in range(n - 1, -1, -1):
        i = p.topological_order[k]
        scale = 0
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            scale = max(scale, exponent[p.successor[edge]])
        total = 0.0
        for edge in range(p.successor_pointer[i], p.successor_pointer[i + 1]):
            j = p.successor[edge]
            total += math.ldexp(mantissa[j], exponent[j] - scale)
        total = math.ldexp(degree[i], -scale) + alpha * total
        if total > 0.0:
            mantissa[i], shift = math.frexp(total)
            exponent[i] = shift + scale
    return mantissa, exponent
