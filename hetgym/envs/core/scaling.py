"""Scaling of features: times as shares of a reference, the same in kernels and in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hetgym._kernels.interpreted import interpreted
from hetgym._kernels.jit import lean, step
from hetgym._types import FloatArray

CLIP = 10.0  # Upper bound of every feature; also the cost of an operator on a device that cannot run it


@step
def share(value: float, scale: float) -> float:
    """A value in units of ``1 / scale``, clipped to ``[0, CLIP]``; infinity gives ``CLIP``."""
    return min(max(value * scale, 0.0), CLIP) if value < np.inf else CLIP


def shares(values: FloatArray | float, scale: float) -> npt.NDArray[np.float32]:
    """As :func:`share`, for an array of any shape."""
    found = np.asarray(values, np.float64)
    finite = np.isfinite(found)
    return np.where(finite, np.clip(np.where(finite, found, 0.0) * scale, 0.0, CLIP), CLIP).astype(np.float32)


@interpreted
@lean
def scale_of(reference: float) -> float:
    """Factor from seconds to features: 1 / reference, or 0 if the reference is 0 [1/s]."""
    return 1.0 / reference if reference > 0 else 0.0
