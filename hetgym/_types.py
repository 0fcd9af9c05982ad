"""Array types shared by the whole package, and how a caller's numbers become arrays."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from hetgym.errors import HetgymError

FloatArray = npt.NDArray[np.float64]
Float32Array = npt.NDArray[np.float32]
Int8Array = npt.NDArray[np.int8]
IntArray = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Scalar = TypeVar("Scalar", bound=np.generic)


def frozen(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Make an array read-only and return it: shared arrays must not change under their readers."""
    array.setflags(write=False)
    return array


def as_numbers(values: object, otherwise: str, error: type[HetgymError]) -> FloatArray:
    """Copy numbers into an array, or raise ``error``, which begins with ``otherwise``."""
    try:
        return np.array(values, np.float64)
    except (OverflowError, TypeError, ValueError) as cause:
        raise error(f"{otherwise} ({cause})") from cause
