"""Problems near another one stay near it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import hetgym
from hetgym.errors import ProblemError
from hetgym.problem import Problem
from hetgym.workloads import textbook
from hetgym.workloads.perturbing import Neighbourhood, chain


def zoo() -> Problem:
    """Shared tensors, weights, latencies and routes of several hops."""
    return Problem.build(hetgym.load_graph("squeezenet"), hetgym.load_platform("cpu-gpu-npu"))


@pytest.mark.parametrize("make", [lambda: textbook("topcuoglu"), zoo, lambda: chain(5, 3)])
def test_the_start_is_itself(make: Callable[[], Problem]) -> None:
    start = make()
    same = Neighbourhood(start).problem(Neighbourhood(start).start())
    ours = {name: getattr(same, name) for name in ("cost", "edge_bytes", "bandwidth", "latency", "output_bytes")}
    assert all((array == getattr(start, name)).all() for name, array in ours.items()) and same.name == start.name
    _, tensor = np.unique(start.edge_tensor, return_inverse=True)
    assert (same.edge_tensor == tensor).all() and (same.route_link == start.route_link).all()


@pytest.mark.parametrize("make", [lambda: textbook("topcuoglu"), zoo])
def test_steps_stay_within_the_range(make: Callable[[], Problem]) -> None:
    start, rng = make(), np.random.default_rng(0)
    near = Neighbourhood(start, within=2.0)
    variant = near.draw(rng)
    for _ in range(300):
        variant, change = near.step(variant, rng)
        assert change
    problem = near.problem(variant)  # and no cycle, and every pair's bandwidth is that of its narrowest link
    for factor in variant[:4]:
        assert ((factor >= 0.5) & (factor <= 2.0)).all()
        assert all(float(f"{value:.3g}") == value for value in factor.tolist())
    ratio = problem.cost[:, :2] / np.maximum(start.cost[:, :2], 1e-300)
    factors = variant.run_time[:, None] * variant.slowness[:2]  # of rows and columns, not of single entries
    assert np.allclose(ratio[start.cost[:, :2] > 0], factors[start.cost[:, :2] > 0])
    assert (problem.latency == start.latency).all() and (problem.memory_capacity == start.memory_capacity).all()


def test_every_move_is_made_and_said() -> None:
    near, rng = Neighbourhood(chain(4, 3)), np.random.default_rng(1)
    variant, said = near.start(), set()
    for _ in range(100):
        variant, change = near.step(variant, rng)
        said.add(change.split(":")[-1].split("×")[0].split()[-1])
    assert said == {"time", "times", "bytes", "bandwidth", "added", "removed"}


def test_edges_of_a_tensor_and_directions_of_a_link_change_together() -> None:
    start = Problem.from_arrays(np.ones((3, 2)), [(0, 1, 4.0), (0, 2, 2.0)], tensors=[7, 7])
    near, rng = Neighbourhood(start), np.random.default_rng(0)
    for _ in range(30):
        problem = near.problem(near.step(near.start(), rng)[0])
        assert problem.bandwidth[0, 1] == problem.bandwidth[1, 0]
        if problem.num_edges == 2:
            assert problem.edge_bytes[0] == 2 * problem.edge_bytes[1]


def test_a_problem_without_edges_gets_some() -> None:
    near, rng = Neighbourhood(Problem.from_arrays(np.full((4, 2), 5.0), [], bandwidth=3.0)), np.random.default_rng(0)
    variant = near.start()
    for _ in range(30):
        variant, _ = near.step(variant, rng)
    problem = near.problem(variant)
    assert problem.num_edges and (problem.edge_bytes >= 15 / 3).all() and (problem.edge_bytes <= 15 * 3).all()


@pytest.mark.parametrize("within", [0.5, 1001.0, float("nan")])
def test_impossible_ranges(within: float) -> None:
    with pytest.raises(ProblemError, match="from 1 to 1000"):
        Neighbourhood(chain(3, 2), within)


def test_one_operator_on_one_device_has_few_moves() -> None:
    near, rng = Neighbourhood(chain(1, 1)), np.random.default_rng(0)
    variant = near.start()
    for _ in range(20):
        variant, _ = near.step(variant, rng)
    assert near.problem(variant).cost[0, 0] > 0
    with pytest.raises(ProblemError, match="at least 1"):
        chain(0, 2)


def test_a_tensor_that_no_edge_carries_is_forgotten() -> None:
    """Tensor 0 has two readers; each of the others has one."""
    edges = [(0, 1, 4.0), (0, 2, 4.0), (1, 3, 2.0), (2, 3, 8.0)]
    start = Problem.from_arrays(np.ones((4, 2)), edges, tensors=[0, 0, 1, 2])
    near = Neighbourhood(start)
    variant = near.start()._replace(size=np.array([1.0, 1.5, 0.5]))
    one, said = near._remove(variant, 2)
    assert said == "op1 → op3 removed" and one.size.tolist() == [1.0, 0.5] and one.tensor.tolist() == [0, 0, 1]
    assert near.problem(one).edge_bytes.tolist() == [4.0, 4.0, 4.0]
    both = near._remove(variant, 0)[0]
    assert both.size.tolist() == [1.0, 1.5, 0.5] and both.tensor.tolist() == [0, 1, 2]


def test_new_edges_carry_multiples_of_the_median() -> None:
    start = Problem.from_arrays(np.ones((5, 2)), [(0, 1, 1.0), (1, 2, 2.0), (2, 3, 90.0), (3, 4, 0.0)])
    near, rng = Neighbourhood(start, within=1.0), np.random.default_rng(0)
    pairs = set(zip(start.edge_source.tolist(), start.edge_target.tolist(), strict=True))
    added, said = near._add(near.start(), pairs, rng)
    assert said.endswith("added") and sorted(near.problem(added).edge_bytes.tolist()) == [0.0, 1.0, 2.0, 2.0, 90.0]


def test_a_complete_graph_gets_no_edges() -> None:
    start = Problem.from_arrays(np.ones((3, 2)), [(0, 1, 1.0), (0, 2, 1.0), (1, 2, 1.0)])
    near, rng = Neighbourhood(start), np.random.default_rng(0)
    assert not any(near.step(near.start(), rng)[1].endswith("added") for _ in range(50))
