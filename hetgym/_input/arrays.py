"""Arrays of numbers from callers."""

import numpy as np

from hetgym._types import FloatArray, numbers
from hetgym.errors import HetgymError


def floats(values: object, error: type[HetgymError], what: str) -> FloatArray:
    """A writable array of numbers that a user gives; ``error``, which begins with ``what``, about anything else."""
    return np.array(numbers(values, what, error))
