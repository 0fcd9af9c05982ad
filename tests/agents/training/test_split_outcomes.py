"""Split outcomes: training is reproducible, resumes exactly, learns, and runs from a recipe."""

from __future__ import annotations

import numpy as np
import pytest
from proposal_tools import same

torch = pytest.importorskip("torch")

from hetgym.agents.checkpoint import Checkpoint  # noqa: E402
from hetgym.agents.networks.proposal import RARE, ProposalNetwork  # noqa: E402
from hetgym.agents.recipe import load_recipe  # noqa: E402
from hetgym.agents.run import TrainingRun  # noqa: E402
from hetgym.agents.sizes import Sizes  # noqa: E402
from hetgym.agents.splits.moves import FEATURES  # noqa: E402
from hetgym.agents.splits.planner import FILES  # noqa: E402
from hetgym.agents.training.settings import SplitOutcomeSettings  # noqa: E402
from hetgym.agents.training.split_outcomes import SplitOutcomes  # noqa: E402
from hetgym.envs.split.rules import SplitRules  # noqa: E402
from hetgym.errors import ConfigError, UnknownName  # noqa: E402

RULES = SplitRules(fused=True, parts=("equal", "sixteenths"), divisible=False, key_operators=12)


def training(updates=12, seed=0, **changes):
    settings = {"zoo": 0.0, "problems": 2, "plans": (2.0, 4.0), "draws": 4, "batch": 32, "warm_up": 2, **changes}
    return SplitOutcomes(SplitOutcomeSettings(**settings), updates, Sizes(hidden=8), seed, RULES)


@pytest.mark.slow
def test_same_seed_same_weights_and_goes_on_exactly(tmp_path):
    whole, begun, later, other = training(), training(), training(), training(seed=1)
    for _ in range(3):
        whole.advance()
    for _ in range(2):
        begun.advance()
    other.advance()
    begun.snapshot().save(tmp_path / "c")
    later.restore(Checkpoint.load(tmp_path / "c"))
    later.advance()
    assert same(whole, later) and not same(whole, other)


@pytest.mark.slow
def test_learns_which_moves_pay():
    zoo = {"zoo": 1.0, "networks": ("squeezenet",), "batches": (2,), "platforms": ("even-pair",)}
    found = training(8, warm_up=8, epochs=4, plans=(4.0, 4.0), draws=16, **zoo)
    logs = [found.advance() for _ in range(8)]
    assert np.mean([log["loss"] for log in logs[2:]]) < logs[0]["loss"]
    rows = [found.search(np.random.default_rng(seed))[0] for seed in range(8)]
    inputs, worth = (np.concatenate([row[k] for row in rows]) for k in range(2))
    odds = found.network(torch.from_numpy(inputs)).detach().numpy()
    better = odds[worth > 0][:, None] > odds[worth == 0][None]
    assert better.size > 1000 and better.mean() > 0.8  # chance is a half


def test_inputs_are_standardised_and_weights_are_folded_into_files():
    found = training(3)
    found.advance()
    inputs, _ = found.search(np.random.default_rng(0))[0]
    units = (torch.from_numpy(inputs) - found.network.mean) / found.network.spread
    assert units.mean(0).abs().max() < 3.0 and 0.3 < units.std(0).median() < 2.0
    assert (found.network.spread[inputs.std(0) == 0.0] > 0.0).all()
    enter, bias, leave = found.network.compiled()
    assert np.allclose(
        np.maximum(0.0, inputs @ enter + bias) @ leave,
        found.network(torch.from_numpy(inputs)).detach().numpy(),
        atol=1e-4,
    )


@pytest.mark.parametrize(
    "wrong",
    [{"plans": (5.0, 2.0)}, {"zoo": 1.5}, {"batches": ()}, {"learning_rate": 0.0}, {"epochs": 0}, {"draws": 0}],
)
def test_refuses_settings(wrong):
    with pytest.raises(ConfigError):
        SplitOutcomeSettings(**wrong)


def test_a_recipe_runs(tmp_path):
    recipe = load_recipe(
        "split-v2",
        steps=2,
        checkpoint_every=1,
        arguments={"fused": True, "parts": ["equal"], "key_operators": 6},
        network={"hidden": 4},
        settings={"zoo": 0.5, "networks": ["squeezenet"], "problems": 1, "plans": [1, 2], "warm_up": 1},
        evaluation={"every": 2, "episodes": 2, "arguments": {}, "baselines": ["reference"]},
    )
    network = TrainingRun(recipe, tmp_path / "a").train()
    planner = FILES.load(tmp_path / "a" / "policy")
    assert all(np.array_equal(*pair) for pair in zip(planner.network, network.compiled(), strict=True))
    assert planner.arguments == {"fused": True, "parts": ["equal"], "key_operators": 6}
    assert planner.card["evaluation"]["ratio_reference"] <= 1.0


@pytest.mark.parametrize("standardised", [False, True])
def test_a_network_that_begins_as_a_rule_ranks_by_it(standardised) -> None:
    torch.manual_seed(0)
    network, inputs = ProposalNetwork(8, len(FEATURES)), 3.0 * torch.randn(50, len(FEATURES)) + 1.0
    if standardised:
        network.standardise(inputs)
    network.begin_as({"net": -5.0, "slack": 0.5}, FEATURES)
    rule = 5.0 * inputs[:, FEATURES.index("net")] - 0.5 * inputs[:, FEATURES.index("slack")]
    assert torch.allclose(network(inputs), rule + RARE, atol=1e-4)
    with pytest.raises(UnknownName, match="input of the network"):
        network.begin_as({"nett": 1.0}, FEATURES)
    with pytest.raises(ConfigError, match="3 hidden units or more"):
        ProposalNetwork(1, len(FEATURES)).begin_as({}, FEATURES)


def test_a_training_that_begins_as_a_rule_stays_one_when_inputs_are_standardised():
    found = SplitOutcomes(
        SplitOutcomeSettings(zoo=0.0, problems=1, plans=(1.0, 1.0), epochs=1, learning_rate=1e-12),
        2, Sizes(hidden=4), 0, RULES, {"net": -5.0},
    )  # fmt: skip
    inputs = torch.randn(20, len(FEATURES))
    before = found.network(inputs).detach().clone()
    found.advance()
    assert float(found.network.mean.abs().max()) > 0.0
    assert torch.allclose(found.network(inputs), before, atol=1e-4)
