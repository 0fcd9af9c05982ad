"""Timing: repetition of a measurement until its median is known precisely enough."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hetgym._types import FloatArray


@dataclass(frozen=True, slots=True)
class Timing:
    """Summary of repeated measurements."""

    seconds: float  # median [s]
    p10: float  # tenth percentile [s]
    p90: float  # ninetieth percentile [s]
    repetitions: int  # number of measurements

    @classmethod
    def of(cls, samples: FloatArray) -> Timing:
        """Summarise run times [s]."""
        p10, median, p90 = np.quantile(samples, (0.1, 0.5, 0.9))
        return cls(float(median), float(p10), float(p90), len(samples))


def repeat(
    run: Callable[[], float], *, minimum: int = 9, maximum: int = 45, precision: float = 0.015, budget: float = 0.6
) -> Timing:
    """Repeat a measurement, which returns its time [s], until its median is precise enough.

    The standard error of a median is about 0.93 times the interquartile range over the root of the number of samples
    (McGill et al., The American Statistician 32(1), 1978). Samples end at ``precision``, the relative standard error,
    between ``minimum``, after two discarded ones, and ``maximum``; or once there are a third of the minimum and
    ``budget`` [s] is spent.
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
