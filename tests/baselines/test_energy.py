"""Schedulers that know power: what slack gives, and what it may never take."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym import Problem, Schedule, simulate, validate
from hetgym.baselines import energy_heft, get, heft, trade_offs
from hetgym.errors import ConfigError, InvalidSchedule, ProblemError, UnknownName
from hetgym.metrics import nondominated
from hetgym.planning.slack import reclaim_slack
from hetgym.workloads import RandomMix, textbook


def powered(problem: Problem, seed: int = 0) -> Problem:
    rng, d = np.random.default_rng(seed), problem.num_devices
    busy = rng.uniform(50, 300, d)
    return problem.replace(power_busy=busy, power_idle=busy * rng.uniform(0.0, 0.6, d), price=rng.uniform(0.1, 3, d))


def drawn(seed: int, operators: int = 40) -> Problem:
    return powered(RandomMix(operators=(10, operators), devices=3)(np.random.default_rng(seed)), seed)


@examples(40)
@given(seed=st.integers(0, 10**6), runtime=st.sampled_from(["classic", "links", "fair", "ready", "framework"]))
def test_reclaimed_slack_never_costs_time_or_energy(seed: int, runtime: str) -> None:
    problem = drawn(seed)
    plain = simulate(problem, heft(problem, runtime=runtime), runtime)
    plan = energy_heft(problem, weight=0.0, runtime=runtime)
    validate(problem, plan)
    trace = simulate(problem, plan, runtime)
    assert trace.makespan <= plain.makespan
    assert trace.energy.total <= plain.energy.total
    assert plan.finish is not None and plan.makespan == trace.makespan


def test_slack_by_hand() -> None:
    """Two operators feed a third at the same moment; the shorter one has a second to spare."""
    problem = Problem.from_arrays(
        [[2.0, 9.0], [9.0, 1.0], [1.0, 9.0]],
        [(0, 2, 0.0), (1, 2, 0.0)],
        power_busy=[10.0, 20.0],
        power_idle=[1.0, 4.0],
    )
    plan = reclaim_slack(problem, heft(problem), speeds=[0.75, 0.5, 0.25])
    assert plan.speed is not None and plan.speed.tolist() == [1.0, 0.5, 1.0]
    trace = simulate(problem, plan)
    assert trace.makespan == 3.0
    assert trace.energy.total == 3 * 1 + 3 * 4 + 9 * 3 + 16 * 2 / 8


@pytest.mark.parametrize("edge", [(1, 2), (2, 1)])
def test_slack_goes_where_a_second_saves_most(edge: tuple[int, int]) -> None:
    """Half the clock saves 7.5 J in 1 s for operator 1, and 6.75 J in half a second for operator 2; they share 1 s."""
    cost = np.where(np.eye(3, dtype=bool), [2.5, 1.0, 0.5], 9.0)
    problem = Problem.from_arrays(cost, [(*edge, 0.0)], power_busy=[10.0, 10.0, 18.0], power_idle=0.0)
    plan = Schedule([0, 1, 2], order=[[0], [1], [2]])
    assert reclaim_slack(problem, plan, speeds=[0.5]).speed.tolist() == [1.0, 1.0, 0.5]  # type: ignore[union-attr]


def test_where_transfers_queue_slack_is_still_found() -> None:
    saved = 0
    for seed in range(20):
        problem = drawn(seed)
        saved += reclaim_slack(problem, heft(problem, runtime="links"), runtime="links").speed is not None
    assert saved >= 15


def test_without_power_it_is_heft() -> None:
    problem = textbook("topcuoglu")
    for name in ("energy-heft", "slack-heft"):
        plan = get(name)(problem)
        assert plan.speed is None
        assert plan.start.tolist() == heft(problem).start.tolist()  # type: ignore[union-attr]


def test_weight_moves_work_to_the_frugal_device() -> None:
    problem = textbook("topcuoglu").replace(power_busy=[300.0, 300.0, 10.0], power_idle=0.0)
    shares = [(energy_heft(problem, weight).assignment == 2).mean() for weight in (0.0, 1.0, 100.0)]
    assert shares[0] < shares[-1] == 1.0


def test_front_has_no_dominated_plan_and_the_extremes() -> None:
    problem = drawn(7)
    front = trade_offs(problem, ("makespan", "energy", "cost"), "links")
    points = np.array([list(item.values.values()) for item in front])
    assert len(front) >= 3 and nondominated(points).all()
    best = get("region-annealing", budget=20_000)(problem, "links")
    longer = trade_offs(problem, ("makespan", "energy"), "links", beside=[best])
    assert longer[0].values["makespan"] <= simulate(problem, best, "links").makespan
    for item in longer:
        again = simulate(problem, item.schedule, "links")
        assert (again.makespan, again.energy.total) == (item.values["makespan"], item.values["energy"])
    assert [item.values["makespan"] for item in trade_offs(textbook("topcuoglu"), ("makespan",))] == [80.0]


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12))
def test_nondominated_against_the_definition(points: list[tuple[int, int, int]]) -> None:
    kept = nondominated(np.array(points, np.float64))
    for k, point in enumerate(points):
        beaten = any(all(a <= b for a, b in zip(other, point, strict=True)) and other != point for other in points)
        assert kept[k] == (not beaten and point not in points[:k])


def test_bad_input() -> None:
    problem = powered(textbook("topcuoglu"))
    for speeds in ([0.0], [2.0], [float("nan")], ["fast"]):
        with pytest.raises(ConfigError, match="speeds"):
            reclaim_slack(problem, heft(problem), speeds=speeds)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="weight of energy"):
        energy_heft(problem, weight=-1.0)
    with pytest.raises(UnknownName, match="energy"):
        trade_offs(problem, ("enrgy",))
    with pytest.raises(ConfigError, match="at least one"):
        trade_offs(problem, ())
    for plan in (None, 3, Schedule([0], order=[[0], [], []])):
        with pytest.raises(InvalidSchedule, match="a schedule is a hetgym.Schedule|1 operators are assigned"):
            trade_offs(problem, beside=[plan])  # type: ignore[list-item]
    with pytest.raises(ProblemError, match="power"):
        trade_offs(textbook("topcuoglu"))
    assert isinstance(reclaim_slack(problem, heft(problem)), Schedule)


def test_plans_that_fit_are_found_where_the_fastest_does_not() -> None:
    problem = Problem.from_arrays([[1.0, 9.0]] * 4, []).replace(
        weight_bytes=np.full(4, 10.0), memory_capacity=[25.0, 25.0], power_busy=[5.0, 5.0], power_idle=[1.0, 1.0]
    )
    (found,) = trade_offs(problem)
    assert found.schedule.scheduler == "heft, slack reclaimed"
    assert found.values == {"makespan": 18.0, "energy": 110.0} and found.schedule.model == "classic"
