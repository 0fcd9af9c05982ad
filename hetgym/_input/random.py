"""Generators of random numbers."""

import numpy as np

from hetgym.errors import ConfigError, shown


def generator(seed: object) -> np.random.Generator:
    """The generator of a seed that a user gives; ConfigError if that is not a whole number of at least 0."""
    if isinstance(seed, bool | np.bool_) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"seed is {shown(seed)}; it must be a non-negative whole number")
    return np.random.default_rng(int(seed))
