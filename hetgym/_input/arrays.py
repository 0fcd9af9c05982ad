"""Arrays of numbers from callers."""

import numpy as np

from hetgym._types import FloatArray


def floats(values: object, error: type[Exception], what: str) -> FloatArray:
    """A writable array of what a user gives; an error that says what it is not, if it cannot be one of numbers.

    Args:
        what: begins the message, as in ``"priority is not an array of numbers"``.
    """
    try:
        return np.array(values, np.float64)
    except (OverflowError, TypeError, ValueError) as cause:
        raise error(f"{what} ({cause})") from cause
