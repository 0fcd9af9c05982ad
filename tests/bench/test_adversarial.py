"""Problems on which one scheduler loses to another."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hetgym import Problem, Schedule, simulate
from hetgym.baselines import get, heft, single_device
from hetgym.bench import adversary
from hetgym.errors import ConfigError, HetgymError
from hetgym.planning import register, unregister
from hetgym.search.search import ended_by_interrupt
from hetgym.workloads import textbook


def measured(name: str, problem: Problem, runtime: str) -> float:
    return simulate(problem, get(name)(problem, runtime), runtime).makespan


@pytest.mark.parametrize(
    ("first", "second", "least"), [("heft", "single-device", 2.0), ("heft", "cpop", 1.5), ("cpop", "heft", 2.0)]
)
def test_a_scheduler_can_be_made_to_lose(first: str, second: str, least: float) -> None:
    found = adversary(first, second, budget=500)
    assert found.ratio >= least and found.evaluations == 500
    assert found.makespans == tuple(measured(name, found.problem, "classic") for name in (first, second))


def test_equal_seeds_give_equal_problems() -> None:
    one, same, other = (adversary("heft", "peft", budget=200, seed=seed) for seed in (3, 3, 4))
    assert one.problem.digest == same.problem.digest and one.trail == same.trail
    assert one.problem.digest != other.problem.digest


def test_a_saved_problem_gives_the_same_makespans_under_its_runtime(tmp_path: Path) -> None:
    found = adversary("heft", "min-min", "links", budget=200)
    found.problem.save(tmp_path / "found.npz")
    problem = Problem.load(tmp_path / "found.npz")
    assert found.makespans == tuple(measured(name, problem, "links") for name in ("heft", "min-min"))
    assert found.runtime == "links" and found.ratio == found.makespans[0] / found.makespans[1]


def test_the_trail_begins_at_the_start_and_rises() -> None:
    start = textbook("topcuoglu")
    found = adversary("heft", "cpop", start=start, within=2.0, budget=200, walks=2)
    assert found.trail[0] == (1, 80.0 / 86.0, "")
    ratios = [improvement.ratio for improvement in found.trail]
    assert ratios == sorted(set(ratios)) and ratios[-1] == found.ratio > 1.05
    assert (found.problem.num_operators, found.problem.num_devices) == (10, 3)
    assert json.loads(json.dumps(found.to_dict()))["ratio"] == found.ratio


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("first", ["heft", "annealing"])  # which is itself a search that an interrupt ends
def test_an_interrupt_ends_the_search_and_keeps_its_problem(first: str, how: signal.Signals) -> None:
    row = get(first, **{"budget": 200} if first == "annealing" else {})
    told: list[float] = []

    def tell(spent: float, ratio: float) -> None:
        told.append(ratio)
        if len(told) == 20:
            signal.raise_signal(how)

    before = signal.signal(how, signal.default_int_handler)
    try:
        with ended_by_interrupt() as interrupts:
            found = adversary(row, "single-device", budget=500, tell=tell)
    finally:
        signal.signal(how, before)
    assert interrupts.came and found.evaluations == len(told) == 20 and found.ratio == told[-1]
    assert found.makespans[0] / found.makespans[1] == found.ratio


def test_a_scheduler_does_not_lose_to_itself() -> None:
    found = adversary("heft", "heft", budget=20)
    assert found.ratio == 1.0 and len(found.trail) == 1


def test_time_ends_a_search() -> None:
    shares: list[float] = []
    found = adversary("heft", "peft", budget=10**9, seconds=0.05, tell=lambda share, _: shares.append(share))
    assert len(shares) == found.evaluations and shares == sorted(shares) and shares[-1] == 1.0


@pytest.fixture
def moody() -> Iterator[list[int]]:
    """A scheduler that fails whenever its number of calls is in a list."""
    bad: list[int] = []
    calls = 0

    @register("moody", kind="list", citation="-", complexity="-")
    def moody(problem: Problem) -> Schedule:
        nonlocal calls
        calls += 1
        if calls in bad:
            raise ValueError("not today")
        return single_device(problem)

    yield bad
    unregister("moody")


def test_a_scheduler_may_fail_but_not_on_the_start(moody: list[int]) -> None:
    moody += range(2, 500, 2)
    assert adversary("heft", "moody", budget=100).ratio >= 1
    with pytest.raises(ConfigError, match=r"fails on the start problem \(ValueError: not today\)"):
        moody += range(500)
        adversary("moody", "heft", budget=5)


def test_a_start_that_takes_no_time_is_refused() -> None:
    with pytest.raises(ConfigError, match="ratio is not defined"):
        adversary("heft", "peft", start=Problem.from_arrays([[0.0, 0.0]], []), budget=5)


@pytest.mark.parametrize(
    "options",
    [{"budget": 0}, {"walks": 0}, {"seed": -1}, {"seconds": 0.0}, {"within": 0.1}, {"operators": 0}, {"devices": 0}],
)
def test_impossible_options(options: dict[str, Any]) -> None:
    with pytest.raises(HetgymError):
        adversary("heft", "peft", **options)


def test_rows_with_options_are_compared() -> None:
    found = adversary(get("heft", insertion=False), "heft", operators=10, budget=500)
    assert found.ratio > 1 and simulate(found.problem, heft(found.problem)).makespan == found.makespans[1]
