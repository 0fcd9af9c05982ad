"""Definitions of the problems of the suite hetbench-v1.

Networks have the costs of the roofline model on a preset platform. Generated graphs keep their own work and payloads,
scaled to a communication-to-computation ratio (CCR). Their devices either suit operators differently (``unrelated``),
or differ in speed only and have random links (``uniform``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from hetgym import Problem, load_graph, load_platform
from hetgym.graph import DataflowGraph
from hetgym.graph.generators import generate_graph
from hetgym.graph.transforms import fuse, training
from hetgym.workloads import on_uniform_machines, scale_communication, unrelated_costs

NETWORKS = {
    "cpu-gpu-balanced": [
        "alexnet-training", "inception_v1", "inception_v1-b8-fused", "inception_v1-b8-training", "inception_v2", "lstm",
        "lstm-b8-training", "nasnet", "nasnet-b8-fused", "squeezenet-b8-fused", "squeezenet-training", "vgg19",
    ],
    "cpu-gpu": [
        "inception_v1", "inception_v1-fused", "inception_v1-training", "inception_v2-b8", "lstm-b8", "nasnet-fused",
    ],
    "cpu-gpu-npu": [
        "inception_v1-b8", "inception_v2", "lstm-b8-training", "lstm", "nasnet-b8", "nasnet-fused",
    ],
    "cpu-2gpu-nvlink": ["bert_base", "inception_v1-training", "lstm", "nasnet", "squeezenet"],
    "8gpu-node": ["nasnet-b8"],
}  # fmt: skip
"""Platform -> networks of the zoo: ``name[-b<batch>][-fused|-training]``."""

GENERATED = [
    ("cholesky", {"tiles": 4}, 20, 2, "unrelated"),
    ("layered", {"tasks": 20}, 20, 4, "unrelated"),
    ("layered", {"tasks": 50}, 50, 4, "unrelated"),
    ("inception_like", {"tasks": 50}, 50, 8, "unrelated"),
    ("fft", {"points": 16}, 95, 2, "unrelated"),
    ("daggen", {"tasks": 100, "density": 0.3, "jump": 2}, 100, 8, "uniform"),
    ("inception_like", {"tasks": 300}, 300, 4, "unrelated"),
    ("gaussian_elimination", {"size": 24}, 299, 8, "uniform"),
    ("layered", {"tasks": 1000}, 1000, 8, "unrelated"),
    ("daggen", {"tasks": 1000, "fat": 0.2, "density": 0.4, "jump": 2}, 1000, 4, "uniform"),
]
"""Generator, its parameters, operators, devices, and kind of devices; each at every CCR."""

CCR = (0.1, 1.0, 5.0)


def definitions() -> dict[str, Callable[[], Problem]]:
    """Name -> builder, for every problem of the suite."""
    return dict([*_networks(), *_generated()])


def _networks() -> Iterator[tuple[str, Callable[[], Problem]]]:
    for platform, networks in NETWORKS.items():
        for network in networks:
            yield f"{network}@{platform}", partial(_network, network, platform)


def _generated() -> Iterator[tuple[str, Callable[[], Problem]]]:
    for row, (generator, parameters, operators, devices, kind) in enumerate(GENERATED):
        for column, ccr in enumerate(CCR):
            name = f"{generator}-{operators}-ccr{ccr:g}@{devices}-{kind}"
            yield name, partial(_drawn, name, generator, parameters, devices, kind, ccr, [row, column])


def _network(network: str, platform: str) -> Problem:
    name, *changes = network.split("-")
    batch = next((int(change[1:]) for change in changes if change[0] == "b"), 1)
    graph: DataflowGraph = load_graph(name, batch=batch)
    if "fused" in changes:
        graph = fuse(graph).graph
    if "training" in changes:
        graph = training(graph)
    problem = Problem.build(graph, load_platform(platform), "roofline")
    return problem.replace(name=f"{network}@{platform}", occupancy=1.0)


def _drawn(
    name: str, generator: str, parameters: dict[str, float], devices: int, kind: str, ccr: float, seed: list[int]
) -> Problem:
    rng = np.random.default_rng(seed)
    graph = generate_graph(generator, rng, **parameters)
    if kind == "uniform":
        return on_uniform_machines(graph, devices, ccr, rng).replace(name=name)
    cost = unrelated_costs(len(graph), devices, rng, work=graph.flops / graph.flops.mean())
    seconds = scale_communication(graph.edge_bytes, cost, ccr)
    edges = zip(graph.edge_source.tolist(), graph.edge_target.tolist(), seconds.tolist(), strict=True)
    names = [op.name for op in graph.operators]
    return Problem.from_arrays(cost, edges, tensors=graph.edge_tensor.tolist(), operator_names=names, name=name)
