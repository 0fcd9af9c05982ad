"""The compiled network against the PyTorch one, from which its weights come."""

from __future__ import annotations

import numpy as np
import pytest
from place_tools import NAMES, drawn, prepared, weights

from hetgym.agents.place import episodes, inference
from hetgym.agents.place.tokens import EDGE_FEATURES, TOKEN_FEATURES, view

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from hetgym.agents.networks.place import PlaceNetwork  # noqa: E402


def network(hidden=8, layers=2, width=12):
    built = PlaceNetwork(len(TOKEN_FEATURES), len(EDGE_FEATURES), NAMES, hidden, layers, width).double()
    built.load_state_dict({name: torch.tensor(w) for name, w in weights(0, hidden, layers, width).items()})
    return built


def embedded(built, problem):
    seen = view(problem)
    ends = torch.tensor(np.stack([problem.edge_source, problem.edge_target]).astype(np.int64))
    graph = torch.zeros(problem.num_operators, dtype=torch.long)
    return built.encoder(torch.tensor(seen.tokens), ends, torch.tensor(seen.edge_features), graph)


@pytest.mark.parametrize(("seed", "n", "d", "layers"), [(0, 14, 3, 2), (1, 1, 1, 1), (2, 30, 5, 3), (3, 6, 2, 1)])
def test_encoder(seed, n, d, layers):
    problem, built = drawn(seed, n, d), network(layers=layers)
    seen, w = view(problem), inference.encoder_weights(weights(0, 8, layers))
    found = inference.encode(problem, seen.tokens, seen.edge_features, w)
    np.testing.assert_allclose(found, embedded(built, problem).detach().numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_every_decision_of_an_episode_is_the_networks(seed):
    problem, built = drawn(seed), network()
    stage, head, desk = prepared(problem)
    _, choice = episodes.greedy(problem, stage, head, desk)
    seen = episodes.replay(problem, stage, head, desk, choice)
    order = stage.order.astype(np.int64)
    legal = np.isfinite(problem.cost[order])
    logits = built(embedded(built, problem)[order], torch.tensor(seen), torch.tensor(legal))
    np.testing.assert_array_equal(logits.argmax(1).numpy(), choice[order])
    assert (~legal).any()


def test_without_edges():
    problem = drawn(0, 5, 2)
    seen, w = view(problem), inference.encoder_weights(weights())
    assert np.isfinite(inference.encode(problem, seen.tokens, seen.edge_features, w)).all()
