"""Recurrent networks: slices of time as pipeline stages of many tasks, and a wavefront over layers for one."""

import itertools
from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt

from hetgym._sums import summed
from hetgym._types import FloatArray
from hetgym.errors import ConfigError
from hetgym.pipeline.flow_shop import FlowShop

MAX_DEVICES = 6


def time_slices(
    steps: int,
    step_seconds: npt.ArrayLike,
    tasks: int,
    overhead: npt.ArrayLike = 0.0,
    transfer: npt.ArrayLike = 0.0,
    in_flight: int | Literal["slices"] | None = None,
) -> FlowShop:
    """Cut the time steps of a recurrent network into slices, one a device, for a row of tasks.

    A task passes through the slices in order, handing its state on, while others use the devices before and behind.
    With X_s the time of slice s, a task alone takes L = sum X + transfers, and N take L + (N - 1) max X. With at most K
    in flight every K-th waits for the one K before it: N take max(0, L - K max X) more for each K that others follow.

    All sets of devices are tried, each alone among them, so the plan is never worse than a single device; for a set,
    every value that the largest X can take; for that, steps go to the fastest device that has room. Of the orders of a
    set the one whose transfers are least is taken. The time of N tasks falls with L and max X, so no cut is better.

    Source: the idea of pipelining slices of time over tasks comes from a dissertation on inference on CPU
    and GPU; the details are hetgym's.

    Args:
        steps: time steps of a task.
        step_seconds: [d] one step of all layers on each device [s].
        tasks: number of tasks that follow each other.
        overhead: seconds to start a slice, one number or [d].
        transfer: seconds to hand the state on, one number or [d, d].
        in_flight: largest number of tasks between the start of their first and the end of their last slice; each
            holds a state. ``"slices"`` = as many as there are slices. None = no limit, so that a task starts
            whenever the first device is free.

    Raises:
        ConfigError: no steps, tasks or tasks in flight, more than 6 devices, or times that do not fit them.
    """
    step, start, move = _tables(steps, step_seconds, overhead, transfer)
    if not (isinstance(tasks, int) and tasks >= 1):
        raise ConfigError(f"time slices: tasks is {tasks!r}; it must be 1 or more")
    if not (in_flight in (None, "slices") or (isinstance(in_flight, int) and in_flight >= 1)):
        raise ConfigError(f"time slices: in_flight is {in_flight!r}; it must be 1 or more, 'slices' or None")
    best: tuple[float, FlowShop] | None = None
    for order in _orders(len(step), move, cheapest_only=True):
        stages = list(order)
        if len(stages) > steps:
            continue
        moves = tuple(float(move[a, b]) for a, b in itertools.pairwise(stages))
        window = len(stages) if in_flight == "slices" else in_flight
        for limit in sorted({float(k * step[d] + start[d]) for d in stages for k in range(1, steps + 1)}):
            counts = _fill(steps, [float(step[d]) for d in stages], [float(start[d]) for d in stages], limit)
            if counts is None:
                continue
            times = [k * float(step[d]) + float(start[d]) for k, d in zip(counts, stages, strict=True)]
            alone, slowest = summed(times) + summed(moves), max(times)
            total = alone + (tasks - 1) * slowest
            if window is not None:
                total += (tasks - 1) // window * max(0.0, alone - window * slowest)
            if best is None or total < best[0]:
                best = total, FlowShop(order, tuple(counts), np.tile(times, (tasks, 1)), moves, window)
    assert best is not None
    return best[1]


def _fill(steps: int, step: list[float], start: list[float], limit: float) -> list[int] | None:
    """Steps of each slice, one or more, with no slice longer than the limit and the least sum of times."""
    room = [
        steps if tau == 0 else int(min((limit - over) / tau * (1 + 1e-12), steps))
        for tau, over in zip(step, start, strict=True)
    ]
    if min(room) < 1 or any(over > limit for over in start) or summed(room) < steps:
        return None
    counts = [1] * len(step)
    left = steps - len(step)
    for stage in sorted(range(len(step)), key=lambda s: (step[s], s)):
        more = min(left, room[stage] - 1)
        counts[stage] += more
        left -= more
    return counts if left == 0 else None


def wavefront(
    steps: int,
    layer_seconds: npt.ArrayLike,
    overhead: npt.ArrayLike = 0.0,
    transfer: npt.ArrayLike = 0.0,
    equal_chunks: bool = False,
    tasks: int = 1,
) -> tuple[FlowShop, int]:
    """Run a task on several devices: each holds some layers and works some time steps behind the last.

    Layer l at step t needs layer l - 1 at t and layer l at t - 1, so devices that hold consecutive layers can work on a
    chunk of steps each, a front moving through the grid. Layers are cut so that the slowest device has least work for a
    step, for every sequence of devices; then every length of a chunk is tried.

    Source: after W-Par (Sharma et al., ICS 2020), for devices that differ.

    Args:
        steps: time steps.
        layer_seconds: [layers, d] one step of each layer on each device [s].
        overhead: seconds to start a chunk, one number or [d].
        transfer: seconds to hand a chunk's outputs on, one number or [d, d].
        equal_chunks: only try lengths that divide the steps; else a task's last chunk may be shorter.
        tasks: number of tasks that follow each other.

    Returns:
        The plan, whose jobs are chunks, and the number of steps in a chunk.

    Raises:
        ConfigError: no steps, layers or tasks, more than 6 devices, or times that do not fit them.
    """
    layers = np.asarray(layer_seconds, np.float64)
    if layers.ndim != 2 or len(layers) == 0 or not ((layers >= 0) & np.isfinite(layers)).all():
        raise ConfigError(f"wavefront: layer_seconds has shape {layers.shape}; expected times [layers, devices]")
    if not (isinstance(tasks, int) and tasks >= 1):
        raise ConfigError(f"wavefront: tasks is {tasks!r}; it must be 1 or more")
    _, start, move = _tables(steps, layers.sum(axis=0), overhead, transfer)
    best: tuple[float, FlowShop, int] | None = None
    for order in _orders(layers.shape[1], move, cheapest_only=False):
        if len(order) > len(layers):
            continue
        cuts = _min_max_cut(layers[:, list(order)])
        parts = np.diff([0, *cuts, len(layers)])
        bounds = list(itertools.pairwise([0, *cuts, len(layers)]))
        step = np.array([layers[a:b, d].sum() for (a, b), d in zip(bounds, order, strict=True)])
        moves = tuple(float(move[a, b]) for a, b in itertools.pairwise(order))
        for chunk in range(1, steps + 1):
            if equal_chunks and steps % chunk:
                continue
            sizes = np.full(-(-steps // chunk), chunk)
            sizes[-1] = steps - chunk * (len(sizes) - 1)
            seconds = sizes[:, None] * step[None, :] + start[list(order)][None, :]
            plan = FlowShop(order, tuple(parts.tolist()), np.tile(seconds, (tasks, 1)), moves)
            makespan = plan.makespan
            if best is None or makespan < best[0]:
                best = makespan, plan, chunk
    assert best is not None
    return best[1], best[2]


def _min_max_cut(layers: FloatArray) -> list[int]:
    """Ends of consecutive parts of the layers, one part a column, so that the largest part is least."""
    n, stages = layers.shape
    total = np.concatenate([np.zeros((1, stages)), np.cumsum(layers, axis=0)])
    value = np.full((stages + 1, n + 1), np.inf)
    cut = np.zeros((stages + 1, n + 1), np.int64)
    value[0, 0] = 0.0
    for stage in range(1, stages + 1):
        for j in range(stage, n + 1):
            options = np.maximum(value[stage - 1, :j], total[j, stage - 1] - total[:j, stage - 1])
            cut[stage, j] = int(np.argmin(options))
            value[stage, j] = options[cut[stage, j]]
    cuts, j = [], n
    for stage in range(stages, 1, -1):
        j = int(cut[stage, j])
        cuts.append(j)
    return cuts[::-1]


def _tables(
    steps: int, seconds: npt.ArrayLike, overhead: npt.ArrayLike, transfer: npt.ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """[d], [d] and [d, d] times, checked."""
    if not (isinstance(steps, int) and steps >= 1):
        raise ConfigError(f"recurrent network: steps is {steps!r}; it must be 1 or more")
    step = np.asarray(seconds, np.float64)
    if step.ndim != 1 or not 1 <= len(step) <= MAX_DEVICES:
        raise ConfigError(f"recurrent network: times for {step.shape} devices; expected 1 to {MAX_DEVICES}")
    d = len(step)
    tables = []
    for what, value, shape in (("overhead", overhead, (d,)), ("transfer", transfer, (d, d)), ("step", step, (d,))):
        array = np.asarray(value, np.float64)
        if array.shape not in ((), shape) or not ((array >= 0) & np.isfinite(array)).all():
            raise ConfigError(f"recurrent network: {what} must be one time or {shape}, none negative")
        tables.append(np.array(np.broadcast_to(array, shape)))
    return step, tables[0], tables[1]


def _orders(d: int, move: FloatArray, cheapest_only: bool) -> Iterator[tuple[int, ...]]:
    """Sequences of devices, small sets first; of each set all, or the one with the least transfers."""
    for count in range(1, d + 1):
        for devices in itertools.combinations(range(d), count):
            orders = list(itertools.permutations(devices))
            if cheapest_only:
                orders = [min(orders, key=lambda o: summed(float(move[a, b]) for a, b in itertools.pairwise(o)))]
            yield from orders
