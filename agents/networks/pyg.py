"""Observations as PyTorch Geometric graphs, for networks built from its layers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym.agents.networks._torch import torch
from hetgym.agents.networks.actor_critic import VIEWS
from hetgym.envs.core.kinds import IDS
from hetgym.envs.core.scaling import CLIP
from hetgym.errors import ConfigError, require, unknown_name

Observation = Mapping[str, npt.NDArray[Any]]

_GRAPH = {
    "operators": "nf", "operator_mask": "n", "costs": "nd", "devices": "dg", "device_mask": "d", "links": "dd",
    "edges": "2m", "edge_mask": "m", "edge_transfer": "m",
}  # fmt: skip
AXES: dict[str, dict[str, str]] = {
    "place": {**_GRAPH, "assignment": "n"},
    "dispatch": {**_GRAPH, "assignment": "n"},
    "split": _GRAPH,
    "pipeline": {
        "blocks": "nf", "block_mask": "n", "costs": "nd", "devices": "dg", "device_mask": "d", "assignment": "n"
    },
}  # fmt: skip
"""Kind of decision -> array -> its axes: n operators or blocks, d devices, m edges, f and g features."""


def to_data(observation: Observation, kind: str) -> Any:
    """An observation as a homogeneous graph, whose nodes are the pairs of an operator and a device.

    Args:
        observation: observation of one environment, ``observation="graph"``.
        kind: kind of its decisions, ``env.unwrapped.lanes.kind``; one of :data:`AXES`.

    Returns:
        A :class:`torch_geometric.data.Data` of N operators (blocks of a pipeline) on D devices, padding left out:

        - ``x`` [N D, F] features of the pair, in operator-major order; ``edge_index`` [2, M D] from the producer to
          the consumer on the same device; ``edge_attr`` [M D, 1] mean transfer time, as a share of the reference;
        - ``operator`` and ``device`` [N D], their numbers; ``action_mask`` [1, A].

    Raises:
        ConfigError: an observation without the graph, or whose arrays do not fit each other.
        MissingExtra: PyTorch Geometric is not installed.

    >>> import gymnasium as gym, hetgym
    >>> observation, _ = gym.make("HetSchedule-v0", problem=hetgym.workloads.textbook("topcuoglu")).reset(seed=0)
    >>> data = to_data(observation, "place")
    >>> data.num_nodes, data.num_edges  # 10 operators and 15 edges, on 3 devices
    (30, 45)
    """
    seen = _batch_of_one(observation, kind)
    graphs = VIEWS[kind].graphs(seen)
    devices = graphs.present[0].nonzero()[:, 0]
    n, d = len(graphs.tokens), len(devices)
    pair = torch.arange(n * d).view(n, d)
    sender, receiver = (pair[end].flatten() for end in graphs.edges)
    return _geometric().Data(
        x=graphs.tokens[:, devices].flatten(0, 1),
        edge_index=torch.stack([sender, receiver]),
        edge_attr=graphs.edge_features.repeat_interleave(d, 0),
        operator=torch.arange(n).repeat_interleave(d),
        device=devices.repeat(n),
        action_mask=seen["action_mask"] > 0,
    )


def to_hetero_data(observation: Observation, kind: str) -> Any:
    """An observation as a heterogeneous graph of operators and devices.

    Args:
        observation: observation of one environment, ``observation="graph"``.
        kind: kind of its decisions, ``env.unwrapped.lanes.kind``: ``place``, ``dispatch`` or ``split``.

    Returns:
        A :class:`torch_geometric.data.HeteroData`, padding left out, of N operators, M edges and D devices:

        - nodes ``operator`` with ``x`` [N, F] and ``device`` with ``x`` [D, G], the environment's features;
        - edges ``(operator, feeds, operator)`` with ``edge_attr`` [M, 1], the mean transfer time;
          ``(operator, runs_on, device)``, one for each device that can run the operator within ten times the
          reference, with ``edge_attr`` [., 1], the run time there; ``(device, sends_to, device)``, one for each ordered
          pair, with ``edge_attr`` [., 1], the time of a mean transfer. Times are shares of the reference.
        - ``action_mask`` [1, A].

    Raises:
        ConfigError: an observation without the graph, whose arrays do not fit each other, or of a pipeline, which is
            a chain (see :func:`to_data`).
        MissingExtra: PyTorch Geometric is not installed.

    >>> import gymnasium as gym, hetgym
    >>> observation, _ = gym.make("HetSchedule-v0", problem=hetgym.workloads.textbook("topcuoglu")).reset(seed=0)
    >>> data = to_hetero_data(observation, "place")
    >>> data["operator"].num_nodes, data["device"].num_nodes
    (10, 3)
    """
    batch = _batch_of_one(observation, kind)
    seen = {key: values[0] for key, values in batch.items()}
    if kind == "pipeline":
        raise ConfigError("a pipeline's observation is a chain of blocks without links; use to_data")
    operators, devices = (seen[mask] > 0 for mask in ("operator_mask", "device_mask"))
    edges = seen["edge_mask"] > 0
    costs, links = seen["costs"][operators][:, devices], seen["links"][devices][:, devices]
    runs, pairs = (costs < CLIP).nonzero().T, (1 - torch.eye(len(links))).nonzero().T
    data = _geometric().HeteroData()
    data["operator"].x, data["device"].x = seen["operators"][operators], seen["devices"][devices]
    feeds, runs_on, sends_to = (
        data["operator", "feeds", "operator"],
        data["operator", "runs_on", "device"],
        data["device", "sends_to", "device"],
    )
    feeds.edge_index, feeds.edge_attr = seen["edges"][:, edges].long(), seen["edge_transfer"][edges][:, None]
    runs_on.edge_index, runs_on.edge_attr = runs, costs[runs[0], runs[1]][:, None]
    sends_to.edge_index, sends_to.edge_attr = pairs, links[pairs[0], pairs[1]][:, None]
    data.action_mask = seen["action_mask"][None] > 0
    return data


def to_batch(observations: Observation, kind: str, hetero: bool = False) -> Any:
    """The observations of many environments as one batch of graphs.

    Args:
        observations: [L, …] by key, as vector environments return them for ``observation="graph"``.
        kind: kind of their decisions, ``envs.unwrapped.lanes.kind``.
        hetero: true for graphs of :func:`to_hetero_data`; otherwise those of :func:`to_data`.

    Returns:
        A :class:`torch_geometric.data.Batch` of L graphs in the order of the environments. ``action_mask`` is [L, A].

    Raises:
        ConfigError: observations of one environment, without the graph, or whose arrays do not fit each other.
        MissingExtra: PyTorch Geometric is not installed.

    >>> import gymnasium as gym, hetgym
    >>> envs = gym.make_vec("HetSchedule-v0", 2, problem=hetgym.workloads.textbook("topcuoglu"))
    >>> observations, _ = envs.reset(seed=0)
    >>> to_batch(observations, "place").num_graphs
    2
    """
    _known(kind)
    count = {np.shape(part)[0] for part in observations.values() if np.ndim(part)}
    if np.ndim(observations["action_mask"]) != 2 or len(count) != 1:
        raise ConfigError("a batch is made of the observations of several environments, [L, …] by key")
    convert = to_hetero_data if hetero else to_data
    graphs = [convert({key: part[lane] for key, part in observations.items()}, kind) for lane in range(count.pop())]
    return _geometric().Batch.from_data_list(graphs)


def _known(kind: str) -> dict[str, str]:
    """Axes of the arrays of a kind of decision. Raises UnknownName: a kind without graphs."""
    if kind not in AXES:
        raise unknown_name("kind of decision", kind, AXES)
    return AXES[kind]


def _batch_of_one(observation: Observation, kind: str) -> dict[str, Any]:
    """The observation as float tensors [1, …]; ConfigError unless it holds a graph whose arrays fit."""
    sizes, named = {"2": 2}, observation if isinstance(observation, Mapping) else {}
    for key, axes in _known(kind).items():
        if key not in named:
            raise ConfigError(
                f"the observation has no {key!r}; pass on what {IDS[kind]} returns with observation='graph'"
            )
        shape = np.shape(observation[key])
        if len(shape) != len(axes) or any(sizes.setdefault(a, n) != n for a, n in zip(axes, shape, strict=True)):
            raise ConfigError(
                f"{key!r} of the observation has shape {shape}, which does not fit its other arrays; pass on what the "
                "environment returns"
            )
    return {key: torch.as_tensor(np.asarray(part)[None], dtype=torch.float32) for key, part in observation.items()}


def _geometric() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it compiles with torch.jit, which PyTorch deprecates
        return require("torch_geometric.data", "agents", "PyTorch Geometric graphs")
