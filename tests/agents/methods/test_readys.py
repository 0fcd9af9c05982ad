"""READYS: what the convolutions reach, and which devices are offered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from hetgym.agents.methods.graph_features import in_units  # noqa: E402
from hetgym.agents.methods.readys import Descendants, Readys  # noqa: E402
from hetgym.agents.networks import ActorCritic, Sizes  # noqa: E402
from hetgym.envs.core.autoreset import make_lanes  # noqa: E402
from hetgym.envs.place.observation import OperatorColumn  # noqa: E402
from hetgym.errors import ConfigError  # noqa: E402
from hetgym.problem import Problem  # noqa: E402
from hetgym.workloads.tiled_mix import TiledMix  # noqa: E402


def network() -> ActorCritic:
    torch.manual_seed(0)
    return ActorCritic("dispatch", "graph", Sizes(8, 8, 2, "hetgym.agents.methods.readys:Readys"))


def lanes_of(problem: Problem) -> Any:
    lanes = make_lanes("HetDispatch-v0", 1, problem=problem, observation="graph", completion="off")
    lanes.prepare(0, np.random.default_rng(0), {}, 0)
    lanes.open()
    return lanes


def floats(lanes: Any) -> dict[str, Any]:
    return {key: torch.as_tensor(np.array(value), dtype=torch.float32) for key, value in lanes.seen.items()}


def test_a_task_sees_as_many_generations_of_descendants_as_there_are_layers() -> None:
    torch.manual_seed(0)
    encoder = Descendants(8, layers=2)
    edges, graph = torch.tensor([[0, 1, 2, 4], [1, 2, 3, 1]]), torch.zeros(5, dtype=torch.long)
    tokens = torch.rand(5, 3, len(OperatorColumn) + 8)
    base = encoder(tokens, edges, torch.zeros(4, 1), graph, torch.ones(5, 3))
    for changed, reached in ((0, {0}), (1, {0, 1, 4}), (2, {0, 1, 2, 4}), (3, {1, 2, 3})):
        other = tokens.clone()
        other[changed, :, OperatorColumn.UPWARD_RANK] += 1.0
        moved = (encoder(other, edges, torch.zeros(4, 1), graph, torch.ones(5, 3)) - base).abs().amax((1, 2)) > 1e-7
        assert set(moved.nonzero()[:, 0].tolist()) == reached


def test_only_idle_devices_are_offered() -> None:
    lanes, net = lanes_of(TiledMix(("lu",), (3, 3))(np.random.default_rng(0))), network()
    (logits,), _ = net(floats(lanes))
    assert torch.isfinite(logits).nonzero()[:, 0].tolist() == [0, 1, 2, 3]  # getrf(0) anywhere; no wait
    for action in (2, 0):  # that on a GPU, and when it has run the first trsm on the first CPU
        lanes.step(np.array([action]), np.array([True]))
    (logits,), _ = net(floats(lanes))
    offered = torch.isfinite(logits).nonzero()[:, 0].tolist()
    assert offered == [k for k in range(12) if k % 4 != 0] + [32]
    assert (lanes.mask[0].nonzero()[0] == [*range(12), 32]).all()  # what the environment allows besides


def test_waiting_is_all_that_is_left_where_every_device_is_busy() -> None:
    lanes, net = lanes_of(Problem.from_arrays(np.ones((3, 1)), [])), network()
    lanes.step(np.array([0]), np.array([True]))
    (logits,), _ = net(floats(lanes))
    assert torch.isfinite(logits).nonzero()[:, 0].tolist() == [8]


def test_times_count_in_units_of_the_graph() -> None:
    """Twice as long tasks everywhere are the same problem."""
    assert in_units(torch.tensor([0.0, 3.0]), torch.tensor([3.0])).tolist() == pytest.approx([0.0, np.log(2.0)])
    found = []
    for factor in (1.0, 2.0):
        problem = Problem.from_arrays(factor * np.array([[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]]), [(0, 1, 0.0)])
        found.append(network()(floats(lanes_of(problem))))
    assert torch.allclose(found[0][0], found[1][0]) and torch.allclose(found[0][1], found[1][1])


def test_it_needs_the_graph() -> None:
    with pytest.raises(ConfigError, match="Readys embeds graphs: it needs observation='graph', not 'candidates'"):
        Readys("dispatch", "candidates", Sizes(8, 8, 2))
