"""Links: transfer times between two processes, between host and GPU, and between GPUs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray
from hetgym.errors import ConfigError, MissingExtra, ProfilingError, require
from hetgym.profiling.child import Child
from hetgym.profiling.cuda import between
from hetgym.profiling.host import HostSettings
from hetgym.profiling.pingpong import memory_size

SIZES: tuple[int, ...] = tuple(1 << power for power in range(12, 27, 2))  # Sizes of messages [byte]: 4 KiB to 64 MiB

_WINDOW = 32 << 20  # bytes over which messages rotate, as many as the tensors of a medium-sized graph
_LARGEST = 1 << 30


@dataclass(frozen=True)
class LinkTimes:
    """A measured link."""

    start: str  # name of the sender
    end: str  # name of the receiver
    sizes: tuple[int, ...]  # sizes of the messages [byte]
    seconds: tuple[float, ...]  # median time of each size [s]
    latency: float  # latency of the fitted line [s]
    bandwidth: float  # bandwidth of the fitted line [byte/s]
    misfit: float  # mean relative distance of the times from the line; large if caches matter
    flag: float = float("nan")  # half a round trip of a message without content [s]; NaN if not measured

    @classmethod
    def of(
        cls, start: str, end: str, sizes: Sequence[int], seconds: Sequence[float], flag: float = float("nan")
    ) -> LinkTimes:
        """Fit the line through measured times; see :func:`fit_line`."""
        latency, bandwidth, misfit = fit_line(sizes, seconds)
        return cls(start, end, tuple(sizes), tuple(seconds), latency, bandwidth, misfit, flag)


def fit_line(sizes: npt.ArrayLike, seconds: npt.ArrayLike) -> tuple[float, float, float]:
    """Latency [s], bandwidth [byte/s] and mean relative error of a line, by least squares of relative errors.

    ``sizes`` are [n] bytes, at least two different ones, and ``seconds`` [n] times; anything else is a ProfilingError.
    Latency and bandwidth are not negative.

    >>> latency, bandwidth, misfit = fit_line([1e3, 1e6], [1.1e-6, 101e-6])
    >>> f"{latency:.2g} {bandwidth:.3g} {misfit:.1f}"
    '1e-06 1e+10 0.0'
    """
    size, time = np.asarray(sizes, np.float64), np.asarray(seconds, np.float64)
    if size.ndim != 1 or size.shape != time.shape or len(np.unique(size)) < 2:
        raise ProfilingError("a link's line needs times of at least two different sizes")
    if not (np.isfinite(time).all() and (time > 0).all() and (size > 0).all()):
        raise ProfilingError("a link's times and sizes must be positive and finite")
    terms = np.stack([1.0 / time, size / time], axis=1)
    latency, slope = np.linalg.lstsq(terms / (1.0, size.max()), np.ones(len(size)), rcond=None)[0] / (1.0, size.max())
    if slope <= 0:  # larger sizes are not slower, so only the largest gives a bound on the rate
        latency, slope = 0.0, float(time[np.argmax(size)] / size.max())
    elif latency < 0:
        latency, slope = 0.0, float(terms[:, 1].sum() / (terms[:, 1] ** 2).sum())
    misfit = np.abs((latency + slope * size) / time - 1.0).mean()
    return float(latency), float(1.0 / slope), float(misfit)


def measure_process_link(
    start: HostSettings, end: HostSettings, sizes: Sequence[int] = SIZES, rounds: int = 7, limit: float = 120.0
) -> LinkTimes:
    """Time tensors that one process writes to shared memory while another, on cores of its own, waits for them.

    A time runs from the start of writing to the moment when the other process sees that the tensor is complete and can
    be read in place. Sources are freshly computed; the destinations were read by the receiver before, as in a graph
    that runs repeatedly. Processes that share a core are timed as well, but such times include context switches and do
    not describe a link. Sizes are at most 1 GiB [byte]; each has ``rounds`` messages in each of three passes. The ends
    of the link are named after their cores.

    Raises:
        ConfigError: sizes or rounds out of range.
        ProfilingError: a process failed, or was not done within ``limit`` [s].
    """
    sizes = sorted(sizes)
    if not sizes or sizes[0] < 1 or sizes[-1] > _LARGEST or rounds < 1:
        raise ConfigError(f"sizes {tuple(sizes)}, rounds {rounds}; expected 1 to {_LARGEST} bytes, at least 1 round")
    area = max(_WINDOW, 2 * sizes[-1])
    asked: dict[str, Any] = {
        "area": area,
        "sizes": sizes,
        "rounds": rounds,
        "patience": limit,
        "crowded": len(set(start.cores) | set(end.cores)) < 2,
    }
    module = "hetgym.profiling.pingpong"
    with ExitStack() as stack:
        memory = stack.enter_context(_shared_memory(memory_size(area)))
        shared = asked | {"descriptor": memory}
        receiver = stack.enter_context(Child(module, shared | {"sends": False}, end, (memory,)))
        sender = stack.enter_context(Child(module, shared | {"sends": True}, start, (memory,)))
        answer = sender.answer(limit)
        receiver.answer(limit)
    names = [f"core {','.join(map(str, host.cores))}" for host in (start, end)]
    return LinkTimes.of(names[0], names[1], sizes, answer["seconds"], float(answer["flag"]))


@contextmanager
def _shared_memory(size: int) -> Iterator[int]:
    """Make new memory without a name, all of its pages allocated, and yield its descriptor."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("hetgym-link")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            raise ProfilingError(f"cannot allocate {size} bytes of shared memory: {error.strerror}") from error
        yield descriptor
    finally:
        os.close(descriptor)


def measure_cuda_link(start: str, end: str, sizes: Sequence[int] = SIZES, rounds: int = 15) -> LinkTimes:
    """Time ``rounds`` copies of each size [byte] between host and GPU or two GPUs, with CUDA events around each.

    Host memory is page-locked. Copies are queued, as in a runtime. The time that the host needs to issue a copy belongs
    to the device's launch overhead and is not included.

    Raises:
        ConfigError: no CUDA device among the ends.
        MissingExtra: torch is not installed, or sees no CUDA device.
    """
    if not any(side.startswith("cuda") for side in (start, end)) or start == end:
        raise ConfigError(f"no CUDA link leads from {start!r} to {end!r}; expected two devices, at least one of CUDA")
    torch = require("torch", "torch", "measuring links")
    if not torch.cuda.is_available():
        raise MissingExtra("measuring a link to a GPU needs a GPU and a torch that was built for CUDA")
    seconds = []
    with torch.cuda.device(start if start.startswith("cuda") else end):
        for size in sorted(sizes):
            source, target = _buffer(torch, start, size), _buffer(torch, end, size)
            seconds.append(float(np.median(_copies(torch, source, target, rounds))))
    return LinkTimes.of(start, end, sorted(sizes), seconds)


def _buffer(torch: Any, side: str, size: int) -> Any:
    if side.startswith("cuda"):
        return torch.ones(size, dtype=torch.uint8, device=side)
    return torch.ones(size, dtype=torch.uint8, pin_memory=True)


def _copies(torch: Any, source: Any, target: Any, rounds: int) -> FloatArray:
    """[rounds] seconds of single copies on the current stream, after two discarded ones."""
    times = [between(torch, lambda: target.copy_(source, non_blocking=True)) for _ in range(rounds + 2)]
    return np.array(times[2:])
