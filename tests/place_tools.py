"""Problems and weights for the tests of the place policy."""

from __future__ import annotations

import numpy as np

from hetgym import Problem
from hetgym.agents.inference import head_weights
from hetgym.agents.place import episodes, inference
from hetgym.agents.place.tokens import EDGE_FEATURES, TOKEN_FEATURES, view

NAMES = tuple(feature.name for feature in episodes.CANDIDATE_FEATURES)


def weights(seed: int = 0, hidden: int = 8, layers: int = 2, width: int = 12) -> dict[str, np.ndarray]:
    """Weights of a place network as a state dictionary holds them; the head is far from its rule."""
    rng = np.random.default_rng(seed)
    f, e, a = len(TOKEN_FEATURES), len(EDGE_FEATURES), episodes.COUNT + hidden
    shapes = {"encoder.embed.0": (hidden, f), "encoder.embed.2": (hidden, hidden), "head.own": (width, a)}
    shapes["head.mix"] = (width, width)
    for k in range(layers):
        layer = f"encoder.layers.{k}"
        shapes |= {f"{layer}.{way}.node": (hidden, 2 * hidden) for way in ("inputs", "outputs")}
        shapes |= {f"{layer}.update.0": (hidden, 5 * hidden), f"{layer}.update.2": (hidden, hidden)}
    found = {}
    for name, shape in shapes.items():
        found[f"{name}.weight"] = rng.normal(size=shape) / np.sqrt(shape[1])
        found[f"{name}.bias"] = rng.normal(size=shape[0]) / 4
    for k in range(layers):
        for way in ("inputs", "outputs"):
            found[f"encoder.layers.{k}.{way}.edge.weight"] = rng.normal(size=(hidden, e))
        found[f"encoder.layers.{k}.norm.weight"] = 1 + rng.normal(size=hidden) / 4
        found[f"encoder.layers.{k}.norm.bias"] = rng.normal(size=hidden) / 4
    found["head.all.weight"] = rng.normal(size=(width, a)) / np.sqrt(a)
    found["head.score.weight"] = rng.normal(size=(1, width))
    found["head.rule"] = rng.normal(size=a)
    return {name: array.astype(np.float32) for name, array in found.items()}


def prepared(problem: Problem, seed: int = 0):
    """Stage, head and desk of a problem under random weights."""
    state = weights(seed)
    encoder, head = inference.encoder_weights(state), head_weights(state)
    seen = view(problem)
    hidden = inference.encode(problem, seen.tokens, seen.edge_features, encoder)
    return episodes.set_up(problem, seen, hidden, head), head, episodes.new_desk(problem, head)


def permuted(problem: Problem, devices: list[int]) -> Problem:
    """The same problem with its devices in another order."""
    edges = zip(problem.edge_source, problem.edge_target, problem.edge_bytes, strict=True)
    swap = np.ix_(devices, devices)
    return Problem.from_arrays(
        problem.cost[:, devices], edges, latency=problem.latency[swap], bandwidth=problem.bandwidth[swap]
    )


def drawn(seed: int, n: int = 14, d: int = 3, banned: float = 0.15) -> Problem:
    """A random problem with devices that cannot run some operators, and links of all speeds."""
    rng = np.random.default_rng(seed)
    cost = rng.uniform(1, 9, (n, d))
    cost[rng.random((n, d)) < banned] = np.inf
    cost[np.arange(n), rng.integers(d, size=n)] = rng.uniform(1, 9, n)
    edges = [(a, b, rng.uniform(0, 20)) for a in range(n) for b in range(a + 1, n) if rng.random() < 2.5 / n]
    return Problem.from_arrays(cost, edges, latency=rng.uniform(0, 1, (d, d)), bandwidth=rng.uniform(1, 5, (d, d)))
