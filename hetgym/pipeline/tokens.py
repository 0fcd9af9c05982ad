"""Tokens: how many of them the caches of layers hold in some bytes, where some attend to a window only."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray


def tokens_within(
    free: npt.ArrayLike, each: npt.ArrayLike, windows: Sequence[tuple[float, npt.ArrayLike]] = ()
) -> FloatArray:
    """Most tokens whose caches fit; infinite where caches stop growing before the bytes are used up.

    All arrays have one shape.

    Args:
        free: bytes for caches.
        each: bytes that a token takes in all caches.
        windows: tokens from which on some caches grow no more, and their part of ``each``.

    >>> tokens_within(1000.0, 10.0), tokens_within(1000.0, 10.0, [(50.0, 8.0)])
    (array(100.), array(300.))
    """
    free, whole = np.asarray(free, np.float64), np.asarray(each, np.float64)
    found, used, rate, begin = np.full(free.shape, np.inf), np.zeros(free.shape), whole, 0.0
    for end, part in (*sorted(windows, key=lambda window: window[0]), (np.inf, whole)):
        grows = (rate > 1e-9 * np.abs(whole)) & np.isinf(found)
        reached = begin + np.divide(free - used, rate, out=np.full(free.shape, np.inf), where=grows)
        found = np.where(grows & (reached <= end), reached, found)
        if end < np.inf:
            used, rate, begin = used + rate * (end - begin), rate - np.asarray(part), end
    return found
