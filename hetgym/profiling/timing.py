"""Timing: repeat until the spread is known, and say what it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hetgym._types import FloatArray


@dataclass(frozen=True, slots=True)
class Timing:
    """What repetitions say.

    Attributes:
        seconds: median [s].
        p10: tenth percentile [s].
        p90: ninetieth percentile [s].
        repetitions: how many there were.
    """

    seconds: float
    p10: float
    p90: float
    repetitions: int

    @classmethod
    def of(cls, samples: FloatArray) -> Timing:
        """Summarise run times [s]."""
        p10, median, p90 = np.quantile(samples, (0.1, 0.5, 0.9))
        return cls(float(median), float(p10), float(p90), len(samples))


def repeat(
    run: Callable[[], float],
    *,
    minimum: int = 9,
    maximum: int = 45,
    precision: float = 0.015,
    budget: float = 0.6,
) -> Timing:
    """Repeat a measurement until its median is known.

    The standard error of a median is about 0.93 times the interquartile range over the root of the
    number of samples (McGill et al., The American Statistician 32(1), 1978).

    Args:
        run: one measurement [s].
        minimum: samples in any case, after two that are thrown away.
        maximum: samples at most.
        precision: standard error of the median over the median at which it stops.
        budget: no further samples once these seconds are spent, beyond a third of the minimum.

    Returns:
        Median and percentiles.
    """
    start = time.perf_counter()
    for _ in range(2):
        run()
    samples: list[float] = []
    while len(samples) < maximum:
        samples.append(run())
        if len(samples) >= max(3, minimum // 3) and time.perf_counter() - start > budget:
            break
        if len(samples) >= minimum:
            low, median, high = np.quantile(samples, (0.25, 0.5, 0.75))
            if 0.93 * (high - low) <= precision * median * len(samples) ** 0.5:
                break
    return Timing.of(np.array(samples))
