"""Modules executed by plan give what the module gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from execution.small import DEVICES  # noqa: E402

from hetgym.errors import ExecutionError, InvalidSchedule  # noqa: E402
from hetgym.execution.calibration import in_topological_order  # noqa: E402
from hetgym.execution.module import PlannedModule  # noqa: E402
from hetgym.graph import from_torch  # noqa: E402
from hetgym.schedule import Schedule  # noqa: E402

nn = torch.nn


class Loop(nn.Module):
    """A recurrent cell, and an output that is an input."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 4)

    def forward(self, words: Any) -> Any:
        h = c = torch.zeros(words.shape[0], 4)
        for k in range(words.shape[1]):
            h, c = self.cell(words[:, k], (h, c))
        return words, h, c


class Mixture(nn.Module):
    """Convolutions, attention, splits, tied weights, constants, several outputs in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.embed = nn.Embedding(11, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.mix = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("scale", torch.full((8,), 0.5))

    def forward(self, image: Any, words: Any, *, shift: Any) -> dict[str, Any]:
        seen = torch.relu(self.norm(self.conv(image))).flatten(2).transpose(1, 2)
        read = self.embed(words) * self.scale.sqrt() + torch.arange(8)
        mixed, _ = self.attention(read, seen, seen, need_weights=False)
        left, right = (self.drop(self.mix(mixed)) + shift).chunk(2, dim=-1)
        joined = torch.cat([left, right, torch.zeros_like(left)], dim=-1)
        return {"joined": joined, "pair": (left.softmax(-1), self.mix(read).mean((1, 2)), 3)}


def alternating(graph: Any, step: int = 1) -> Schedule:
    return in_topological_order(graph, np.arange(len(graph)) // step % 2, 2, "alternating")


@pytest.mark.slow
def test_it_gives_what_the_module_gives() -> None:
    torch.manual_seed(0)
    module = Mixture().eval()
    example = (torch.randn(2, 3, 6, 6), torch.randint(0, 11, (2, 5)))
    graph = from_torch(module, example, {"shift": torch.randn(8)})
    assert len(graph) > 15
    with PlannedModule(module, example, alternating(graph), DEVICES, kwargs={"shift": torch.randn(8)}) as planned:
        for seed in range(3):
            torch.manual_seed(seed)
            arguments = (torch.randn(2, 3, 6, 6), torch.randint(0, 11, (2, 5)))
            shift = torch.randn(8)
            with torch.no_grad():
                expected = module(*arguments, shift=shift)
            found = planned(*arguments, shift=shift)
            torch.testing.assert_close(found, expected)
        with pytest.raises(ExecutionError, match="argument 1 is torch.int32"):
            planned(arguments[0], arguments[1].int(), shift=shift)
        with pytest.raises(ExecutionError, match="not structured like"):
            planned(arguments[0], shift=shift)
        torch.testing.assert_close(planned(*arguments, shift=shift), expected)


def test_what_cannot_be_executed_is_refused_before_workers_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("hetgym.execution.module.Cluster")
    with torch.device("meta"):
        module = nn.Linear(4, 4)
    graph = from_torch(module, (torch.empty(1, 4, device="meta"),))
    with pytest.raises(ExecutionError, match="weight is on the meta device"):
        PlannedModule(module, (torch.empty(1, 4, device="meta"),), alternating(graph), DEVICES)
    module, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(1, 4)
    with pytest.raises(InvalidSchedule):
        PlannedModule(module, (x,), Schedule([0, 1, 0], [[0, 2], [1]]), DEVICES)
