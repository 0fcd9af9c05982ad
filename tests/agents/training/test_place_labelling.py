"""Self-labelling: it learns, it is reproducible, and it resumes exactly."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from hetgym.agents.checkpoint import Checkpoint  # noqa: E402
from hetgym.agents.sizes import Sizes  # noqa: E402
from hetgym.agents.training.curriculum import Part, draw  # noqa: E402
from hetgym.agents.training.place_labelling import PlaceLabelling  # noqa: E402
from hetgym.agents.training.playing import Threads  # noqa: E402
from hetgym.agents.training.settings import PlaceLabellingSettings  # noqa: E402
from hetgym.agents.training.trainer import arrays  # noqa: E402
from hetgym.errors import ArtefactError, ConfigError  # noqa: E402

SMALL = {"operators": [8, 16]}
CURRICULUM = (Part("random", 3, SMALL), Part("random", 2, {**SMALL, "devices": 2}))
SIZES = Sizes(hidden=8, embedding=4, layers=1)


def training(updates=12, seed=0, **changes):
    settings = {"curriculum": CURRICULUM, "problems": 3, "samples": 4, **changes}
    return PlaceLabelling(PlaceLabellingSettings(**settings), updates, SIZES, seed)


def advanced(found, updates, workers=1):
    with ThreadPoolExecutor(workers) as pool:
        return [found.advance(Threads(pool)) for _ in range(updates)]


def same(a, b):
    return all(np.array_equal(w, arrays(b.network)[name]) for name, w in arrays(a.network).items())


def test_same_seed_same_weights_whatever_the_threads():
    first, second, third = training(), training(), training(seed=1)
    logs = advanced(first, 4), advanced(second, 4, workers=3), advanced(third, 4)
    assert same(first, second) and logs[0] == logs[1]
    assert not same(first, third)


def test_goes_on_exactly(tmp_path):
    whole, begun, later = training(), training(), training()
    advanced(whole, 6)
    advanced(begun, 3)
    begun.snapshot().save(tmp_path / "c")
    later.restore(Checkpoint.load(tmp_path / "c"))
    assert later.update == 3
    advanced(later, 3)
    assert same(whole, later)
    assert [x.makespan for x in whole.lessons] == [x.makespan for x in later.lessons]


def test_refuses_the_checkpoint_of_another_curriculum():
    other = training(curriculum=CURRICULUM[:1])
    with pytest.raises(ArtefactError, match="curriculum"):
        other.restore(training().snapshot())


def test_imitates_the_best_that_it_found():
    found = training(60, samples=12, learning_rate=1e-2, curriculum=(Part("random", 2, SMALL),), problems=2)
    logs = advanced(found, 60)
    assert logs[0]["improved"] == 1.0
    assert np.mean([log["loss"] for log in logs[-5:]]) < 0.7 * np.mean([log["loss"] for log in logs[:5]])
    assert logs[-1]["sampled"] < logs[0]["sampled"]


def test_a_search_gives_better_first_labels():
    plain, searched = training(), training(search=20_000)
    advanced(plain, 4)
    advanced(searched, 4)
    pairs = [(a.makespan, b.makespan) for a, b in zip(plain.lessons, searched.lessons, strict=True)]
    assert all(b <= a * (1 + 1e-9) for a, b in pairs if np.isfinite([a, b]).all())


def test_problems_are_drawn_one_by_one():
    longer = draw((Part("random", 5, SMALL),), 0)
    for problem in draw((Part("random", 3, SMALL),), 0):
        assert next(longer).digest == problem.digest


@pytest.mark.parametrize(
    "wrong", [{"samples": 0}, {"curriculum": ()}, {"temperatures": (0.0,)}, {"clip": float("inf")}, {"search": -1}]
)
def test_refuses_settings(wrong):
    with pytest.raises(ConfigError):
        PlaceLabellingSettings(**wrong)


@pytest.mark.parametrize(("kind", "arguments"), [("ideal", {}), ("random", {"sizes": 3}), ("real", {"networks": []})])
def test_refuses_parts(kind, arguments):
    with pytest.raises(ValueError):
        Part(kind, 3, arguments)
