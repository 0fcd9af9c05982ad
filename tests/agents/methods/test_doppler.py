"""DOPPLER: two policies whose product is a distribution, and embeddings along longest paths."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from hetgym.agents.methods.doppler import SelectPlace, along, following  # noqa: E402
from hetgym.agents.networks import ActorCritic, Sizes  # noqa: E402
from hetgym.envs.core.autoreset import make_lanes  # noqa: E402
from hetgym.errors import ConfigError  # noqa: E402
from hetgym.workloads import textbook  # noqa: E402


def test_the_score_of_a_pair_is_the_product_of_both_policies() -> None:
    torch.manual_seed(0)
    head = SelectPlace(2, 6, 8)
    for part in (head.select, head.place):
        torch.nn.init.normal_(part.score.weight)
    slot = torch.tensor([0, 0, 0, 1, 1, 1, 2]).float()
    about = torch.randn(3, 2)[slot.long()]
    actions = torch.cat([about, torch.randn(7, 3), slot[:, None]], -1)[None]
    mask = torch.tensor([[True, True, False, True, True, True, True]])
    policy = torch.softmax(head(actions, mask)[0], -1)
    select, place = head.select(actions[..., :2], mask)[0], head.place(actions[..., 2:-1], mask)[0]
    chosen = torch.softmax(select[[0, 3, 6]], -1)
    for k, rows in enumerate(([0, 1], [3, 4, 5], [6])):
        assert torch.allclose(policy[rows], chosen[k] * torch.softmax(place[rows], -1), atol=1e-6)
    assert policy[2] == 0


def test_an_action_far_behind_keeps_the_scores_finite() -> None:
    head = SelectPlace(1, 3, 4)
    with torch.no_grad():
        head.place.rule += 1.0
    actions = torch.tensor([[[0.0, 0.0, 0.0], [0.0, 1e4, 1.0], [0.0, 2e4, 1.0]]])
    scores = head(actions, torch.tensor([[True, True, True]]))
    assert scores[0, :2].tolist() == [0.0, 0.0] and scores[0, 2] == -1e4


def test_it_does_not_begin_as_a_rule() -> None:
    net = ActorCritic("dispatch", "graph", Sizes(8, 8, 1, "hetgym.agents.methods.doppler:Doppler"))
    net.begin_as({})
    with pytest.raises(ConfigError, match="methods.doppler:Doppler' does not begin as a rule; leave rule out"):
        net.begin_as({"finish": 100.0})


def test_paths_follow_the_longest_edges_to_their_end() -> None:
    #  0 -> 1 -> 3, 0 -> 2 -> 3, alone: 4
    edges, length = torch.tensor([[0, 0, 1, 2], [1, 2, 3, 3]]), torch.tensor([4.0, 5.0, 1.0, 1.0])
    below = following(edges, length, 5)
    assert below.tolist() == [2, 3, 3, 5, 5]
    values = torch.tensor([8.0, 2.0, 1.0, 3.0, 7.0])[:, None, None]
    assert along(values, below)[:, 0, 0].tolist() == [4.0, 2.5, 2.0, 3.0, 7.0]
    assert following(edges.flip(0), torch.ones(4), 5).tolist() == [5, 0, 0, 1, 5]  # the first one on ties


def test_scores_of_an_operators_devices_sum_to_its_own() -> None:
    torch.manual_seed(0)
    net = ActorCritic("dispatch", "graph", Sizes(8, 8, 1, "hetgym.agents.methods.doppler:Doppler"))
    for part in (net.actor.select, net.actor.place):
        torch.nn.init.normal_(part.score.weight)
    lanes = make_lanes("HetDispatch-v0", 1, problem=textbook("topcuoglu"), observation="graph", completion="off")
    lanes.prepare(0, np.random.default_rng(0), {}, 0)
    lanes.open()
    for action in (2, 0):  # when the first operator has run, five are ready; then four, while a device has work
        lanes.step(np.array([action]), np.array([True]))
    seen = {key: torch.as_tensor(np.array(value), dtype=torch.float32) for key, value in lanes.seen.items()}
    logits, _ = net(seen)
    described, mask = net.features(seen)
    assert torch.equal(torch.isfinite(logits), mask)
    select = net.actor.select(described[..., : net.actor.selected], mask)
    assert torch.allclose(logits[:, :12].view(4, 3).logsumexp(-1), select[0, :12:3], atol=1e-5)
    assert torch.allclose(logits[0, -1], select[0, -1], atol=1e-5)  # of waiting, which has no device
