"""Critical paths of mean times, and the chains that makespans wait for."""

from __future__ import annotations

import numpy as np
import strategies
from hypothesis import given

from hetgym import Problem, Schedule
from hetgym.baselines import heft
from hetgym.planning import critical_chain, critical_path
from hetgym.planning.ranks import upward_rank
from hetgym.workloads import textbook


def with_shortcuts(seed: int) -> Problem:
    """A chain of ten operators with edges that skip some of it, and two operators beside it."""
    rng = np.random.default_rng(seed)
    chain = [(i, i + 1) for i in range(9)]
    skips = [(i, j) for i in range(10) for j in range(i + 2, 10) if rng.random() < 0.3]
    edges = [(i, j, float(rng.uniform(0.0, 5.0))) for i, j in [*chain, *skips, (0, 10), (10, 11)]]
    return Problem.from_arrays(rng.uniform(0.5, 9.0, (12, 3)), edges, latency=0.1)


def length(problem: Problem, path: list[int]) -> float:
    """Mean run times and transfers along a path [s]."""
    edges = {
        (i, j): c
        for i, j, c in zip(
            problem.edge_source.tolist(), problem.edge_target.tolist(), problem.mean_communication, strict=True
        )
    }
    return float(sum(problem.mean_cost[path]) + sum(edges[step] for step in zip(path, path[1:], strict=False)))


def test_no_operator_of_the_path_is_skipped() -> None:
    """Priorities along the path are equal up to rounding only, so that the largest may lie behind a shortcut."""
    for seed in range(300):
        problem = with_shortcuts(seed)
        path = critical_path(problem)
        longest = float(upward_rank(problem).max())
        assert abs(length(problem, path) - longest) <= 1e-9 * longest, seed


@given(problem=strategies.problems())
def test_the_path_is_a_longest_one(problem: Problem) -> None:
    path = critical_path(problem)
    rank = upward_rank(problem)
    pairs = {*zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True)}
    assert rank[path[0]] >= rank.max() * (1 - 1e-12)
    assert all(step in pairs for step in zip(path, path[1:], strict=False))
    assert path[-1] not in problem.edge_source


def test_the_path_of_the_textbook_example() -> None:
    assert [i + 1 for i in critical_path(textbook("topcuoglu"))] == [1, 2, 9, 10]  # Topcuoglu 2002, figure 4


@given(problem=strategies.problems(costs=("integer", "continuous"), allow_zero=False))
def test_the_chain_ends_with_the_last_finish_and_has_no_idle_time(problem: Problem) -> None:
    schedule = heft(problem)
    chain = critical_chain(problem, schedule).tolist()
    assert schedule.finish[chain[-1]] == schedule.makespan
    assert schedule.start[chain[0]] == 0.0
    assert len(set(chain)) == len(chain)
    for before, after in zip(chain, chain[1:], strict=False):
        a, b = schedule.assignment[before], schedule.assignment[after]
        sizes = problem.edge_bytes[(problem.edge_source == before) & (problem.edge_target == after)]
        arrivals = [schedule.finish[before] + (problem.latency[a, b] + x / problem.bandwidth[a, b]) for x in sizes]
        waits = [schedule.finish[before]] if a == b else arrivals
        assert schedule.start[after] in waits


def test_of_inputs_that_arrive_together_the_chain_takes_the_smaller_id() -> None:
    problem = Problem.from_arrays([[2.0, 9.0, 9.0], [9.0, 2.0, 9.0], [9.0, 9.0, 1.0]], [(1, 2, 1.0), (0, 2, 1.0)])
    schedule = Schedule([0, 1, 2], start=[0.0, 0.0, 3.0])
    assert critical_chain(problem, schedule).tolist() == [0, 2]


def test_of_operators_that_end_together_the_chain_ends_with_the_later_in_topological_order() -> None:
    problem = Problem.from_arrays([[3.0, 9.0], [9.0, 3.0]], [])
    assert critical_chain(problem, Schedule([0, 1], start=[0.0, 0.0])).tolist() == [1]
