"""Tables of costs and edges from callers, checked and read into arrays.

What cannot be read raises :class:`~hetgym.ProblemError` with the problem's ``name``.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from hetgym._kernels.interpreted import interpreted
from hetgym._kernels.jit import lean
from hetgym._memory import check_memory
from hetgym._types import FloatArray, Int64Array, IntArray, as_numbers
from hetgym.errors import ProblemError

LARGEST = 1e100  # The largest number of a problem, in seconds or bytes, so that sums and quotients of them stay finite
TABLES = 2  # Tables of operators and devices that a new problem makes
MOST_DEVICES = 4096  # Most devices of a problem: each of its five tables between devices then takes at most 128 MiB


def check_devices(d: int, name: str) -> None:
    """Refuse more devices than :data:`MOST_DEVICES` before any table between them is made."""
    if d > MOST_DEVICES:
        raise ProblemError(f"problem {name!r} has {d} devices; a problem has at most {MOST_DEVICES}")


def check_size(n: int, d: int, name: str) -> None:
    """Refuse tables of operators and devices that would not fit into memory, before they are made."""
    needed = TABLES * 8.0 * n * d
    instead = "plan whole layers or merge operators"
    check_memory(f"problem {name!r} has {n} operators and {d} devices", needed, instead, ProblemError)


def columns(edges: Iterable[tuple[int, int, float]] | FloatArray, name: str) -> tuple[IntArray, IntArray, FloatArray]:
    """Split ``(source, target, bytes)`` triples into three columns, [e] each; ends are below 2^31."""
    try:
        given = edges if isinstance(edges, np.ndarray) else [tuple(edge) for edge in edges]
        table = np.array(given, np.float64).reshape(-1, 3)
    except (OverflowError, TypeError, ValueError) as cause:
        raise ProblemError(f"problem {name!r}: edges are not (source, target, bytes) triples ({cause})") from cause
    ends = table[:, :2]
    if not (np.isfinite(ends).all() and (ends == np.floor(ends)).all() and (np.abs(ends) < 2**31).all()):
        raise ProblemError(f"problem {name!r}: edge ends must be operator numbers")
    return ends[:, 0].astype(np.int32), ends[:, 1].astype(np.int32), table[:, 2]


def tensor_ids(source: IntArray, target: IntArray, tensors: Sequence[int] | None, name: str) -> IntArray:
    """[e] tensor ids of edges: the given ones, or a new one for every edge; then no edge may be repeated."""
    if tensors is not None:
        if len(tensors) != len(source):
            raise ProblemError(f"problem {name!r}: {len(tensors)} tensor ids for {len(source)} edges")
        given = as_numbers(tensors, f"problem {name!r}: tensor ids must be whole numbers", ProblemError)
        if not (np.abs(given) < 2**31).all() or (given != np.floor(given)).any():
            raise ProblemError(f"problem {name!r}: tensor ids must be whole numbers below 2^31")
        return given.astype(np.int32)
    order = np.lexsort((target, source))
    twice = (np.diff(source[order]) == 0) & (np.diff(target[order]) == 0)
    if twice.any():
        k = order[int(np.flatnonzero(twice)[0])]
        raise ProblemError(
            f"problem {name!r}: edge {source[k]} -> {target[k]} is given twice; "
            "pass tensors=… if it carries several tensors"
        )
    ids = np.empty(len(source), np.int32)
    ids[order] = np.arange(len(source), dtype=np.int32)
    return ids


def largest_payloads(
    n: int, source: IntArray | Int64Array, payload: FloatArray, tensors: Sequence[int] | None
) -> FloatArray:
    """[n] output bytes of each operator: every tensor counts once, at the size of its largest edge [byte]."""
    if tensors is None:
        inside = (source >= 0) & (source < n)
        return np.asarray(np.bincount(source[inside], payload[inside], n), np.float64)
    ids = np.asarray(tensors)
    largest: dict[tuple[int, int], float] = {}
    for key, size in zip(zip(source.tolist(), ids.tolist(), strict=True), payload.tolist(), strict=True):
        largest[key] = max(largest.get(key, 0.0), size)
    total = np.zeros(n)
    for (operator, _), size in largest.items():
        if 0 <= operator < n:
            total[operator] += size
    return total


def broadcast(value: npt.ArrayLike, shape: tuple[int, ...], what: str, name: str) -> FloatArray:
    """An array of a shape, or one number throughout it."""
    if isinstance(value, float):
        return np.full(shape, value)
    array = as_numbers(value, f"problem {name!r}: {what} does not fit shape {shape}", ProblemError)
    if array.shape not in ((), shape):  # one of one entry would be taken for all
        raise ProblemError(f"problem {name!r}: {what} does not fit shape {shape}; it has shape {array.shape}")
    return np.broadcast_to(array, shape)


@interpreted
@lean
def all_within(values: FloatArray, finite: bool) -> bool:
    """True if all numbers of an array, [k], lie between 0 and :data:`LARGEST` or, unless ``finite``, are infinite."""
    for value in values:  # noqa: SIM110
        if not 0.0 <= value <= LARGEST and (finite or value != np.inf):
            return False
    return True


@interpreted
@lean
def in_order(n: int, source: IntArray, target: IntArray, tensor: IntArray) -> bool:
    """True if edges are sorted by source, target and tensor, none is a loop or double, and all ends are below n."""
    for k in range(len(source)):
        a, b = source[k], target[k]
        if a < 0 or b < 0 or a >= n or b >= n or a == b:
            return False
        if k > 0 and (
            a < source[k - 1]
            or (a == source[k - 1] and (b < target[k - 1] or (b == target[k - 1] and tensor[k] <= tensor[k - 1])))
        ):
            return False
    return True


@interpreted
@lean
def finite_somewhere(cost: FloatArray) -> bool:
    """True if every row of a table has a finite number."""
    for i in range(cost.shape[0]):
        found = False
        for a in range(cost.shape[1]):
            found = found or cost[i, a] < np.inf
        if not found:
            return False
    return True
