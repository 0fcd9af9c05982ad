"""Arrays of numbers from callers."""

import numpy as np

from hetgym._types import FloatArray, numbers
from hetgym.errors import HetgymError


def floats(values: object, error: type[HetgymError], what: str) -> FloatArray:
    """A writable array of numbers that a user gives; an error whose message begins with ``what`` if it is another thing."""
    return np.array(numbers(values, what, error))
