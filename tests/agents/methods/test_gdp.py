"""GDP: one shot, blind to decisions and to padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from hetgym.agents.methods.gdp import WholeGraph  # noqa: E402
from hetgym.agents.networks import ActorCritic, Sizes  # noqa: E402
from hetgym.envs.core.autoreset import make_lanes  # noqa: E402
from hetgym.envs.place.observation import OperatorColumn  # noqa: E402
from hetgym.workloads import textbook  # noqa: E402

H = 8


def whole(layers: int = 1) -> Any:
    torch.manual_seed(0)
    return WholeGraph(H, layers).eval()


def graph(n: int, d: int, seed: int) -> tuple[Any, ...]:
    rng = torch.Generator().manual_seed(seed)
    edges = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    return torch.rand(n, d, len(OperatorColumn) + 1, generator=rng), edges, torch.rand(n - 1, 1, generator=rng)


def test_graphs_of_a_batch_do_not_see_each_other() -> None:
    (a, ea, fa), (b, eb, fb) = graph(6, 3, 0), graph(4, 3, 1)
    net = whole()
    both = net(
        torch.cat([a, b]),
        torch.cat([ea, eb + 6], 1),
        torch.cat([fa, fb]),
        torch.tensor([0] * 6 + [1] * 4),
        torch.ones(10, 3),
    )
    alone = [
        net(*one, torch.zeros(len(one[0]), dtype=torch.long), torch.ones(len(one[0]), 3))
        for one in ((a, ea, fa), (b, eb, fb))
    ]
    assert torch.allclose(both, torch.cat(alone), atol=1e-5)


def test_absent_devices_change_nothing() -> None:
    tokens, edges, features = graph(5, 3, 0)
    net, present = whole(), torch.tensor([1.0, 1.0, 0.0]).expand(5, 3)
    base = net(tokens, edges, features, torch.zeros(5, dtype=torch.long), present)
    other = net(tokens[:, :2], edges, features, torch.zeros(5, dtype=torch.long), torch.ones(5, 2))
    assert torch.allclose(base[:, :2], other, atol=1e-5) and not base[:, 2].any()


def test_every_operator_sees_every_other() -> None:
    tokens, edges, features = graph(7, 2, 0)
    net, single, ones = whole(), torch.zeros(7, dtype=torch.long), torch.ones(7, 2)
    moved = tokens.clone()
    moved[6] += 1.0
    change = (net(moved, edges, features, single, ones) - net(tokens, edges, features, single, ones)).abs().amax((1, 2))
    assert (change > 1e-7).all()


def test_the_plan_does_not_depend_on_earlier_decisions() -> None:
    """Whatever was decided before, an operator gets the same scores."""
    torch.manual_seed(0)
    net = ActorCritic("place", "graph", Sizes(8, H, 1, "hetgym.agents.methods.gdp:Gdp"))
    torch.nn.init.normal_(net.actor.score.weight)
    lanes = make_lanes("HetSchedule-v0", 3, problem=textbook("topcuoglu"), observation="graph", completion="off")
    for lane in range(3):
        lanes.prepare(lane, np.random.default_rng(0), {}, 0)
    lanes.open()
    while not lanes.over.any():
        logits, _ = net({k: torch.as_tensor(np.array(v), dtype=torch.float32) for k, v in lanes.seen.items()})
        assert torch.allclose(logits, logits[:1], atol=1e-6)
        lanes.step(np.array([0, 1, 2]), ~lanes.over)
