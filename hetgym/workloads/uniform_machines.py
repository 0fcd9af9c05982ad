"""Problems on uniform machines: devices of one kind and different speeds, random links between them."""

import numpy as np

from hetgym.errors import ProblemError
from hetgym.graph import DataflowGraph
from hetgym.problem import Problem
from hetgym.workloads.synthetic import scale_communication

SPEEDS = (1.0, 4.0)  # Slowest and fastest device that is drawn
BANDWIDTHS = (0.5, 2.0)  # Slowest and fastest link that is drawn [byte/s, of bytes that are scaled to the ratio]


def on_uniform_machines(graph: DataflowGraph, devices: int, ccr: float, rng: np.random.Generator) -> Problem:
    """Make a problem of a graph on devices that differ in speed only, with random symmetric links without latency.

    Speeds and bandwidths are drawn uniformly from :data:`SPEEDS` and :data:`BANDWIDTHS`, one bandwidth for each pair of
    devices. The cost of an operator is its FLOPs, relative to the graph's mean, divided by the speed.

    Args:
        graph: the graph whose operators and edges are priced.
        devices: number of devices, p.
        ccr: mean transfer over all edges and pairs of devices, over mean cost.
        rng: source of all randomness.

    Returns:
        A problem with [p, p] bandwidths; its bytes are the graph's, scaled.

    Raises:
        ProblemError: fewer than one device, or a ratio that is negative or not finite.
    """
    if isinstance(devices, bool) or not isinstance(devices, int | np.integer) or devices < 1:
        raise ProblemError(f"devices is {devices!r}; it must be a whole number of at least 1")
    cost = (graph.flops / graph.flops.mean())[:, None] / rng.uniform(*SPEEDS, devices)
    bandwidth = np.triu(rng.uniform(*BANDWIDTHS, (devices, devices)), 1)
    bandwidth += bandwidth.T + np.eye(devices)
    between = bandwidth[~np.eye(devices, dtype=np.bool_)]
    per_byte = float(np.mean(1.0 / between)) if devices > 1 else 1.0
    size = scale_communication(graph.edge_bytes, cost, ccr) / per_byte
    edges = zip(graph.edge_source.tolist(), graph.edge_target.tolist(), size.tolist(), strict=True)
    return Problem.from_arrays(
        cost,
        list(edges),
        bandwidth=bandwidth,
        tensors=graph.edge_tensor.tolist(),
        operator_names=[op.name for op in graph.operators],
        name=f"{graph.name}@{devices}-devices-ccr{ccr:g}",
    )
