"""The place policy as a scheduler, and its files."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from place_tools import drawn, weights

from hetgym import validate
from hetgym._input.times import as_seconds
from hetgym.agents.place.planner import FILES, PlacePlanner
from hetgym.baselines import get, heft
from hetgym.errors import ArtefactError, ConfigError
from hetgym.workloads import textbook


@pytest.fixture(scope="module")
def planner() -> PlacePlanner:
    return PlacePlanner(weights())


@pytest.mark.parametrize("seed", range(3))
def test_more_is_never_worse(planner, seed):
    problem = drawn(seed, 40, 4)
    makespans = [planner.plan(problem, passes=passes).makespan for passes in (1, 2, 4)]
    makespans += [planner.plan(problem, operators=operators).makespan for operators in (1, 50_000)]
    assert makespans == sorted(makespans, reverse=True)
    assert makespans[-1] < makespans[0]
    validate(problem, planner.plan(problem, operators=1000))
    validate(problem, planner(problem))


def test_same_call_same_schedule(planner):
    problem = drawn(5, 40, 4)
    for call in (planner, lambda p: planner.plan(p, operators=20_000, seed=3)):
        first, second = call(problem), call(problem)
        np.testing.assert_array_equal(first.start, second.start)


def test_large_problems_get_the_better_of_heft_and_peft(planner, monkeypatch):
    """Greedy episodes of some 10^5 operators would take minutes."""
    problem = drawn(5, 400, 4)
    monkeypatch.setattr("hetgym.agents.place.planner.LONGEST", 1e-3)
    quick = min(get(name)(problem).makespan for name in ("heft", "peft"))
    assert planner.plan(problem).makespan == quick
    assert planner.plan(problem, operators=20_000).makespan <= quick


def test_a_time_budget_ends(planner):
    schedule = planner.plan(textbook("topcuoglu"), "20ms")
    assert schedule.makespan == 73.0
    assert planner.plan(textbook("topcuoglu"), 1e-6).makespan <= planner.plan(textbook("topcuoglu"), passes=1).makespan


def test_a_time_budget_holds_where_a_pass_takes_longer(planner):
    problem = drawn(0, 1000, 4)
    planner.plan(problem, "50ms")  # compiled
    began = time.process_time()  # a budget of wall-clock time leaves no more of the processor, however busy it is
    schedule = planner.plan(problem, "50ms")
    assert time.process_time() - began < 0.25  # a greedy pass takes half a second, the Pilot method as long
    assert schedule.makespan <= heft(problem).makespan


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("d", [1, 3])
def test_tiny_problems(planner, n, d):
    problem = drawn(0, n, d)
    validate(problem, planner(problem))
    validate(problem, planner.plan(problem, operators=100))


@pytest.mark.parametrize("wrong", ["50", "ms", "-1s", True, "1 fortnight", [1]])
def test_refuses_budgets(planner, wrong):
    with pytest.raises(ConfigError):
        planner.plan(textbook("topcuoglu"), wrong)


@pytest.mark.parametrize(
    "wrong", [{"budget": 0.0}, {"budget": -1}, {"operators": -1}, {"passes": 0}, {"budget": float("nan")}]
)
def test_refuses_limits(planner, wrong):
    with pytest.raises(ConfigError):
        planner.plan(textbook("topcuoglu"), **wrong)


def test_seconds():
    assert [as_seconds(x) for x in (None, "2.5ms", 3, 0.5)] == [None, 0.0025, 3.0, 0.5]


def test_files_give_the_same_plans(planner, tmp_path):
    FILES.save(tmp_path / "p", weights(), {"search": {"size": 5}, "note": "x"})
    found = FILES.load(tmp_path / "p")
    assert found.how.size == 5 and found.card["note"] == "x"
    assert found(drawn(0)).makespan == planner(drawn(0)).makespan
    first = (tmp_path / "p.safetensors").read_bytes()
    FILES.save(tmp_path / "p", dict(reversed(weights().items())), {"search": {"size": 5}, "note": "x"})
    assert (tmp_path / "p.safetensors").read_bytes() == first


def _without(name):
    return lambda state, card: state.pop(name)


def _nan(state, card):
    state["head.rule"][0] = np.nan


DAMAGES = {
    "encoder": _without("encoder.embed.0.weight"),
    "head": _without("head.rule"),
    "finite": _nan,
    "features": lambda state, card: state.update(
        {"head.rule": np.zeros(5, np.float32), "head.own.weight": np.zeros((12, 5), np.float32)}
    ),
    "size": lambda state, card: card.update(search={"siez": 3}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_refuses_wrong_weights(tmp_path, damage):
    from safetensors.numpy import save_file

    FILES.save(tmp_path / "p", weights(), {})
    state, card = weights(), json.loads((tmp_path / "p.json").read_text())
    DAMAGES[damage](state, card)
    save_file(state, tmp_path / "p.safetensors")
    (tmp_path / "p.json").write_text(json.dumps(card))
    with pytest.raises(ArtefactError, match=damage):
        FILES.load(tmp_path / "p")


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"\xff" * 8, b"{}"])
@pytest.mark.parametrize("which", ["safetensors", "json"])
def test_refuses_damaged_files(tmp_path, which, content):
    FILES.save(tmp_path / "p", weights(), {})
    (tmp_path / f"p.{which}").write_bytes(content)
    with pytest.raises(ArtefactError):
        FILES.load(tmp_path / "p")


def test_refuses_missing_and_foreign_files(tmp_path):
    with pytest.raises(ArtefactError, match="no such file"):
        FILES.load(tmp_path / "nothing")
    FILES.save(tmp_path / "p", weights(), {})
    card = json.loads((tmp_path / "p.json").read_text())
    (tmp_path / "p.json").write_text(json.dumps(card | {"version": 99}))
    with pytest.raises(ArtefactError, match="version"):
        FILES.load(tmp_path / "p")
