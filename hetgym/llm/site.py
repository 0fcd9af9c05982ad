"""Site: a platform as the placement of layers sees it, with groups of devices that hold layers together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hetgym._types import FloatArray
from hetgym.costs.decoding import cache_seconds, expert_seconds, layer_seconds, read_seconds
from hetgym.device import Device
from hetgym.llm.parts import Load, Parts
from hetgym.llm.rules import Rules
from hetgym.platform import Platform


@dataclass(frozen=True)
class Site:
    """A platform, a model's parts and a program's rules.

    Args:
        groups: devices that each hold a share of every layer of the group; one device for whole layers.
        room: [d] memory for weights, caches and buffers [byte].
        masks: copies of the mask of attention that each GPU holds.
    """

    platform: Platform
    parts: Parts
    load: Load
    rules: Rules
    groups: tuple[tuple[int, ...], ...]
    room: tuple[float, ...]
    masks: int

    @cached_property
    def cpu(self) -> int | None:
        """The device that holds what GPUs do not; None without one."""
        return next((k for k, device in enumerate(self.platform) if device.kind == "cpu"), None)

    @cached_property
    def kinds(self) -> tuple[tuple[int, ...], ...]:
        """Groups of one kind, by number: their devices have the same figures, room and links."""
        found: dict[object, list[int]] = {}
        for number, group in enumerate(self.groups):
            found.setdefault(self._kind(group), []).append(number)
        return tuple(map(tuple, found.values()))

    def _kind(self, group: Sequence[int]) -> object:
        network = self.platform.latency, self.platform.bandwidth

        def key(k: int) -> object:
            device = self.platform[k]
            figures = device.kind, device.memory_bandwidth, device.model, device.launch_overhead, self.room[k]
            peaks = tuple(sorted(device.peak_flops.items()))
            return figures, peaks, tuple(tuple(sorted(np.delete(table[k], k).tolist())) for table in network)

        return tuple(key(k) for k in group)

    def hop(self, source: Sequence[int], target: Sequence[int]) -> float:
        """Time of the activations from one group to another [s]."""
        if not source or source == target:
            return 0.0
        return self.transfer(source[-1], target[0], 4.0 * self.parts.hidden * self.load.sequences)

    def transfer(self, a: int, b: int, moved: float) -> float:
        """Time of some bytes from one device to another [s]."""
        return float(self.platform.latency[a, b]) + moved / float(self.platform.bandwidth[a, b])

    @cached_property
    def _known(self) -> dict[tuple[int, ...], tuple[FloatArray, FloatArray]]:
        """Times of the layers on the groups that were asked about."""
        return {}

    def layer_times(self, group: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """[n] time of each layer on a group without its experts, and [n] that of its experts there [s]."""
        key = tuple(group)
        if key not in self._known:
            self._known[key] = self._layer_times(key)
        return self._known[key]

    def _layer_times(self, group: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        parts, ways = self.parts, len(group)
        slowest = min(group, key=lambda k: self.platform[k].memory_bandwidth)
        device = self.platform[slowest]
        own = zip(parts.dense / ways, parts.dense_conversion / ways, parts.experts > 0, parts.linear, strict=True)
        dense = [layer_seconds(device, *layer) for layer in own]
        chosen = [
            expert_seconds(device, *x) for x in zip(parts.chosen / ways, parts.chosen_conversion / ways, strict=True)
        ]
        return np.array(dense) + self._attention(device) / ways + self._reductions(group), np.array(chosen)

    def attention(self, depth: float) -> FloatArray:
        """[n] FLOPs of attention for a token with some tokens before it."""
        return self.parts.scores * np.minimum(self.parts.seen, depth)

    def _attention(self, device: Device) -> FloatArray:
        """[n] time of attention to the caches on a device [s]; keys and values may have different formats."""
        parts, dtypes = self.parts, (self.load.key, self.load.value)
        used = self.load.context if self.load.used is None else self.load.used
        slower = max(dtypes, key=lambda dtype: cache_seconds(device, 1e9, dtype, 0.0))
        pairs = zip(parts.cached, self.attention(used), strict=True)
        return np.array([cache_seconds(device, numbers, slower, flops) for numbers, flops in pairs])

    def _reductions(self, group: Sequence[int]) -> float:
        """Time of a layer's two all-reduces over a group, in a ring [s]."""
        ways = len(group)
        if ways == 1:
            return 0.0
        size = 4.0 * self.parts.hidden * self.load.sequences
        around = [self.transfer(a, b, size / ways) for a, b in zip(group, (*group[1:], group[0]), strict=True)]
        return 2 * 2 * (ways - 1) * max(around) if ways > 2 else 2 * self.transfer(group[0], group[1], size)

    @cached_property
    def cpu_times(self) -> tuple[FloatArray, FloatArray]:
        """[n] time of each layer whose weights lie on the CPU, and [n] that of its experts there alone [s]."""
        assert self.cpu is not None
        parts, device = self.parts, self.platform[self.cpu]
        if self.rules.copied and self.groups:
            whole = [self.transfer(self.cpu, self.groups[0][0], x) for x in parts.dense + parts.experts]
            return np.array(whole), np.zeros(len(whole))
        own = zip(parts.dense, parts.dense_conversion, parts.experts > 0, parts.linear, strict=True)
        dense = np.array([layer_seconds(device, *layer) for layer in own])
        experts = np.array([expert_seconds(device, x) for x in parts.chosen])
        return dense + experts + self._attention(device), experts

    def head_time(self, group: Sequence[int]) -> float:
        """Time to score a token on a group [s]."""
        device = self.platform[min(group, key=lambda k: self.platform[k].memory_bandwidth)]
        return read_seconds(device, self.parts.head / len(group), self.parts.head_conversion / len(group))

    def cache(self, group: Sequence[int]) -> FloatArray:
        """[n] bytes of each layer's cache on a device of a group; heads that are fewer than its devices are copied."""
        return np.asarray(self.parts.cache / np.minimum(len(group), self.parts.kv_heads))

    def free(self, group: Sequence[int]) -> float:
        """Least memory of a device of a group for weights and caches [byte]."""
        return min(self.room[k] for k in group) - self.rules.buffers(self.parts, self.load, self.masks)
