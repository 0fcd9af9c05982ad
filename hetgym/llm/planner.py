"""Planner: the splits of a model on a machine under the rules of a program, and the contexts that fit."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hetgym._types import FloatArray
from hetgym.graph.language_model import LanguageModel, padded
from hetgym.llm.parts import Load, parts_of
from hetgym.llm.proportional import by_memory
from hetgym.llm.rules import TIGHT, Rules
from hetgym.llm.search import Split, best_split, cpu_bytes
from hetgym.llm.site import Site
from hetgym.llm.timing import decode_seconds
from hetgym.platform import Platform
from hetgym.topology.network import nodes

MOST_CONTEXT = 1 << 22

SPLIT_MASKS = 4  # copies of the mask once layers are split over several GPUs: their inputs are kept for four steps
METAL_MASKS = 3  # and on Metal, by what llama-fit-params prints


class Found(NamedTuple):
    """A split, the site it is of, and its time to decode a token."""

    seconds: float
    site: Site
    split: Split


class Planner:
    """Splits of a model on a machine under the rules of a program.

    Attributes:
        room: [d] memory that plans use [byte].
        tight: [d] memory that they may use where the model does not fit otherwise [byte].
        whole: [d] memory without the program's reserve [byte].
    """

    def __init__(
        self, model: LanguageModel, platform: Platform, rules: Rules, target: str, reserve: Mapping[int, float]
    ) -> None:
        self.model, self.platform, self.rules, self.target = model, platform, rules, target
        self.capacity = np.array([device.memory_capacity for device in platform])
        self.gpus = [k for k, device in enumerate(platform) if device.kind != "cpu"]
        self.room = self._room(reserve, rules.reserve)
        self.tight, self.whole = (self._room(reserve, min(kept, rules.reserve)) for kept in (TIGHT, 0.0))
        self.masks = METAL_MASKS if any(device.model.startswith("Apple") for device in platform) else 1

    def _room(self, reserve: Mapping[int, float], kept: float) -> FloatArray:
        """[d] memory to use: what the user leaves, else what the platform does and ``kept`` of each GPU [byte]."""
        room = np.array([device.usable_memory for device in self.platform])
        for k, device in enumerate(self.platform):
            if k in reserve:
                room[k] = self.capacity[k] - reserve[k]
            elif k in self.gpus:
                if self.rules.reserve and device.memory_reserve is None and not device.memory_pool:
                    room[k] = self.capacity[k] - max(kept, self.capacity[k] - room[k] if kept > TIGHT else 0.0)
                room[k] = min(room[k], self.capacity[k] * self.rules.utilisation)
        return room

    def settle(self, load: Load) -> None:
        """Choose the memory that plans use: the program's reserve is kept where giving it up frees the CPU of nothing.

        It is given up, but for :data:`~hetgym.llm.rules.TIGHT`, if only then all layers are on GPUs, or at all
        somewhere.
        """
        usual, kept = self._on_cpu(load), self.room
        if usual > 0:
            self.room = self.tight
            if np.isfinite(usual) and self._on_cpu(load) > 0:
                self.room = kept

    def _on_cpu(self, load: Load) -> float:
        """Bytes on the CPU in the best plan; infinite if there is none."""
        found = self.best(load)
        return cpu_bytes(found.site, found.split) if found else np.inf

    def sites(self, load: Load, rules: Rules | None = None, tensor: bool | None = None) -> list[Site]:
        """The ways to use the machine: one GPU, several by layers, all or equal groups by tensors.

        Args:
            tensor: true for the last of these only, false without them.
        """
        rules, parts = rules or self.rules, parts_of(self.model, load)
        alone = nodes(self.platform) if rules.nodes else self.gpus
        single, room = tuple((k,) for k in alone), tuple(self.room.tolist())

        def make(groups: tuple[tuple[int, ...], ...], masks: int, own: Rules) -> Site:
            return Site(self.platform, parts, load, own, groups, room, masks)

        found = []
        if not tensor:
            found.append(make(single, self.masks, replace(rules, gpus=1)))
            if len(single) > 1 and rules.gpus > 1:
                found.append(make(single, SPLIT_MASKS, rules))
        for ways in self._ways(rules) if tensor is not False else ():
            groups = tuple(tuple(self.gpus[i : i + ways]) for i in range(0, len(self.gpus) - ways + 1, ways))
            masks = SPLIT_MASKS if len(groups) > 1 else self.masks
            found.append(make(groups, masks, replace(rules, cpu="", experts=False)))
        return found

    def _ways(self, rules: Rules) -> list[int]:
        """Degrees of a tensor split, which must divide heads and widths; heads of keys and values may be copied."""
        count = len(self.gpus)
        if self.model.family in rules.untensored or count > rules.tensor:
            return []
        layers = self.model.layers
        heads = {layer.heads for layer in layers if layer.heads}
        copied = {layer.kv_heads for layer in layers if layer.kv_heads}
        split = {"ffn_gate", "ffn_up", "ffn_gate_exps", "ffn_up_exps", "attn_qkv"}
        widths = {
            weight.shape[-2]
            for layer in layers
            for weight in layer.weights
            if weight.role in split and len(weight.shape) > 1
        }
        return [
            ways
            for ways in range(count if rules.whole else 2, count + 1)
            if ways > 1
            and all(a % ways == 0 for a in heads)
            and all(a % ways == 0 or ways % a == 0 for a in copied)
            and all(a % ways == 0 for a in widths)
        ]

    def best(self, load: Load, rules: Rules | None = None, tensor: bool | None = None) -> Found | None:
        """The split that decodes fastest; None if nothing fits."""
        rules, found = rules or self.rules, []
        for site in self.sites(load, rules, tensor):
            split = by_memory(site) if rules.proportional else best_split(site)
            if split is not None:
                found.append(Found(decode_seconds(site, split), site, split))
        return min(found, key=lambda one: one.seconds) if found else None

    def emptied(self, site: Site) -> Site:
        """The same site with nothing in its caches yet."""
        load = site.load._replace(used=1)
        return replace(site, parts=parts_of(self.model, load), load=load)

    def _fits(self, load: Load, on_cpu: float) -> bool:
        """Whether some split leaves no more bytes than these on the CPU."""
        for site in self.sites(load):
            split = by_memory(site) if self.rules.proportional else best_split(site, by_bytes=True)
            if split is not None and cpu_bytes(site, split) <= on_cpu + 1.0:
                return True
        return False

    def largest(self, load: Load, on_cpu: float) -> int:
        """The largest context without more bytes on the CPU; 0 if none fits."""
        most = padded(min(self.model.positions or MOST_CONTEXT, MOST_CONTEXT)) // 256
        low, high = 0, most
        while low < high:
            middle = (low + high + 1) // 2
            if self._fits(load._replace(context=256 * middle), on_cpu):
                low = middle
            else:
                high = middle - 1
        return min(256 * low, self.model.positions or MOST_CONTEXT)

    def longest(self, load: Load) -> int:
        """The largest context without the CPU or, if no context fits so, with it; 1 if none fits."""
        usual = self.room
        for room in (usual, self.tight):
            self.room = room
            if found := self.largest(load, 0.0):
                return found
        self.room = usual
        return self.largest(load, float("inf")) or 1
