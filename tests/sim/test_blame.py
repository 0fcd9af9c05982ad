"""Blame: shares by hand, and that they always sum to the makespan."""

from __future__ import annotations

import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym import Problem, Runtime, Schedule, simulate
from hetgym.baselines import heft
from hetgym.sim import PRESETS
from hetgym.workloads import textbook

NOTHING = {"partition entry": 0.0, "dispatch": 0.0, "idle": 0.0}


def test_two_transfers_on_one_link() -> None:
    """Operators 0 and 1 feed 2 on the other device; the second transfer waits for the first."""
    problem = Problem.from_arrays([[1.0, 9.0], [1.0, 9.0], [9.0, 2.0]], [(0, 2, 30.0), (1, 2, 30.0)], bandwidth=10.0)
    trace = simulate(problem, Schedule([0, 0, 1], order=[[0, 1], [2]]), "links")
    assert trace.makespan == 9.0
    assert trace.blame.chain == (0, 1, 2)
    assert trace.blame.seconds == {"compute": 4.0, "transfer": 3.0, "link wait": 2.0} | NOTHING


def test_dispatch_is_blamed_on_the_host() -> None:
    problem = Problem.from_arrays([[1.0]] * 2, [(0, 1, 0.0)])
    trace = simulate(problem, Schedule([0, 0], order=[[0, 1]]), Runtime(dispatch=0.25))
    assert trace.makespan == 2.5
    assert trace.blame.shares == NOTHING | {"compute": 0.8, "transfer": 0.0, "link wait": 0.0, "dispatch": 0.2}


def test_entering_a_partition_is_not_computing() -> None:
    """A delegate takes 5 s to enter and 1 s an operator; the second is in the same partition, the fourth not."""
    cost = [[9.0, 1.0], [9.0, 1.0], [1.0, 9.0], [9.0, 1.0]]
    chain = [(i, i + 1, 0.0) for i in range(3)]
    problem = Problem.from_arrays(cost, chain, partition_overhead=[0.0, 5.0], synchronous=[False, True])
    trace = simulate(problem, Schedule([1, 1, 0, 1], order=[[2], [0, 1, 3]]))
    assert trace.makespan == 14.0
    assert trace.blame.seconds["compute"] == 4.0 and trace.blame.seconds["partition entry"] == 10.0


def test_the_published_schedule_of_heft() -> None:
    trace = simulate(textbook("topcuoglu"), heft(textbook("topcuoglu")))
    assert sum(trace.blame.seconds.values()) == trace.makespan == 80.0
    assert trace.blame.chain[-1] == 9 and trace.blame.seconds["idle"] == 0.0


@given(case=strategies.cases(("order", "priority")), preset=st.sampled_from(sorted(PRESETS)))
def test_shares_sum_to_the_makespan(case: tuple[Problem, Schedule], preset: str) -> None:
    trace = simulate(*case, preset)
    blame = trace.blame
    assert sum(blame.seconds.values()) == pytest.approx(trace.makespan, rel=1e-9, abs=1e-9)
    assert len(set(blame.chain)) == len(blame.chain)
    if PRESETS[preset].streams == 1:
        assert min(blame.seconds.values()) >= -1e-9 * max(1.0, trace.makespan)


@examples(60)
@given(data=st.data())
def test_what_is_left_without_entries_is_the_cost(data: st.DataObject) -> None:
    problem = data.draw(strategies.partitioned())
    schedule = data.draw(strategies.schedules(problem, ("order",)))
    trace = simulate(problem, schedule, "classic")
    found, chain = trace.blame, list(trace.blame.chain)
    work = float(problem.cost[chain, trace.assignment[chain]].sum())
    assert found.seconds["compute"] == pytest.approx(work, rel=1e-9, abs=1e-9)
    assert sum(found.seconds.values()) == pytest.approx(trace.makespan, rel=1e-9, abs=1e-9)


def test_an_input_that_arrives_as_the_device_becomes_free_has_the_blame() -> None:
    """Operator 2 could start at 3 s at the earliest: operator 1 left its device, and the output of 0 arrived."""
    problem = Problem.from_arrays([[2.0, 9.0], [9.0, 3.0], [9.0, 1.0]], [(0, 2, 1.0)])
    found = simulate(problem, Schedule([0, 1, 1], order=[[0], [1, 2]])).blame
    assert found.chain == (0, 2)
    assert found.seconds == NOTHING | {"compute": 3.0, "transfer": 1.0, "link wait": 0.0}


def test_of_operators_that_end_together_the_chain_ends_with_the_later_in_topological_order() -> None:
    problem = Problem.from_arrays([[3.0, 9.0], [9.0, 3.0]], [])
    assert simulate(problem, Schedule([0, 1], order=[[0], [1]])).blame.chain == (1,)
