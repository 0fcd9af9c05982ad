"""Invalid checkpoints: each is refused before anything is restored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from hetgym.agents import artefact  # noqa: E402
from hetgym.agents.checkpoint import (  # noqa: E402
    Checkpoint,
    numpy_state,
    restore_numpy,
)
from hetgym.agents.network_policy import NetworkPolicy, load_policy  # noqa: E402
from hetgym.agents.networks import ActorCritic, Sizes  # noqa: E402
from hetgym.errors import ArtefactError  # noqa: E402

HISTORY = [{"step": 0, "return": 0.0}, {"step": 7, "return": 0.25, "ratio_reference": 0.9}]


@pytest.fixture
def learner() -> tuple[Any, Any]:
    torch.manual_seed(0)
    network = ActorCritic("place", "candidates", Sizes(8, 8, 1))
    optimizer = torch.optim.Adam(network.parameters())
    sum(weight.square().sum() for weight in network.parameters()).backward()
    optimizer.step()
    return network, optimizer


def test_round_trip_to_the_last_bit(tmp_path: Path, learner: Any) -> None:
    taken = Checkpoint.of(0, *learner).tensors
    Checkpoint(7, taken, {"history": HISTORY, "seconds": 1.5}).save(tmp_path / "c")
    found = Checkpoint.load(tmp_path / "c")
    assert (found.step, found.state) == (7, {"history": HISTORY, "seconds": 1.5})
    assert found.tensors.keys() == taken.keys()
    for name, tensor in taken.items():
        assert found.tensors[name].dtype == tensor.dtype and torch.equal(found.tensors[name], tensor), name
    other = ActorCritic("place", "candidates", Sizes(8, 8, 1))
    again = torch.optim.Adam(other.parameters())
    found.restore(other, again)
    assert {name: tensor.tolist() for name, tensor in Checkpoint.of(0, other, again).tensors.items()} == {
        name: tensor.tolist() for name, tensor in taken.items()
    }


def test_a_checkpoint_before_the_first_step(tmp_path: Path) -> None:
    network = ActorCritic("place", "candidates", Sizes(8, 8, 1))
    optimizer = torch.optim.Adam(network.parameters())
    Checkpoint.of(0, network, optimizer).save(tmp_path / "c")
    Checkpoint.load(tmp_path / "c").restore(network, optimizer)


@pytest.mark.parametrize(
    ("step", "state", "words"),
    [
        (-1, {}, "step or state"),
        (True, {}, "step or state"),
        (2**60, {}, "step or state"),
        (1.5, {}, "step or state"),
        (7, {"seconds": "long"}, "seconds"),
        (7, {"seconds": -1}, "seconds"),
        (7, {"seconds": 10**400}, "seconds"),
        (7, {"core_seconds": None}, "core_seconds"),
        (7, {"history": {}}, "history"),
        (7, {"history": [3]}, "history"),
        (7, {"history": [{"step": 3}]}, "history"),
        (7, {"history": [{"step": 8, "return": 0.0}]}, "history"),
        (7, {"history": [{"step": 1, "return": "good"}]}, "history"),
        (7, {"history": [{"step": 1, "return": 10**400}]}, "history"),
        (7, {"history": [{"step": 1, "return": True}]}, "history"),
    ],
)
def test_odd_states_are_refused(tmp_path: Path, step: Any, state: Any, words: str) -> None:
    Checkpoint(step, {"generator": torch.get_rng_state()}, state).save(tmp_path / "c")
    with pytest.raises(ArtefactError, match=words):
        Checkpoint.load(tmp_path / "c")


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    for name, number in (
        ("network.a", torch.nan),
        ("network.a", torch.inf),
        ("optimizer.0.exp_avg", torch.nan),
        ("labels.makespan", torch.nan),
    ):
        Checkpoint(1, {name: torch.tensor([1.0, number])}).save(tmp_path / "c")
        with pytest.raises(ArtefactError, match=f"'{name}' holds entries that are not"):
            Checkpoint.load(tmp_path / "c")
    Checkpoint(1, {"labels.makespan": torch.tensor([torch.inf])}).save(tmp_path / "c")
    assert Checkpoint.load(tmp_path / "c").tensors["labels.makespan"].tolist() == [torch.inf]


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t | {"optimizer.x.step": torch.tensor(1.0)},
        lambda t: t | {"optimizer.": torch.tensor(1.0)},
        lambda t: t | {"optimizer.999.step": torch.tensor(1.0)},
        lambda t: t | {"optimizer.-1.step": torch.tensor(1.0)},
        lambda t: t | {"optimizer.0.exp_avg": torch.zeros(99)},
        lambda t: t | {"optimizer.0.odd": torch.tensor(1.0)},
        lambda t: {name: tensor for name, tensor in t.items() if not name.startswith("optimizer.0.")},
        lambda t: t | {"generator": torch.zeros(3)},
        lambda t: t | {"generator": torch.zeros(3, dtype=torch.uint8)},
        lambda t: {name: tensor for name, tensor in t.items() if name != "generator"},
        lambda t: t | {"network.odd": torch.zeros(3)},
    ],
    ids=range(11),
)
def test_tensors_of_another_learner_are_refused(learner: Any, change: Any) -> None:
    with pytest.raises(ArtefactError, match="belongs to another network"):
        Checkpoint(0, change(dict(Checkpoint.of(0, *learner).tensors))).restore(*learner)


@pytest.mark.parametrize(
    "state",
    [
        None,
        [],
        ["MT19937", "x", 0, 0, 0.0],
        ["MT19937", [1], 0, 0, 0.0],
        ["odd", [0] * 624, 0, 0, 0.0],
        [3, [2**70], 0, 0, 0.0],
    ],
)
def test_states_of_no_generator_are_refused(state: Any) -> None:
    restore_numpy(numpy_state())
    with pytest.raises(ArtefactError, match="no state of NumPy"):
        restore_numpy(state)


def test_a_card_that_describes_a_network_of_any_size_allocates_none(tmp_path: Path) -> None:
    """4096 layers of 4096 take 275 GB; the weights of the file show that it is none of them."""
    path = tmp_path / "p.safetensors"
    network = ActorCritic("place", "graph", Sizes(8, 8, 1))
    NetworkPolicy(network).save(path)
    kind = artefact.policy_file("hetgym-policy")
    _, weights = artefact.load(path, kind)
    for sizes in (
        {"hidden": 4096, "embedding": 4096, "layers": 4096},
        {"hidden": 4096, "embedding": 4096, "layers": 2},
    ):
        described = {"view": "place", "level": "graph", "sizes": sizes}
        artefact.save(path, kind, "hetgym-policy", {"network": described}, weights)
        with pytest.raises(ArtefactError, match="do not fit their card"):
            load_policy(path)


@pytest.mark.parametrize(
    "card",
    [
        {},
        {"network": None},
        {"network": []},
        {"network": {"sizes": 3}},
        {"network": {"view": [], "level": {}, "sizes": {}}},
    ],
)
def test_cards_of_no_network_are_refused(tmp_path: Path, card: dict[str, Any]) -> None:
    kind = artefact.policy_file("hetgym-policy")
    artefact.save(tmp_path / "p", kind, "hetgym-policy", card, {})
    with pytest.raises(ArtefactError, match="do not fit their card"):
        load_policy(tmp_path / "p")


def test_reading_a_policy_draws_as_much_as_it_did(tmp_path: Path) -> None:
    """Building the network draws no random numbers, so training that starts from a policy stays reproducible."""
    NetworkPolicy(ActorCritic("place", "graph", Sizes(8, 8, 1))).save(tmp_path / "p")
    torch.manual_seed(3)
    ActorCritic("place", "graph", Sizes(8, 8, 1))
    expected = torch.rand(3)
    torch.manual_seed(3)
    load_policy(tmp_path / "p")
    assert torch.equal(torch.rand(3), expected)
