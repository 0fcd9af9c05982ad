"""PyTorch Geometric graphs contain the values of the observation and of the problem."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import hetgym
from hetgym.errors import ConfigError
from hetgym.workloads import textbook

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Batch  # noqa: E402

from hetgym.agents.networks import OperatorDeviceEncoder, to_batch, to_data, to_hetero_data  # noqa: E402
from hetgym.agents.networks.pyg import AXES  # noqa: E402

CASES: dict[str, dict[str, Any]] = {
    "place": {"id": "HetSchedule-v0"},
    "dispatch": {"id": "HetDispatch-v0", "completion": "off"},
    "improve": {"id": "HetImprove-v0"},
    "split": {"id": "HetSplit-v0", "graph": "alexnet", "platform": "even-pair"},
    "pipeline": {"id": "HetPipeline-v0"},
}


def observed(kind: str) -> Any:
    return gym.make(**CASES[kind]).reset(seed=3)[0]


@pytest.mark.parametrize("kind", CASES)
def test_pairs_and_edges_without_padding(kind: str) -> None:
    observation = observed(kind)
    mask, table = ("block_mask", "blocks") if kind == "pipeline" else ("operator_mask", "operators")
    n, d = int(observation[mask].sum()), int(observation["device_mask"].sum())
    edges = n - 1 if kind == "pipeline" else int(observation["edge_mask"].sum())
    data = to_data(observation, kind)
    assert data.validate()
    assert (data.num_nodes, data.num_edges) == (n * d, edges * d)
    pair = n * d - 1
    assert (int(data.operator[pair]), int(data.device[pair])) == (n - 1, d - 1)
    features = observation[table].shape[1]
    assert data.x[pair, :features].tolist() == observation[table][n - 1].tolist()
    assert data.x[pair, features] == observation["costs"][n - 1, d - 1]
    ends = data.edge_index
    assert data.device[ends[0]].tolist() == data.device[ends[1]].tolist()
    assert data.action_mask[0].tolist() == (observation["action_mask"] > 0).tolist()


def test_the_encoder_sees_the_same_graph() -> None:
    """Messages over ``to_data``'s edges are those that OperatorDeviceEncoder passes, device by device."""
    data = to_data(observed("place"), "place")
    devices = int(data.device.max()) + 1
    encoder = OperatorDeviceEncoder(data.num_node_features, 1, hidden=8, layers=2)
    ends = data.edge_index[:, ::devices] // devices
    tokens = data.x.view(-1, devices, data.num_node_features)
    graph = torch.zeros(len(tokens), dtype=torch.long)
    layer = encoder.layers[0].inputs
    pair = torch.randn(len(tokens), devices, 16)
    apart = layer(pair.flatten(0, 1)[:, None], data.edge_index, data.edge_attr)[:, 0].view(len(tokens), devices, -1)
    assert torch.allclose(layer(pair, ends, data.edge_attr[::devices]), apart)
    assert encoder(tokens, ends, data.edge_attr[::devices], graph).shape == (len(tokens), devices, 8)


@pytest.mark.parametrize("kind", ["place", "dispatch", "split"])
def test_operators_devices_and_their_relations(kind: str) -> None:
    observation = observed(kind)
    data = to_hetero_data(observation, kind)
    assert data.validate()
    n, d = int(observation["operator_mask"].sum()), int(observation["device_mask"].sum())
    assert data["operator"].x.tolist() == observation["operators"][:n].tolist()
    assert data["device"].x.tolist() == observation["devices"][:d].tolist()
    assert data["feeds"].edge_index.tolist() == observation["edges"][:, observation["edge_mask"] > 0].tolist()
    operator, device = data["runs_on"].edge_index
    assert data["runs_on"].edge_attr[:, 0].tolist() == observation["costs"][operator, device].tolist()
    assert data["sends_to"].num_edges == d * (d - 1)


def test_devices_that_cannot_run_an_operator_are_not_joined_to_it() -> None:
    problem = hetgym.Problem.from_arrays([[1.0, np.inf], [2.0, 0.0]], [(0, 1, 1.0)])
    data = to_hetero_data(gym.make("HetSchedule-v0", problem=problem).reset(seed=0)[0], "place")
    assert data["runs_on"].edge_index.T.tolist() == [[0, 0], [1, 0], [1, 1]]


@pytest.mark.parametrize("hetero", [False, True])
@pytest.mark.parametrize("kind", CASES)
def test_batches_are_those_of_pytorch_geometric(kind: str, hetero: bool) -> None:
    """All lanes at once give what joining their graphs one by one does, in the middle of episodes of unlike graphs."""
    if hetero and kind == "pipeline":
        return
    case = {key: value for key, value in CASES[kind].items() if key != "id"}
    envs = gym.make_vec(CASES[kind]["id"], num_envs=3, **case)
    observations, infos = envs.reset(seed=0)
    for _ in range(4):
        observations, *_, infos = envs.step(infos["action_mask"].argmax(axis=1))
    batch = to_batch(observations, envs.unwrapped.lanes.kind, hetero)
    alone = to_hetero_data if hetero else to_data
    graphs = [alone({key: part[lane] for key, part in observations.items()}, kind) for lane in range(3)]
    joined = Batch.from_data_list(graphs)
    assert batch.validate() and batch.num_graphs == 3 and batch.action_mask.tolist() == infos["action_mask"].tolist()
    same(batch.to_dict(), joined.to_dict())
    same(batch._slice_dict, joined._slice_dict)
    same(batch._inc_dict, joined._inc_dict)
    for lane, graph in enumerate(graphs):
        same(batch.get_example(lane).to_dict(), graph.to_dict())


def same(ours: Any, theirs: Any) -> None:
    if isinstance(ours, dict):
        assert set(ours) == set(theirs)
        for key in ours:
            same(ours[key], theirs[key])
    elif torch.is_tensor(ours):
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs)
    else:
        assert ours == theirs


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="several environments"):
        to_batch(observed("place"), "place")
    with pytest.raises(ConfigError, match="observation='graph'"):
        to_batch(gym.make_vec("HetSchedule-v0", num_envs=2, observation="candidates").reset(seed=0)[0], "place")
    with pytest.raises(ConfigError, match="a chain of blocks"):
        to_hetero_data(observed("pipeline"), "pipeline")
    few = gym.make("HetSchedule-v0", observation="candidates").reset(seed=0)[0]
    for convert in (to_data, to_hetero_data):
        with pytest.raises(ConfigError, match="observation='graph'"):
            convert(few, "place")
        with pytest.raises(ConfigError, match="pass on what HetSchedule-v0 returns"):
            convert(np.zeros(3), "place")
        with pytest.raises(ConfigError, match="pass on what HetSplit-v0 returns|does not fit its other arrays"):
            convert(observed("pipeline"), "split")
        with pytest.raises(hetgym.UnknownName, match="unknown kind of decision 'cluster'"):
            convert(few, "cluster")


@pytest.mark.parametrize("kind", CASES)
def test_arrays_that_do_not_fit_each_other_are_refused(kind: str) -> None:
    observation = observed(kind)
    for key, axes in AXES[kind].items():
        for axis, name in enumerate(axes):
            if name in "fg":  # which features there are is not checked
                continue
            short = observation | {key: np.take(observation[key], range(observation[key].shape[axis] - 1), axis)}
            for convert in (to_data,) if kind == "pipeline" else (to_data, to_hetero_data):
                with pytest.raises(
                    ConfigError, match=r"of the observation has shape \(.*does not fit its other arrays"
                ):
                    convert(short, kind)
        with pytest.raises(ConfigError, match=f"the observation has no '{key}'"):
            to_data({other: part for other, part in observation.items() if other != key}, kind)
    batch = {part: np.stack([values, values]) for part, values in observation.items()}
    with pytest.raises(ConfigError, match="'costs' of the observation has shape"):
        to_batch(batch | {"costs": batch["costs"][:, :-1]}, kind)
    with pytest.raises(ConfigError, match="several environments"):
        to_batch(batch | {"costs": batch["costs"][:-1]}, kind)


def test_a_network_of_geometric_layers_reads_them() -> None:
    from torch_geometric.data import Batch
    from torch_geometric.nn import HeteroConv, SAGEConv

    env = gym.make("HetSchedule-v0", problem=textbook("topcuoglu"))
    graphs = Batch.from_data_list([to_hetero_data(env.reset(seed=seed)[0], "place") for seed in (0, 1)])
    layer = HeteroConv({relation: SAGEConv((-1, -1), 4) for relation in graphs.edge_types})
    assert layer(graphs.x_dict, graphs.edge_index_dict)["device"].shape == (6, 4)
