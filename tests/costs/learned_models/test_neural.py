"""Neural: training leaves no state behind in the process, and NumPy gives the predictions of the torch model."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from hetgym.costs.learned_models import neural
from hetgym.costs.learned_models.neural import Neural

torch = pytest.importorskip("torch")


def rows(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).uniform(0, 10, (n, 4))
    return x, np.sin(x[:, 0] / 3) + 0.3 * np.tanh(x[:, 1] - x[:, 2]), np.arange(n, dtype=np.int32)


def test_training_leaves_torch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neural, "STEPS", 5)
    torch.manual_seed(1)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    with torch.no_grad():  # as host settings leave it
        fit = Neural.fit(*rows(40), seed=0)
    assert torch.equal(torch.get_rng_state(), state) and torch.get_num_threads() == threads
    assert all(isinstance(array, np.ndarray) for array in fit.arrays().values())


def test_predictions_are_what_torch_would_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neural, "STEPS", 60)
    x, y, groups = rows(80)
    fit = Neural.fit(x, y, groups, seed=0)
    value = torch.tensor((x - fit.seen.centre) / fit.scale)[None]
    for number, (weight, bias) in enumerate(fit.layers):
        value = torch.baddbmm(
            torch.tensor(bias).double(), value.expand(len(weight), -1, -1), torch.tensor(weight).double()
        )
        value = torch.nn.functional.silu(value) if number < len(fit.layers) - 1 else value
    expected = np.clip(fit.seen.median + value.mean(dim=0)[:, 0].numpy(), fit.seen.low, fit.seen.high)
    np.testing.assert_allclose(fit.predict(x)[0], expected, atol=1e-8)


def test_each_member_keeps_the_weights_that_were_best_on_its_own_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With labels that are noise, the best moment is an early one: a fit must not end up knowing them by heart."""
    x, _, groups = rows(60)
    noise = np.random.default_rng(1).standard_normal(60)
    monkeypatch.setattr(neural, "STEPS", 400)
    predicted, _ = Neural.fit(x, noise, groups, seed=0).predict(x)
    assert np.std(predicted - noise) > 0.5 * np.std(noise)


def test_seeds_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neural, "STEPS", 5)
    a, b = (Neural.fit(*rows(40), seed=seed).arrays()["weight0"] for seed in (0, 1))
    assert not np.array_equal(a, b)


def test_predicting_needs_no_torch() -> None:
    script = "import sys; from hetgym.costs.learned_models import neural, polynomial; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
