"""Move outcomes: it learns, it is reproducible, and it resumes exactly."""

from __future__ import annotations

import numpy as np
import pytest
from proposal_tools import same

torch = pytest.importorskip("torch")

from hetgym.agents.checkpoint import Checkpoint  # noqa: E402
from hetgym.agents.sizes import Sizes  # noqa: E402
from hetgym.agents.training.curriculum import Part  # noqa: E402
from hetgym.agents.training.outcomes import MoveOutcomes  # noqa: E402
from hetgym.agents.training.settings import OutcomeSettings  # noqa: E402
from hetgym.errors import ArtefactError  # noqa: E402

SMALL = {"operators": [15, 30]}
CURRICULUM = (Part("random", 3, SMALL), Part("random", 2, {**SMALL, "devices": 2}))


def training(updates=12, seed=0, **changes):
    settings = {
        "curriculum": CURRICULUM,
        "problems": 3,
        "tries": (20.0, 60.0),
        "rows": 400,
        "batch": 64,
        "warm_up": 2,
        **changes,
    }
    return MoveOutcomes(OutcomeSettings(**settings), updates, Sizes(hidden=8), seed)


def advanced(found, updates):
    return [found.advance() for _ in range(updates)]


def test_same_seed_same_weights():
    first, second, third = training(), training(), training(seed=1)
    logs = advanced(first, 4), advanced(second, 4), advanced(third, 4)
    assert same(first, second) and logs[0] == logs[1]
    assert not same(first, third)


def test_goes_on_exactly(tmp_path):
    whole, begun, later = training(), training(), training()
    advanced(whole, 5)
    advanced(begun, 3)
    begun.snapshot().save(tmp_path / "c")
    later.restore(Checkpoint.load(tmp_path / "c"))
    assert later.update == 3
    advanced(later, 2)
    assert same(whole, later)


def test_refuses_the_checkpoint_of_another_network():
    other = MoveOutcomes(training().settings, 12, Sizes(hidden=9))
    with pytest.raises(ArtefactError, match="network"):
        other.restore(training().snapshot())


@pytest.mark.slow
def test_learns_which_moves_pay():
    found = training(60, seed=1, warm_up=20)
    logs = advanced(found, 60)
    assert np.mean([log["loss"] for log in logs[10:20]]) < 0.5 * logs[0]["loss"]
    searches = {}
    for update in (0, 60):  # without the network, and with it, on the same problems
        found.update = update
        rows, saved = zip(*(found.search(np.random.default_rng(k)) for k in range(60)), strict=True)
        searches[update] = np.concatenate([outcome for _, outcome in rows]).mean(), np.mean(saved)
    (odds, saved), (odds_learned, saved_learned) = searches[0], searches[60]
    assert odds_learned > 1.1 * odds and saved_learned > 1.05 * saved


@pytest.mark.parametrize(
    "wrong",
    [{"rows": 0}, {"curriculum": ()}, {"tries": (5.0, 2.0)}, {"runtimes": ("slow",)}, {"learning_rate": 0.0}],
)
def test_refuses_settings(wrong):
    with pytest.raises(ValueError):
        OutcomeSettings(**wrong)
