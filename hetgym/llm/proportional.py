"""Splits in proportion to free memory, as programs make them that ask nobody: exo over nodes, ollama over GPUs."""

from collections.abc import Sequence

import numpy as np

from hetgym.llm.search import Split, Stage, fits
from hetgym.llm.site import Site


def layer_rule(layers: int, offloaded: int, shares: Sequence[float]) -> list[int]:
    """llama.cpp's rule: for each layer and, as one more, the head, the number of its GPU; -1 for the CPU.

    The last ``offloaded`` of them go to GPUs: item i of them to the first whose cumulative share exceeds i / offloaded,
    in 32 bits.

    >>> found = layer_rule(56, 33, [15, 15, 3])
    >>> [found.count(k) for k in (-1, 0, 1, 2)], found[-1]
    ([24, 15, 15, 3], 2)
    """
    count = min(offloaded, layers + 1)
    start = layers + 1 - count
    total = np.cumsum(np.array(shares, np.float32), dtype=np.float32)
    ends = total / total[-1]
    placed = [np.float32(i) / np.float32(count) for i in range(count)]
    return [-1] * start + [int(np.searchsorted(ends, x, side="right")) for x in placed]


def stages_of(device: Sequence[int]) -> tuple[Stage, ...]:
    """Stages of layers whose devices are given."""
    starts = [i for i in range(len(device)) if i == 0 or device[i] != device[i - 1]]
    return tuple(Stage((device[a],), a, b) for a, b in zip(starts, [*starts[1:], len(device)], strict=True))


def by_memory(site: Site) -> Split | None:
    """The split that a program makes by free memory alone; None if it does not fit.

    Of nodes, the fewest that hold the model take layers in proportion, by largest remainders, at least one each. Else
    the GPUs take as many of the last layers as fit, in proportion, and the CPU the first ones.
    """
    return _over_nodes(site) if site.rules.nodes else _over_gpus(site)


def _over_nodes(site: Site) -> Split | None:
    nodes = [group[0] for group in site.groups]
    largest = sorted(nodes, key=lambda k: -site.room[k])
    for count in range(1, min(len(nodes), site.rules.gpus, len(site.parts.dense)) + 1):
        split = _shared([k for k in nodes if k in largest[:count]], site)
        if fits(site, split):
            return split
    return None


def _shared(devices: Sequence[int], site: Site) -> Split:
    """Layers in proportion to the memory of nodes."""
    room, n = np.array([max(site.room[k], 1.0) for k in devices]), len(site.parts.dense)
    share = n * room / room.sum()
    layers = np.maximum(1, np.floor(share)).astype(int)
    for k in np.argsort(-(share - np.floor(share)), kind="stable"):
        layers[k] += int(layers.sum() < n)
    while layers.sum() > n:
        layers[layers.argmax()] -= 1
    return Split(stages_of(np.repeat(devices, layers).tolist()))


def _over_gpus(site: Site) -> Split | None:
    n, gpus = len(site.parts.dense), [group[0] for group in site.groups]
    if site.rules.gpus == 1:
        gpus = sorted(gpus, key=lambda k: -site.room[k])[:1]
    shares = [site.room[k] for k in gpus]
    for offloaded in range(n + 1 if gpus else 0, 0, -1):
        if offloaded < n + 1 and site.cpu is None:
            return None
        slots = layer_rule(n, offloaded, shares)[:n]
        split = Split(stages_of([gpus[k] if k >= 0 else site.cpu or 0 for k in slots]))
        if fits(site, split):
            return split
    if site.cpu is None:
        return None
    split = Split((Stage((site.cpu,), 0, n),))
    return split if fits(site, split) else None
