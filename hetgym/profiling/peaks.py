"""Peaks: sustained rates of a device's arithmetic and memory, and the time of its smallest operator.

Data sheets state rates that programs do not reach, or that boards with a power limit sustain for a second only. The
rates of matrix products and copies are better inputs for a roofline.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from hetgym.errors import ProfilingError, require
from hetgym.profiling.child import Child, request
from hetgym.profiling.host import HostSettings

DTYPES: Mapping[str, tuple[str, ...]] = {
    "cpu": ("float64", "float32", "bfloat16", "float16"),
    "cuda": ("float64", "float32", "float16", "bfloat16"),
}
"""Dtypes whose products are timed, by kind of device."""

_SMALLEST, _LARGEST = 256, 8192  # rows of a square matrix
_OPERATORS = 512
_ARRAY = {"cpu": 128 << 20, "cuda": 1 << 30}  # bytes; larger than a process's share of the caches


@dataclass(frozen=True)
class Peaks:
    """Sustained rates of a device."""

    flops: Mapping[str, float]  # dtype -> FLOP/s of the fastest square product
    copy: float  # bytes read and written by a copy over its time [byte/s]
    triad: float  # the same of a = b + s · c
    dispatch: float  # time of the smallest operator within a sequence of such operators [s]

    @property
    def bandwidth(self) -> float:
        """The better of copy and triad [byte/s]."""
        return max(self.copy, self.triad)

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Peaks:
        """Read the answer of a measuring process; ProfilingError if a figure is missing, or not positive and finite."""
        try:
            flops = {str(dtype): float(rate) for dtype, rate in answer["flops"].items()}
            found = cls(flops, *(float(answer[key]) for key in ("copy", "triad", "dispatch")))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProfilingError(f"the measuring process did not answer with peaks ({error!r})") from error
        figures = np.array([*flops.values(), found.copy, found.triad, found.dispatch])
        if not flops or not np.isfinite(figures).all() or figures.min() <= 0:
            raise ProfilingError(f"measured peaks {found} are not positive and finite")
        return found


def measure_peaks(host: HostSettings, budget: float = 1.0, limit: float = 300.0) -> Peaks:
    """Measure a CPU device in a process with its cores and caps, within ``limit`` [s], ``budget`` a figure."""
    with Child("hetgym.profiling.peaks", {"budget": budget}, host) as child:
        return Peaks.of(child.answer(limit))


def peaks_here(device: str = "cpu", budget: float = 1.0) -> Peaks:
    """Measure a device (``cpu``, as this process is bound and capped, or ``cuda:0``) from this process.

    Each figure takes ``budget`` [s]. Without torch or such a device it raises MissingExtra.
    """
    kind = device.partition(":")[0]
    flops = {dtype: rate for dtype in DTYPES[kind] if (rate := product_rate(dtype, device, budget)) > 0}
    copy, triad = memory_rates(device, budget)
    return Peaks(flops, copy, triad, dispatch_cost(device))


def product_rate(dtype: str, device: str = "cpu", budget: float = 1.0) -> float:
    """FLOP/s of the fastest square product within a time budget [s]; 0 if torch cannot multiply in that dtype.

    Sizes double as long as the next one fits into a fifth of the budget. So a library without a fast kernel for a
    dtype is detected on small matrices and does not take minutes on large ones.
    """
    torch = require("torch", "torch", "measuring peaks")
    clock = _clock(device)
    best, size = 0.0, _SMALLEST
    while size <= _LARGEST:
        try:
            a, b = (_noise(torch, size, dtype, device, seed) for seed in range(2))
            out = torch.empty_like(a)
            taken = clock(partial(torch.mm, a, b, out=out), budget / 5)
        except RuntimeError:  # not implemented, or out of memory
            break
        best = max(best, 2.0 * size**3 / taken)
        if 8 * taken > budget / 5:
            break
        size *= 2
    return best


def memory_rates(device: str = "cpu", budget: float = 1.0, size: int | None = None) -> tuple[float, float]:
    """Bytes moved over time by a copy and by the triad a = b + s · c (McCalpin, STREAM, 1995) [byte/s].

    As in STREAM, bytes are those that the program reads and writes; cache lines that are fetched only to be written
    are left out. Arrays have ``size`` bytes: by default 128 MiB on a CPU, 1 GiB on a GPU.
    """
    torch = require("torch", "torch", "measuring peaks")
    clock = _clock(device)
    count = (size or _ARRAY[device.partition(":")[0]]) // 4
    a, b, c = (torch.ones(count, dtype=torch.float32, device=device) for _ in range(3))
    copy = clock(lambda: a.copy_(b), budget / 2)
    triad = clock(lambda: torch.add(b, c, alpha=3.0, out=a), budget / 2)
    return 8.0 * count / copy, 12.0 * count / triad


def dispatch_cost(device: str = "cpu", rounds: int = 30) -> float:
    """Seconds of an operator on one number, within a sequence of such operators.

    On a CPU this is the time of Python, of the dispatcher and of the allocation of a result. On a GPU it is the slower
    of launching and starting a kernel, which limits graphs of small operators.
    """
    torch = require("torch", "torch", "measuring peaks")
    x = torch.ones(1, device=device)
    wait = (lambda: torch.cuda.synchronize(device)) if device.startswith("cuda") else (lambda: None)

    def row() -> None:
        for _ in range(_OPERATORS):
            torch.neg(x)
        wait()

    row()
    times = np.empty(rounds)
    for i in range(rounds):
        start = time.perf_counter()
        row()
        times[i] = time.perf_counter() - start
    return float(np.median(times)) / _OPERATORS


def _noise(torch: Any, size: int, dtype: str, device: str, seed: int) -> Any:
    """A square matrix of random numbers; a GPU multiplies equal ones faster, since its clock depends on its power."""
    rng = torch.Generator(device).manual_seed(seed)
    return torch.randn((size, size), generator=rng, device=device).to(getattr(torch, dtype))


def _clock(device: str) -> Callable[[Callable[[], object], float], float]:
    """Make a function that times some work for a number of seconds, after one discarded repetition."""
    if device.startswith("cuda"):
        from hetgym.profiling.cuda import CudaTimer

        number = int(device.partition(":")[2] or 0)
        return lambda work, budget: CudaTimer(number, budget=budget).time(work).timing.seconds
    return lambda work, budget: float(np.median(list(_samples(work, budget))))


def _samples(work: Callable[[], object], budget: float) -> Iterator[float]:
    begin = time.perf_counter()
    work()
    for number in range(50):
        start = time.perf_counter()
        if number and start - begin > budget:
            return
        work()
        yield time.perf_counter() - start


def main() -> None:
    """Measure the CPU that this process is bound to."""
    asked, host = request()
    host.settle()
    print(json.dumps(asdict(peaks_here("cpu", float(asked["budget"])))))


if __name__ == "__main__":
    main()
