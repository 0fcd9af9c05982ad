"""Arrays of numbers from callers."""

import numpy as np

from hetgym._types import FloatArray


def floats(values: object, error: type[Exception], what: str) -> FloatArray:
    """A writable array of numbers that a user gives; an error whose message begins with ``what`` if it is none."""
    try:
        return np.array(values, np.float64)
    except (OverflowError, TypeError, ValueError) as cause:
        raise error(f"{what} ({cause})") from cause
