"""Networks: equivariant, size-free, blind to padding."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from hetgym.agents.networks import CandidateHead, OperatorDeviceEncoder, ValueHead  # noqa: E402

F, E, H = 5, 2, 8


def _encoder():
    torch.manual_seed(0)
    return OperatorDeviceEncoder(F, E, hidden=H, layers=2).double()


def _graph(n=7, d=3, m=9, seed=0):
    rng = np.random.default_rng(seed)
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    edges = torch.tensor([pairs[k] for k in rng.permutation(len(pairs))[:m]]).T
    tokens, features = torch.tensor(rng.normal(size=(n, d, F))), torch.tensor(rng.normal(size=(m, E)))
    return tokens, edges, features, torch.zeros(n, dtype=torch.long)


def test_permuting_devices_permutes_embeddings():
    encoder, (tokens, edges, features, graph) = _encoder(), _graph()
    swap = torch.tensor([2, 0, 1])
    whole = encoder(tokens, edges, features, graph)
    assert torch.allclose(encoder(tokens[:, swap], edges, features, graph), whole[:, swap], atol=1e-12)
    assert not torch.allclose(whole[:, swap], whole, atol=1e-3)


def test_permuting_operators_permutes_embeddings():
    encoder, (tokens, edges, features, graph) = _encoder(), _graph()
    order = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    turn = torch.argsort(order)
    whole = encoder(tokens, edges, features, graph)
    assert torch.allclose(encoder(tokens[order], turn[edges], features, graph), whole[order], atol=1e-12)


def test_both_directions_matter_and_differ():
    encoder, (tokens, _, features, _) = _encoder(), _graph()
    edges = torch.tensor([[0, 1], [1, 2]])  # a chain of three among seven
    base = encoder(tokens, edges, features[:2], torch.arange(7))  # graphs apart: no path but the edges
    for changed, reach in ((0, {0, 1, 2}), (1, {0, 1, 2}), (2, {0, 1, 2}), (3, {3})):
        other = tokens.clone()
        other[changed] += 1.0
        moved = (encoder(other, edges, features[:2], torch.arange(7)) - base).abs().amax((1, 2)) > 1e-9
        assert set(torch.nonzero(moved)[:, 0].tolist()) == reach
    assert not torch.allclose(base, encoder(tokens, edges.flip(0), features[:2], torch.arange(7)))


def test_graphs_of_a_batch_do_not_see_each_other():
    encoder = _encoder()
    a, b = _graph(7, 3, 9, seed=1), _graph(4, 3, 5, seed=2)
    both = encoder(
        torch.cat([a[0], b[0]]),
        torch.cat([a[1], b[1] + 7], 1),
        torch.cat([a[2], b[2]]),
        torch.tensor([0] * 7 + [1] * 4),
    )
    assert torch.allclose(both, torch.cat([encoder(*a), encoder(*b)]), atol=1e-12)


def test_padding_is_not_seen():
    encoder, (tokens, edges, features, graph) = _encoder(), _graph()
    padded = torch.full((9, 5, F), 7.0, dtype=torch.double)
    padded[:7, :3] = tokens
    present = torch.zeros(9, 5, dtype=torch.bool)
    present[:7, :3] = True
    found = encoder(padded, edges, features, torch.zeros(9, dtype=torch.long), present)
    assert torch.allclose(found[:7, :3], encoder(tokens, edges, features, graph), atol=1e-12)
    assert not found[7:].any() and not found[:, 3:].any()


def test_without_edges():
    tokens, _, _, graph = _graph()
    none = torch.zeros(2, 0, dtype=torch.long)
    assert _encoder()(tokens, none, torch.zeros(0, E, dtype=torch.double), graph).isfinite().all()


def test_candidate_head_begins_as_its_rule_and_masks():
    head = CandidateHead(3, 4, rule=torch.tensor([1.0, 0.0, 2.0]))
    actions = torch.tensor([[[1.0, 5.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 1.0]]])
    assert head(actions, torch.tensor([[True, False, True]])).tolist() == [[-1.0, -float("inf"), -2.0]]


def test_heads_are_blind_to_order_and_to_what_is_masked():
    torch.manual_seed(0)
    head, value = CandidateHead(3, 4), ValueHead(3, 4)
    torch.nn.init.normal_(head.score.weight)
    actions, mask = torch.randn(2, 5, 3), torch.tensor([[True] * 5, [True, True, False, True, False]])
    swap = torch.tensor([3, 1, 4, 0, 2])
    assert torch.allclose(head(actions[:, swap], mask[:, swap]), head(actions, mask)[:, swap], atol=1e-6)
    assert torch.allclose(value(actions[:, swap], mask[:, swap]), value(actions, mask), atol=1e-6)
    other = actions.clone()
    other[1, 2] = 9.0
    assert torch.allclose(head(other, mask)[1], head(actions, mask)[1], atol=1e-6)
    assert torch.allclose(value(other, mask), value(actions, mask), atol=1e-6)


def test_few_legal_actions_are_scored_as_among_many() -> None:
    torch.manual_seed(0)
    scores, value = CandidateHead(5, 8, torch.randn(5)), ValueHead(5, 8)
    torch.nn.init.normal_(scores.score.weight)
    actions = torch.randn(3, 40, 5)
    mask = torch.zeros(3, 40, dtype=torch.bool)
    mask[0, [3, 17]] = mask[1, 39] = True
    mask[2, :4] = True
    few = scores(actions, mask), value(actions, mask)
    part = torch.tensor([3, 17, 39, 0, 1, 2])
    many = scores(actions[:, part], mask[:, part]), value(actions[:, part], mask[:, part])
    assert torch.allclose(few[0][:, part][mask[:, part]], many[0][mask[:, part]], atol=1e-6)
    assert torch.isinf(few[0][~mask]).all()
    assert torch.allclose(few[1], many[1], atol=1e-6)
