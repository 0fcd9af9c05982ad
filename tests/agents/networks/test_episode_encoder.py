"""EpisodeEncoder: each graph is encoded once, and what is remembered is what would be computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from hetgym.agents.networks import Sizes  # noqa: E402
from hetgym.agents.networks.actor_critic import VIEWS  # noqa: E402
from hetgym.agents.networks.episode_encoder import EpisodeEncoder, distinct  # noqa: E402
from hetgym.envs.core.autoreset import make_lanes  # noqa: E402

ENVIRONMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "place": ("HetSchedule-v0", {"completion": "off"}),
    "dispatch": ("HetDispatch-v0", {"completion": "off"}),
    "split": ("HetSplit-v0", {"graph": "alexnet", "platform": "even-pair"}),
    "pipeline": ("HetPipeline-v0", {}),
}


def observed(kind: str, steps: int = 3) -> list[dict[str, Any]]:
    """Observations of two lanes, step by step, as tensors."""
    name, arguments = ENVIRONMENTS[kind]
    lanes = make_lanes(name, 2, **arguments)
    for lane in range(2):
        lanes.begin(lane, np.random.default_rng(lane), {}, None)
    found = []
    for _ in range(steps):
        seen: Any = lanes.seen
        found.append({key: torch.as_tensor(np.array(value), dtype=torch.float32) for key, value in seen.items()})
        lanes.step(lanes.mask.argmax(axis=1), ~lanes.over)
    return found


def encoder(kind: str) -> EpisodeEncoder:
    torch.manual_seed(0)
    return EpisodeEncoder(VIEWS[kind], Sizes(8, 8, 2))


def counted(module: EpisodeEncoder) -> list[int]:
    """The number of (operator, device) rows of each later call of the inner encoder."""
    rows: list[int] = []
    module.encoder.register_forward_hook(lambda _, inputs, __: rows.append(len(inputs[0])))
    return rows


@pytest.mark.parametrize("kind", ENVIRONMENTS)
def test_an_episode_has_one_graph(kind: str) -> None:
    module, steps = encoder(kind), observed(kind)
    both = {key: torch.cat([step[key] for step in steps]) for key in steps[0]}
    rows = counted(module)
    pairs, which = module(both)
    assert which.tolist() == which[:2].tolist() * len(steps)
    alone, lanes = module(steps[0])
    assert rows[0] == rows[1]
    for lane in range(2):
        assert torch.allclose(pairs[which[lane]], alone[lanes[lane]], atol=1e-6)


def test_remembered_embeddings_are_those_of_the_weights_and_graphs() -> None:
    module, steps = encoder("place"), observed("place")
    rows = counted(module)
    with torch.no_grad():
        first, _ = module(steps[0])
        again, which = module(steps[2])
        assert len(rows) == 1 and torch.equal(first, again) and which.tolist() == [0, 1]
        other = steps[2]
        other["costs"][1] *= 2.0  # in place, as environments do
        half, _ = module(other)
        assert len(rows) == 2 and rows[1] < rows[0]  # the lane whose graph is another alone
        assert torch.equal(half[0], first[0]) and not torch.equal(half[1], first[1])
        next(module.encoder.parameters()).mul_(1.5)
        fresh, _ = module(steps[0])
        assert len(rows) == 3 and not torch.equal(fresh, first)
    trained, which = module(steps[0])
    assert trained.requires_grad and torch.allclose(trained[which], fresh, atol=1e-6)


def test_distinct_graphs() -> None:
    table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [2.0, 1.0]])
    first, which = distinct({"a": table, "b": table[:, :1, None]})
    assert len(first) == 3 and torch.equal(table[first][which], table)
    assert len(distinct({"a": table, "b": torch.arange(4.0)[:, None]})[0]) == 4
    never = torch.full((2, 2), float("nan"))  # nothing equals it, not even itself
    assert distinct({"a": never})[0].tolist() == [0, 1]
