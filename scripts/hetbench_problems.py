"""Definitions of the problems of the suites hetbench-v1 and hetbench-v2.

Networks have the costs of the roofline model on a preset platform. Generated graphs keep their own work and payloads,
scaled to a communication-to-computation ratio (CCR). Their devices either suit operators differently (``unrelated``),
or differ in speed only and have random links (``uniform``).

hetbench-v2 adds twenty, for what hetbench-v1 has little of: shards of matrix products and attention, mixtures of
experts, vision networks of many branches, shops that force the device, and work that memory bandwidth limits. Its
networks know their occupancy, and have the costs of the platforms' own models.
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

MORE = {
    "sharded_product-5@8gpu-node": ("sharded_product", {"blocks": 5, "size": 512}),
    "sharded_product-3x4@two-level-cluster": ("sharded_product", {"blocks": 3, "size": 2048, "factors": 4}),
    "transformer-8heads@8gpu-node": ("transformer", {"blocks": 4, "heads": 8, "hidden": 1024, "sequence": 512}),
    "transformer-16heads@cpu-2gpu-nvlink": ("transformer", {"blocks": 2, "heads": 16, "hidden": 1024, "batch": 8}),
    "mixture_of_experts-12@8gpu-node": ("mixture_of_experts", {"blocks": 4, "experts": 12, "hidden": 1024}),
    "mixture_of_experts-16@two-level-cluster": ("mixture_of_experts", {"blocks": 3, "experts": 16, "hidden": 1024}),
    "mixture_of_experts-8@cpu-2gpu-nvlink": ("mixture_of_experts", {"blocks": 3, "hidden": 768, "skew": 1.0}),
    "mixture_of_experts-4@cpu-gpu-npu": ("mixture_of_experts", {"blocks": 6, "experts": 4, "tokens": 256}),
    "inception-9-b16@even-pair": ("inception", {"blocks": 9, "batch": 16}),
    "transformer-decode@even-pair": ("transformer", {"heads": 8, "hidden": 2048, "sequence": 1, "batch": 8}),
    "lstm_grid-8x24@cpu-2gpu-nvlink": ("lstm_grid", {"layers": 8, "steps": 24, "hidden": 1024}),
}  # fmt: skip
"""Name of a problem, with its platform -> generator and parameters."""

MORE_NETWORKS = {
    "two-level-cluster": ["inception_v2-b8", "nasnet-b8"],
    "even-pair": ["nasnet-b8-fused", "inception_v2-b8-training"],
    "cpu-gpu-balanced": ["vit_b16-training"],
}
"""Platform -> networks of the zoo."""

SHOPS = {
    "job-shop-10x10": (10, 10, 1, 0.0),
    "job-shop-20x15": (20, 15, 1, 0.0),
    "flexible-job-shop-15x8": (15, 8, 3, 0.0),
    "job-shop-15x6-transport": (15, 6, 1, 20.0),
}
"""Jobs, machines, most machines that can run an operation, and time from machine to machine (mean run time: 50)."""


def definitions(suite: str = "hetbench-v1") -> dict[str, Callable[[], Problem]]:
    """Name -> builder, for every problem that a suite adds to those before it."""
    if suite == "hetbench-v2":
        return dict(_more())
    return dict([*_networks(), *_generated()])


def _networks() -> Iterator[tuple[str, Callable[[], Problem]]]:
    for platform, networks in NETWORKS.items():
        for network in networks:
            yield f"{network}@{platform}", partial(_whole_network, network, platform)


def _more() -> Iterator[tuple[str, Callable[[], Problem]]]:
    for name, (generator, parameters) in MORE.items():
        yield name, partial(_generated_network, name, generator, parameters)
    for platform, networks in MORE_NETWORKS.items():
        for network in networks:
            yield f"{network}@{platform}", partial(_network, network, platform)
    for row, (name, (jobs, machines, most, transport)) in enumerate(SHOPS.items()):
        yield name, partial(_shop, name, jobs, machines, most, transport, row)


def _generated() -> Iterator[tuple[str, Callable[[], Problem]]]:
    for row, (generator, parameters, operators, devices, kind) in enumerate(GENERATED):
        for column, ccr in enumerate(CCR):
            name = f"{generator}-{operators}-ccr{ccr:g}@{devices}-{kind}"
            yield name, partial(_drawn, name, generator, parameters, devices, kind, ccr, [row, column])


def _whole_network(network: str, platform: str) -> Problem:
    """A network with the costs of the roofline, of which every operator needs its whole device."""
    return _network(network, platform, "roofline").replace(occupancy=1.0)


def _network(network: str, platform: str, costs: str = "auto") -> Problem:
    name, *changes = network.split("-")
    batch = next((int(change[1:]) for change in changes if change[0] == "b"), 1)
    graph: DataflowGraph = load_graph(name, batch=batch)
    if "fused" in changes:
        graph = fuse(graph).graph
    if "training" in changes:
        graph = training(graph)
    devices = load_platform(platform)
    built = Problem.build(graph, devices, costs)
    # The suite was frozen before GPUs had a reserve.
    return built.replace(name=f"{network}@{platform}", memory_capacity=[device.memory_capacity for device in devices])


def _generated_network(name: str, generator: str, parameters: dict[str, float]) -> Problem:
    graph = generate_graph(generator, **parameters)
    return Problem.build(graph, load_platform(name.partition("@")[2])).replace(name=name)


def _shop(name: str, jobs: int, machines: int, most: int, transport: float, seed: int) -> Problem:
    """Jobs that visit every machine once, in an order of their own; run times are whole numbers from 1 to 99."""
    rng = np.random.default_rng([2, seed])
    cost, edges = np.full((jobs * machines, machines), np.inf), []
    for job in range(jobs):
        for turn, machine in enumerate(rng.permutation(machines).tolist()):
            operation = job * machines + turn
            able = [machine, *rng.choice(np.delete(np.arange(machines), machine), int(rng.integers(most)), False)]
            cost[operation, able] = rng.integers(1, 100, len(able))
            if turn:
                edges.append((operation - 1, operation, 0.0))
    names = [f"job{job}.{turn}" for job in range(jobs) for turn in range(machines)]
    return Problem.from_arrays(cost, edges, transport, operator_names=names, name=name)


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
