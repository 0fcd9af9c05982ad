"""Anytime curves of all searches that run in parts."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym import ConfigError, Problem, UnknownName, validate
from hetgym.planning import aliases, get, names
from hetgym.search import anytime
from hetgym.workloads import RandomMix, textbook

SEARCHES = [name for name in (*names(), *aliases()) if get(name).search is not None]


def mixed(count: int, **options: tuple[int, int]) -> list[Problem]:
    rng = np.random.default_rng(1)
    draw = RandomMix(**options)  # type: ignore[arg-type]
    return [draw(rng) for _ in range(count)]


def test_the_table_knows_the_searches() -> None:
    pilots = {"pilot", "pilot-append", "pilot-append-eft", "pilot-eft"}
    assert set(SEARCHES) == pilots | {"rand-heft", "annealing", "pilot-annealing", "lns", "region-annealing", "tabu"}
    with pytest.raises(UnknownName, match="unknown search that runs in parts 'heft'; did you mean 'rand-heft'"):
        anytime("heft", mixed(1)[0])


@pytest.mark.parametrize("name", SEARCHES)
def test_parts_change_no_result_and_the_curve_falls(name: str) -> None:
    for problem in mixed(3):
        whole = get(name, budget=30_000)(problem)
        validate(problem, whole)
        curve = anytime(name, problem, points=7, budget=30_000)
        assert curve[-1, 2] == whole.makespan
        assert (np.diff(curve[:, 0]) > 0).all()
        assert (np.diff(curve[:, 1]) >= 0).all()
        assert (np.diff(curve[:, 2]) <= 0).all()
        assert curve[-1, 0] <= 30_000 + problem.num_operators * problem.num_devices + 1


@pytest.mark.parametrize("name", SEARCHES)
def test_a_wall_clock_ends_a_search(name: str) -> None:
    problem = mixed(1, operators=(400, 400))[0]
    curve = anytime(name, problem, budget=10**9, seconds=0.05)
    assert curve[-1, 1] < 20.0  # the budget alone would last for hours
    assert curve[-1, 2] <= curve[0, 2]


def test_what_is_refused() -> None:
    problem = textbook("topcuoglu")
    with pytest.raises(UnknownName, match="unknown search that runs in parts 'heft'"):
        anytime("heft", problem)
    with pytest.raises(ConfigError, match="points is 0"):
        anytime("pilot", problem, points=0)
