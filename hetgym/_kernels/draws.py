"""Draws: a stream of random numbers of its own for each lane, which kernels read in place of NumPy's generator."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from numba.extending import overload_method

from hetgym._kernels.jit import lean
from hetgym._kernels.records import Record, reader, record

_STEP, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = (np.uint64(bits) for bits in (30, 27, 31, 11))


@record
class Draws(NamedTuple):
    """A generator in kernels, with the method ``random`` of :class:`numpy.random.Generator`.

    SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
    """

    state: npt.NDArray[np.uint64]  # [1]

    def random(self) -> float:
        """The next number in [0, 1)."""
        return _random(self.state)


class Random(Protocol):
    """A source of random numbers in kernels: NumPy's generator, or :class:`Draws`."""

    def random(self) -> float:
        """The next number in [0, 1)."""


def new_draws(seed: int) -> Draws:
    """The stream of a seed, a whole number of 64 bits."""
    return Draws(np.array([seed], np.uint64))


@lean
def _random(state: npt.NDArray[np.uint64]) -> float:
    """The next number in [0, 1)."""
    state[0] += _STEP
    word = state[0]
    word = (word ^ (word >> _30)) * _FIRST
    word = (word ^ (word >> _27)) * _SECOND
    word ^= word >> _31
    return float(word >> _11) * 2.0**-53


@overload_method(Record, "random")
def _random_of(draws):  # type: ignore[no-untyped-def]  # Numba compares the signatures of both functions
    if draws.kind.instance_class is Draws:
        return lambda draws: _random(draws.state)
    return None


read_draws = reader(new_draws(0))
