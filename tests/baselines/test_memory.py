"""Schedulers that keep within memory."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st

from hetgym import ConfigError, OutOfMemory, Problem, ProblemError, Schedule, plan
from hetgym.baselines import get, m_etf, m_sct, m_topo, names
from hetgym.baselines.m_sct import favourites, relaxation

NAMES = ("m-topo", "m-etf", "m-sct")


def chain(weights, capacity, cost=None, size=0.0):
    n = len(weights)
    return Problem.from_arrays(
        np.ones((n, len(capacity))) if cost is None else cost,
        [(i, i + 1, size) for i in range(n - 1)],
        weight_bytes=weights,
        output_bytes=0.0,
        memory_capacity=capacity,
        name="chain",
    )


def assert_fits(problem: Problem, schedule: Schedule) -> None:
    need = problem.weight_bytes + problem.output_bytes
    used = np.bincount(schedule.assignment, need, minlength=problem.num_devices)
    assert (used <= problem.memory_capacity * (1 + 1e-12)).all()


def test_the_table_lists_them() -> None:
    assert set(NAMES) <= set(names("memory"))


def test_m_topo_fills_shares() -> None:
    assert m_topo(chain([4, 4, 4, 4], [99, 99])).assignment.tolist() == [0, 0, 0, 1]  # a share is 8 + 4
    assert m_topo(chain([4, 4, 4, 4], [9, 99])).assignment.tolist() == [0, 0, 1, 1]  # the capacity is less
    assert m_topo(chain([2, 9, 2, 2], [10, 12])).assignment.tolist() == [0, 1, 1, 0]  # full shares: where there is room
    one = [[1.0, 1.0], [np.inf, 1.0], [1.0, 1.0]]
    assert m_topo(chain([1, 1, 1], [9, 9], one)).assignment.tolist() == [0, 1, 0]


def test_m_etf_takes_the_first_device_that_has_room() -> None:
    assert m_etf(chain([3, 3, 3], [np.inf] * 2, size=5.0)).assignment.tolist() == [0, 0, 0]
    assert m_etf(chain([3, 3, 3], [5, 9], size=5.0)).assignment.tolist() == [0, 1, 1]
    wide = Problem.from_arrays([[1.0, 9.0], [2.0, 9.0], [3.0, 9.0]], [])
    assert m_etf(wide).assignment.tolist() == [0, 1, 0]  # all could start at 0: longest rank first


def test_the_linear_program_frees_one_edge_of_a_fork_and_one_of_a_join() -> None:
    cost = np.ones((4, 2))
    fork = Problem.from_arrays(cost[:3], [(0, 1, 9.0), (0, 2, 1.0)])
    assert relaxation(fork)[2].tolist() == [0.1, 0.9]  # the two paths then take equally long
    assert favourites(fork).tolist() == [1, -1, -1]
    join = Problem.from_arrays(cost[:3], [(0, 2, 1.0), (1, 2, 9.0)])
    assert favourites(join).tolist() == [-1, 2, -1]
    assert favourites(join, threshold=0.0).tolist() == [-1, -1, -1]
    diamond = Problem.from_arrays(cost, [(0, 1, 9.0), (0, 2, 1.0), (1, 3, 9.0), (2, 3, 1.0)])
    assert favourites(diamond).tolist() == [1, 3, -1, -1]
    tiny = Problem.from_arrays(cost[:3] * 1e-9, [(0, 1, 9e-9), (0, 2, 1e-9)])
    assert favourites(tiny).tolist() == [1, -1, -1]


def test_m_sct_keeps_a_device_for_the_favourite() -> None:
    """m-etf gives 1 the place beside 0, for it ranks higher, and 2 pays for 100 bytes; m-sct keeps it for 2."""
    problem = Problem.from_arrays([[1.0, 1.0], [9.0, 9.0], [1.0, 1.0]], [(0, 1, 1.0), (0, 2, 100.0)])
    assert favourites(problem).tolist() == [2, -1, -1]
    assert m_etf(problem).assignment.tolist() == [0, 0, 0] and m_etf(problem).start.tolist() == [0.0, 1.0, 10.0]
    assert m_sct(problem).assignment.tolist()[2] == 0 and m_sct(problem).start.tolist()[2] == 1.0


@pytest.mark.parametrize("name", NAMES)
@given(problem=strategies.problems(), slack=st.sampled_from([0.3, 1.0, 3.0]), seed=st.integers(0, 2**32 - 1))
def test_within_memory_or_one_sentence(name: str, problem: Problem, slack: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = problem.cost.shape
    weights, outputs = rng.uniform(0, 5, n), rng.uniform(0, 5, n)
    edges = list(zip(problem.edge_source, problem.edge_target, problem.edge_bytes, strict=True))
    limited = Problem.from_arrays(
        problem.cost,
        edges,
        problem.latency,
        problem.bandwidth,
        tensors=problem.edge_tensor.tolist(),
        weight_bytes=weights,
        output_bytes=outputs,
        name="limited",
        memory_capacity=rng.dirichlet(np.ones(d)) * slack * (weights + outputs).sum() + 10.0,
    )
    try:
        schedule = get(name)(limited)
    except ProblemError as error:
        assert "problem 'limited': operator" in str(error) and "has most left" in str(error)  # noqa: PT017
    else:
        assert_fits(limited, schedule)


@pytest.mark.parametrize("name", NAMES)
def test_no_room(name: str) -> None:
    problem = chain([3.0, 3.0, 3.0], [5.0, 4.0])
    sentence = (
        r"problem 'chain': operator 2 \('op2'\) needs 3 bytes, but of the devices that can run it "
        "'dev0' has most left, 2 of 5 bytes"
    )
    with pytest.raises(ProblemError, match=sentence):
        get(name)(problem)
    blocked = chain([3.0, 3.0], [9.0, 2.0], [[1.0, 1.0], [np.inf, 1.0]])
    with pytest.raises(ProblemError, match="'dev1' has most left, 2 of 2 bytes"):
        get(name)(blocked)


def test_options() -> None:
    with pytest.raises(ConfigError, match="threshold is 2; it must lie between 0 and 1"):
        get("m-sct", threshold=2)(chain([1.0], [9.0]))


@pytest.mark.parametrize(("name", "parts"), [("peft-again", ["peft"]), ("duplex", ["min-min", "max-min"])])
def test_an_attempt_that_fits_is_kept_where_others_do_not(name: str, parts: list[str]) -> None:
    kept = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, d = 14, 3
        edges = [(i, j, float(rng.uniform(0, 5))) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.2]
        weights = rng.uniform(1, 10, n)
        problem = Problem.from_arrays(
            rng.uniform(1, 10, (n, d)),
            edges,
            weight_bytes=weights,
            output_bytes=rng.uniform(0, 2, n),
            memory_capacity=weights.sum() * rng.uniform(0.25, 0.6, d),
        )
        best = fitting(problem, *parts)
        if best < np.inf:
            kept += 1
            assert fitting(problem, name) <= best
    assert kept > 5


def fitting(problem: Problem, *schedulers: str) -> float:
    """Makespan of the best of the plans that fit; inf if there is none."""
    makespans = [np.inf]
    for name in schedulers:
        with suppress(OutOfMemory):
            makespans.append(get(name)(problem, "memory=enforce").makespan)
    return min(makespans)


def test_a_shop_of_which_one_start_fits_is_planned() -> None:
    problem = Problem.from_arrays([[8.0, 6], [5, 3], [3, 1]], []).replace(
        weight_bytes=[1.0, 1, 2], memory_capacity=[2.4, 2.4]
    )
    assert fitting(problem, "heft") == np.inf and fitting(problem, "single-device") == 9.0
    assert plan(problem, budget="5ms").makespan <= 9.0
