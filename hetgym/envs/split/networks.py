"""Random networks on random machines, the default problems of HetSplit-v0."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hetgym.device import Device, Link
from hetgym.envs.core.padding import GraphPadding
from hetgym.graph import DataflowGraph
from hetgym.graph.generators import inception, transformer
from hetgym.platform import Platform

_inception, _transformer = lru_cache(160)(inception), lru_cache(135)(transformer)  # as many as can be drawn


@dataclass(frozen=True)
class RandomNetworks:
    """Small networks of real operators on small machines with fast links, so that splitting often pays.

    Inception modules and transformer blocks of random widths and batch sizes; two or three accelerators
    whose speeds differ up to fourfold.

    >>> graph, platform = RandomNetworks()(np.random.default_rng(0))
    >>> len(graph) <= RandomNetworks.LIMIT.operators, len(platform) in (2, 3)
    (True, True)
    """

    LIMIT = GraphPadding(42, 54, 3)

    def __call__(self, rng: np.random.Generator) -> tuple[DataflowGraph, Platform]:
        """Draw a network and a machine."""
        return self._network(rng), self._machine(rng)

    @staticmethod
    def _network(rng: np.random.Generator) -> DataflowGraph:
        batch = int(rng.choice((2, 4, 6, 8, 16)))
        if rng.random() < 0.5:
            sides, widths = (14, 15, 28, 30), (96, 120, 192, 256)
            return _inception(int(rng.integers(1, 3)), batch, int(rng.choice(sides)), int(rng.choice(widths)))
        heads = int(rng.integers(2, 5))
        return _transformer(1, heads, heads * int(rng.choice((64, 96, 128))), int(rng.choice((64, 100, 128))), batch)

    @staticmethod
    def _machine(rng: np.random.Generator) -> Platform:
        names = [f"gpu{k}" for k in range(int(rng.integers(2, 4)))]
        devices = []
        for name, speed in zip(names, 2.0 ** rng.uniform(-1, 1, len(names)), strict=True):
            flops, bandwidth = {"float32": 5e12 * float(speed)}, 6e11 * float(speed) ** 0.5
            devices.append(Device(name, "gpu", flops, bandwidth, 16e9, 2e-6))
        rate = float(10 ** rng.uniform(10, 11))
        links = [Link(a, b, 2e-6, rate) for a in names for b in names if a != b]
        return Platform(f"{len(names)}gpu", tuple(devices), tuple(links))
