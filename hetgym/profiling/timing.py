"""Timing: repetition of a measurement until its median is known precisely enough."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hetgym._types import FloatArray


@dataclass(frozen=True, slots=True)
class Timing:
    """Summary of repeated measurements.

    Attributes:
        seconds: median [s].
        p10: tenth percentile [s].
        p90: ninetieth percentile [s].
        repetitions: number of measurements.
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
    """Repeat a measurement until its median is precise enough.

    The standard error of a median is about 0.93 times the interquartile range over the root of the
    number of samples (McGill et al., The American Statistician 32(1), 1978).

    Args:
        run: function that makes one measurement and returns its time [s].
        minimum: least number of samples, after two discarded ones.
        maximum: largest number of samples.
        precision: relative standard error of the median at which to stop.
        budget: time after which no more samples are taken, once there are a third of the minimum [s].

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
