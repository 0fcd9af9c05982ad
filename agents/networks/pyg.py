"""Observations as PyTorch Geometric graphs, for networks built from its layers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hetgym.agents.networks._torch import Tensor, torch
from hetgym.agents.networks.actor_critic import VIEWS
from hetgym.agents.networks.views import Seen
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
    "improve": {**_GRAPH, "assignment": "n"},
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
    return _graph("Data", _pairs(_alone(observation, kind), kind))


def to_hetero_data(observation: Observation, kind: str) -> Any:
    """An observation as a heterogeneous graph of operators and devices.

    Args:
        observation: observation of one environment, ``observation="graph"``.
        kind: kind of its decisions, ``env.unwrapped.lanes.kind``: any but ``pipeline``.

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
    return _graph("HeteroData", _relations(_alone(observation, kind), kind))


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
    _check({key: part[0] for key, part in observations.items()}, kind)
    parts = (_relations if hetero else _pairs)(_tensors(observations), kind)
    return _batch("HeteroData" if hetero else "Data", parts, count.pop())


class _Part(NamedTuple):
    """An array of the graphs of several lanes, one graph after the other."""

    store: Any  # type of nodes or of edges; None where there is only one
    name: str
    values: Tensor  # numbers of nodes count within each graph
    lane: Tensor  # of each node, edge or graph
    ends: tuple[Any, Any] | None = None  # stores of the nodes that the two ends of an edge number


def _pairs(seen: Seen, kind: str) -> list[_Part]:
    """Graphs of :func:`to_data`."""
    graphs = VIEWS[kind].graphs(seen)
    operator, device = graphs.present.nonzero(as_tuple=True)
    lane = graphs.graph[operator]
    number = graphs.present.flatten().cumsum(0).view_as(graphs.present) - 1
    first = _starts(lane, len(graphs.row))
    edge, there = graphs.present[graphs.edges[0]].nonzero(as_tuple=True)
    carrier = graphs.graph[graphs.edges[0]][edge]
    ends = torch.stack([number[end[edge], there] for end in graphs.edges]) - first[carrier]
    place = (graphs.row >= 0).cumsum(1).flatten()[(graphs.row >= 0).flatten()] - 1
    return [
        _Part(None, "x", graphs.tokens[operator, device], lane),
        _Part(None, "edge_index", ends, carrier, (None, None)),
        _Part(None, "edge_attr", graphs.edge_features[edge], carrier),
        _Part(None, "operator", place[operator], lane),
        _Part(None, "device", device, lane),
        _Part(None, "action_mask", seen["action_mask"] > 0, torch.arange(len(graphs.row))),
    ]


def _relations(seen: Seen, kind: str) -> list[_Part]:
    """Graphs of :func:`to_hetero_data`."""
    if kind == "pipeline":
        raise ConfigError("a pipeline's observation is a chain of blocks without links; use to_data")
    operators, devices = seen["operator_mask"] > 0, seen["device_mask"] > 0
    operator, device = operators.cumsum(1) - 1, devices.cumsum(1) - 1  # numbers without padding
    lane, m = (seen["edge_mask"] > 0).nonzero(as_tuple=True)
    feeds = operator[lane, seen["edges"][lane, :, m].long().T]
    where, i, a = ((seen["costs"] < CLIP) & operators[:, :, None] & devices[:, None, :]).nonzero(as_tuple=True)
    apart = devices[:, :, None] & devices[:, None, :] & ~torch.eye(devices.shape[1], dtype=torch.bool)
    which, b, c = apart.nonzero(as_tuple=True)
    found = [
        _Part("operator", "x", seen["operators"][operators], operators.nonzero()[:, 0]),
        _Part("device", "x", seen["devices"][devices], devices.nonzero()[:, 0]),
    ]
    for relation, ends, weight, at in (
        (("operator", "feeds", "operator"), feeds, seen["edge_transfer"][lane, m], lane),
        (
            ("operator", "runs_on", "device"),
            torch.stack([operator[where, i], device[where, a]]),
            seen["costs"][where, i, a],
            where,
        ),
        (
            ("device", "sends_to", "device"),
            torch.stack([device[which, b], device[which, c]]),
            seen["links"][which, b, c],
            which,
        ),
    ):
        found.append(_Part(relation, "edge_index", ends, at, (relation[0], relation[2])))
        found.append(_Part(relation, "edge_attr", weight[:, None], at))
    return [*found, _Part(None, "action_mask", seen["action_mask"] > 0, torch.arange(len(operators)))]


def _starts(lane: Tensor, lanes: int) -> Tensor:
    """[L + 1] where the entries of each lane begin, and their number."""
    counts = torch.bincount(lane, minlength=lanes)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _graph(kind: str, parts: list[_Part]) -> Any:
    """The graph of a single lane."""
    data = getattr(_geometric(), kind)()
    for part in parts:
        _put(data, part.store, **{part.name: part.values})
    return data


def _batch(kind: str, parts: list[_Part], lanes: int) -> Any:
    """The graphs of several lanes, as :meth:`torch_geometric.data.Batch.from_data_list` joins them."""
    geometric = _geometric()
    data = geometric.Batch(_base_cls=getattr(geometric, kind))
    starts = {part.store: _starts(part.lane, lanes) for part in parts if part.name == "x"}
    slices: dict[Any, Any] = {}
    moved: dict[Any, Any] = {}
    for part in parts:
        inner, by = slices, moved
        if part.store is not None:
            inner, by = slices.setdefault(part.store, {}), moved.setdefault(part.store, {})
        inner[part.name], by[part.name] = _starts(part.lane, lanes), torch.zeros(lanes, dtype=torch.long)
        values = part.values
        if part.ends is not None:
            first = torch.stack([starts[end][:-1] for end in part.ends])
            values = values + first[:, part.lane]
            by[part.name] = first[0] if part.store is None else first.T[:, :, None]
        _put(data, part.store, **{part.name: values})
        if part.name == "x":
            _put(data, part.store, batch=part.lane, ptr=starts[part.store])
    data._num_graphs, data._slice_dict, data._inc_dict = lanes, slices, moved
    return data


def _put(data: Any, store: Any, **values: Tensor) -> None:
    """Add arrays to the nodes or edges of a type, or to the graph itself."""
    for name, array in values.items():
        setattr(data if store is None else data[store], name, array)


def _known(kind: str) -> dict[str, str]:
    """Axes of the arrays of a kind of decision. Raises UnknownName: a kind without graphs."""
    if kind not in AXES:
        raise unknown_name("kind of decision", kind, AXES)
    return AXES[kind]


def _alone(observation: Observation, kind: str) -> dict[str, Tensor]:
    """An observation as that of a single lane."""
    _check(observation, kind)
    return _tensors({key: np.asarray(part)[None] for key, part in observation.items()})


def _check(observation: Observation, kind: str) -> None:
    """Raise ConfigError unless an observation holds a graph whose arrays fit."""
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


def _tensors(arrays: Observation) -> dict[str, Tensor]:
    """Float tensors [L, …]."""
    return {key: torch.as_tensor(np.asarray(part), dtype=torch.float32) for key, part in arrays.items()}


def _geometric() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it compiles with torch.jit, which PyTorch deprecates
        return require("torch_geometric.data", "agents", "PyTorch Geometric graphs")
