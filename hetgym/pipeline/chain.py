"""LayerChain: layers one after the other, named devices, and the link between every two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hetgym._sums import summed
from hetgym._text import brief
from hetgym._types import FloatArray
from hetgym.errors import ProblemError
from hetgym.pipeline.cuts import Stage
from hetgym.pipeline.pools import ROUNDING, Pool, exceeded, lacking, pools_of
from hetgym.pipeline.tables import spared_bytes
from hetgym.pipeline.tokens import tokens_within
from hetgym.weights import SharedWeights


@dataclass(frozen=True, eq=False)
class LayerChain:
    """Layers that each read the one before, and devices that each may hold a stage.

    Unlike a :class:`~hetgym.pipeline.PipelineProblem`, it knows the link that joins two stages: two cards with a fast
    link between them hold neighbouring stages.

    Raises:
        ProblemError: tables of different lengths, or no layer or device.
    """

    name: str  # for messages
    layers: tuple[str, ...]  # [n] names
    devices: tuple[str, ...]  # [d] names
    cost: FloatArray  # [n, d] seconds; inf = cannot run there
    size: FloatArray  # [n] bytes that a layer keeps on its device, whole weights that it shares included
    memory: FloatArray  # [d] bytes; inf = unlimited
    # latency, pace: [d, d] seconds, and seconds per byte, from one device to another; 0 on the diagonal
    latency: FloatArray
    pace: FloatArray
    messages: FloatArray  # [n] tensors that cross the end of a layer
    sent: FloatArray  # [n] their bytes
    delay: FloatArray  # [n] seconds that a crossing takes over any link, besides
    cache: FloatArray  # [n] bytes that a token of a request keeps in a layer, or 1 for layers with a cache
    cached: FloatArray  # [n] bytes of a layer's size that are its cache
    shared: SharedWeights  # weights that several layers read; a device holds each once
    roles: tuple[str, ...]  # [n] `"words"` before the layers of a language model, `"layer"`, `"head"` behind them
    # [d] devices of one number share a memory: together they hold no more than the largest among them; empty = each its
    # own
    memory_pool: tuple[int, ...] = ()
    entry: tuple[float, ...] = ()  # [d] seconds that a device takes for each request before it runs; empty = none
    turns: tuple[bool, ...] = ()  # [d] True for devices of which one runs at a time; empty = all run at the same time
    # tokens from which on some caches grow no more, as their layers attend to a window, and [n] their bytes in `cache`
    windows: tuple[tuple[float, FloatArray], ...] = ()
    longest: float = np.inf  # most tokens that the model was made for
    per_token: bool = False  # True if `cache` holds bytes of a token
    unit: str = "B"  # of sizes: `"B"` or `"parameters"`

    __repr__ = brief

    def __post_init__(self) -> None:
        n, d = len(self.layers), len(self.devices)
        shapes = {
            "cost": (n, d), "size": (n,), "memory": (d,), "latency": (d, d), "pace": (d, d), "messages": (n,),
            "sent": (n,), "delay": (n,), "cache": (n,), "cached": (n,), "roles": (n,),
            "memory_pool": (d,) if self.memory_pool else (0,),
            "entry": (d,) if self.entry else (0,), "turns": (d,) if self.turns else (0,),
        }  # fmt: skip
        if not n or not d:
            raise ProblemError(f"chain {self.name!r} has {n} layers and {d} devices; it needs at least one of each")
        for what, shape in shapes.items():
            if np.shape(getattr(self, what)) != shape:
                raise ProblemError(
                    f"chain {self.name!r}: {what} has shape {np.shape(getattr(self, what))}, not {shape}"
                )

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The memories that several devices share."""
        return pools_of(self.memory_pool or range(len(self.devices)), self.memory)

    def hop(self, end: int, source: int, target: int) -> float:
        """Time of what crosses the end of the layers before ``end``, from one device to another [s]."""
        k = end - 1
        there = self.messages[k] * self.latency[source, target] + self.sent[k] * self.pace[source, target]
        return float(there + self.delay[k])

    def held(self, stage: Stage) -> float:
        """Bytes that the device of a stage holds: of a weight that several layers share, one copy."""
        part = np.ones(len(self.layers), np.int32)
        part[stage.first : stage.end] = 0
        return float(self.size[stage.first : stage.end].sum() - self.shared.spared(part, 2)[0])

    def bytes_of(self, stages: Sequence[Stage]) -> FloatArray:
        """[d] bytes that each device holds."""
        held = np.zeros(len(self.devices))
        held[[stage.device for stage in stages]] = [self.held(stage) for stage in stages]
        return held

    def run_times(self, stages: Sequence[Stage]) -> FloatArray:
        """[stages] time of each stage for one request, without transfers [s]; inf if its device cannot run it."""
        entry = self.entry or (0.0,) * len(self.devices)
        return np.array([float(self.cost[s.first : s.end, s.device].sum()) + entry[s.device] for s in stages])

    def hops(self, stages: Sequence[Stage]) -> FloatArray:
        """[stages - 1] time from each stage to the next [s]."""
        pairs = zip(stages[:-1], stages[1:], strict=True)
        return np.array([self.hop(a.end, a.device, b.device) for a, b in pairs])

    def loads(self, stages: Sequence[Stage]) -> FloatArray:
        """[stages] time for which each stage is busy with one request: to fetch its input, run and send its output."""
        hops = np.concatenate([[0.0], self.hops(stages), [0.0]])
        return np.asarray(hops[:-1] + self.run_times(stages) + hops[1:])

    def period(self, stages: Sequence[Stage]) -> float:
        """Time between two results [s]: the largest of :meth:`loads`, of devices that take turns their sum."""
        loads = self.loads(stages)
        turns = np.array([bool(self.turns) and self.turns[stage.device] for stage in stages])
        return max(float(loads.max()), float(loads[turns].sum()))

    def latency_of(self, stages: Sequence[Stage]) -> float:
        """Time of one request through all stages, each transfer once [s]."""
        return float(self.run_times(stages).sum() + self.hops(stages).sum())

    def lacks(self, stages: int | None = None) -> str:
        """Why no cut onto a number of devices fits into memory, as the end of a sentence."""
        total = float(self.size.sum() - self.shared.repeated)
        return lacking(self.pools, self.memory, self.size, total, stages or len(self.devices))

    def room(self, stages: Sequence[Stage]) -> float:
        """Largest cache that fits every stage: tokens, or bytes of each layer with a cache; inf if unlimited.

        No more tokens than :attr:`longest` are counted.
        """
        left, used = self.longest, {stage.device: stage for stage in stages}
        own = [((stage.device,), float(self.memory[stage.device])) for stage in stages]
        for devices, capacity in (*own, *self.pools):
            there = [used[device] for device in devices if device in used]
            free = capacity - summed(self.held(stage) for stage in there) + _total(self.cached, there)
            windows = [(tokens, _total(part, there)) for tokens, part in self.windows]
            left = min(left, float(tokens_within(free, _total(self.cache, there), windows)))
        return left

    def check(self, stages: Sequence[Stage]) -> None:
        """Refuse stages that leave layers out, share a device, or do not run or fit there.

        Raises:
            ProblemError: what is wrong, and where.
        """
        ends = [0, *(s.end for s in stages)]
        whole = [s.first for s in stages] == ends[:-1] and ends[-1] == len(self.layers)
        used = [s.device for s in stages]
        if not whole or len(set(used)) < len(used) or not all(0 <= k < len(self.devices) for k in used):
            raise ProblemError(
                f"chain {self.name!r}: stages must hold all layers in order, each on a device of its own"
            )
        for stage in stages:
            held, memory = self.held(stage), float(self.memory[stage.device])
            if held > memory * ROUNDING:
                raise ProblemError(
                    f"memory: {self.devices[stage.device]!r} holds {held:g} bytes of layers {stage.first} to "
                    f"{stage.end - 1}, more than {memory:g}"
                )
            if not np.isfinite(self.cost[stage.first : stage.end, stage.device]).all():
                raise ProblemError(
                    f"chain {self.name!r}: {self.devices[stage.device]!r} cannot run layers {stage.first} to "
                    f"{stage.end - 1}"
                )

        every = self.bytes_of(stages)
        if pool := exceeded(self.pools, every):
            names = " and ".join(repr(self.devices[k]) for k in pool.devices)
            together = every[list(pool.devices)].sum()
            raise ProblemError(f"memory: {names} share {pool.capacity:g} bytes, and together they hold {together:g}")

    def sizes(self) -> FloatArray:
        """[n + 1, n + 1] bytes of layers i to before j on one device."""
        n = len(self.layers)
        before = np.concatenate([[0.0], np.cumsum(self.size)])
        return np.asarray(before[None, :] - before[:, None] - spared_bytes(self.shared, n))


def _total(figures: FloatArray, stages: Sequence[Stage]) -> float:
    """Sum of the figures of all layers of some stages."""
    return summed(float(figures[stage.first : stage.end].sum()) for stage in stages)
