"""The path that GPUs take, walked by a CPU: tensors are copied in, and copied back for others."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from execution.small import DEVICES, diamond, placed  # noqa: E402
from execution.test_module import alternating  # noqa: E402

from hetgym.execution import Cluster, ExecutionDevice, PlannedModule, execute  # noqa: E402
from hetgym.graph import from_torch  # noqa: E402


class Copying(ExecutionDevice):
    """A CPU that copies what it reads, as a GPU must."""

    @property
    def staged(self) -> bool:
        return True


MIXED = (DEVICES[0], Copying("copying", DEVICES[1].host))


def test_a_staged_device_notes_when_its_copies_were_there() -> None:
    graph = diamond(32, 2)
    with Cluster(graph, MIXED) as cluster:
        (result,) = execute(cluster, [placed(graph, [0, 1, 0, 1, 0, 1, 0])], rounds=2, warmups=1)
        times = cluster.memory.times()
        tensors = graph.edge_tensor[
            (np.array([0, 1, 0, 1, 0, 1, 0])[graph.edge_target] == 1) & (graph.edge_source % 2 == 0)
        ]
        assert (times.fetched[1, np.unique(tensors)] > 0).all()
        assert not times.fetched[0].any()
    trace = result.trace()
    to_it = trace.remote & (trace.assignment[graph.edge_target] == 1)
    assert (trace.arrived[to_it] <= trace.start[graph.edge_target][to_it]).all()
    assert (trace.arrived[trace.remote] > trace.sent[trace.remote]).all()


def test_a_staged_device_computes_the_same() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(*(torch.nn.Linear(8, 8), torch.nn.Tanh()) * 3).eval()
    x = torch.randn(4, 8)
    graph = from_torch(module, (x,))
    with PlannedModule(module, (x,), alternating(graph), MIXED) as planned, torch.no_grad():
        for _ in range(2):
            x = torch.randn(4, 8)
            torch.testing.assert_close(planned(x), module(x))
