"""The README's Python runs as printed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import hetgym

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


def test_there_are_blocks() -> None:
    assert len(BLOCKS) == 5


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # raised inside torch.export
@pytest.mark.parametrize(
    "number", [pytest.param(k, marks=pytest.mark.slow) if "with Cluster(" in b else k for k, b in enumerate(BLOCKS)]
)
def test_block_runs(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"hetgym": hetgym}
    if "assignments" in BLOCKS[number]:
        names["assignments"] = np.zeros((2, len(hetgym.load_graph("inception_v1"))), int)
    if "model.onnx" in BLOCKS[number]:
        torch, helper = pytest.importorskip("torch"), pytest.importorskip("onnx.helper")
        onnx = pytest.importorskip("onnx")
        ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 4]) for name in "xy"]
        node = helper.make_node("Relu", ["x"], ["y"])
        onnx.save(helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:])), "model.onnx")
        graph = nx.DiGraph()
        graph.add_nodes_from("ab", flops=1e9)
        graph.add_edge("a", "b", bytes=8.0)
        names |= {"module": torch.nn.Linear(4, 2), "example": torch.ones(1, 4), "digraph": graph}
        names |= {"cost": [[1.0, 2.0], [2.0, 1.0]], "edges": [(0, 1, 8.0)]}
    if "with Cluster(" in BLOCKS[number]:
        torch = pytest.importorskip("torch")
        if not {0, 1} <= getattr(os, "sched_getaffinity", lambda _: set())(0):
            pytest.skip("needs cores 0 and 1")
        module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        example = torch.ones(1, 4)
        graph = hetgym.graph.from_torch(module, (example,))
        names |= {"module": module, "example": example, "graph": graph}
        names["schedule"] = hetgym.Schedule(
            assignment=[i % 2 for i in range(len(graph))],
            order=[list(range(d, len(graph), 2)) for d in range(2)],
        )
    exec(compile(BLOCKS[number], f"README block {number}", "exec"), names)
    if "with Cluster(" in BLOCKS[number]:
        torch.testing.assert_close(names["planned"](example), module(example))  # type: ignore[operator]
    if "plan.png" in BLOCKS[number]:
        assert Path("plan.png").stat().st_size > 1000 and Path("plan.json").stat().st_size > 1000
