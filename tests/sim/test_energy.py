"""Energy and rent of runs, by hand; and objectives made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hetgym import Device, InvalidSchedule, PlatformError, Problem, ProblemError, Schedule, simulate, validate
from hetgym.bench.wire import pack_attempt, unpack_attempt
from hetgym.errors import ConfigError, UnknownName
from hetgym.graph import load_graph
from hetgym.platform import load_platform
from hetgym.sim import OBJECTIVES, Objective, Runtime, objective


def powered(**changes: object) -> Problem:
    """Two operators in a row; a byte between them takes a second."""
    given = {"power_busy": [100.0, 10.0], "power_idle": [20.0, 5.0], "price": [3600.0, 36.0]} | changes
    return Problem.from_arrays([[2.0, 8.0], [3.0, 4.0]], [(0, 1, 1.0)], **given)  # type: ignore[arg-type]


def across(**fields: object) -> Schedule:
    return Schedule([0, 1], order=[[0], [1]], **fields)  # type: ignore[arg-type]


def test_energy_and_rent_by_hand() -> None:
    trace = simulate(powered(), across())
    assert trace.makespan == 7.0  # 2 s, a transfer of 1 s, 4 s
    assert trace.energy.idle.tolist() == [140.0, 35.0]
    assert trace.energy.dynamic.tolist() == [160.0, 20.0]
    assert trace.energy.total == 355.0
    assert trace.cost == pytest.approx(3.0 * 1.0 + 5.0 * 0.01)  # [0, 3) with the transfer; [2, 7) with it


def test_a_device_without_part_idles_and_costs_nothing() -> None:
    trace = simulate(powered(), Schedule([0, 0], order=[[0, 1], []]))
    assert trace.energy.total == 5 * 20 + 5 * 5 + 5 * 80
    assert trace.cost == pytest.approx(5.0)


def test_half_the_clock_takes_twice_as_long_and_a_quarter_of_the_dynamic_energy() -> None:
    plan = across(speed=[0.5, 1.0])
    trace = simulate(powered(), plan)
    assert trace.makespan == 9.0
    assert trace.energy.dynamic.tolist() == [4 * 80 / 8, 20.0]
    assert validate(powered(), plan).device_busy == (4.0, 4.0)
    assert Schedule.from_dict(plan.to_dict()).speed.tolist() == [0.5, 1.0]  # type: ignore[union-attr]
    with pytest.raises(InvalidSchedule, match="duration"):
        validate(powered(), across(speed=[0.5, 1.0], start=[0.0, 3.0], finish=[2.0, 7.0]))
    assert (
        simulate(powered(), across(speed=[1.0, 1.0])).finish.tolist() == simulate(powered(), across()).finish.tolist()
    )


def test_streams_share_the_power_of_their_device() -> None:
    problem = Problem.from_arrays([[4.0], [2.0], [1.0]], [], occupancy=0.25, power_busy=10.0, power_idle=1.0)
    plan = Schedule([0, 0, 0], order=[[0, 1, 2]], speed=[0.5, 1.0, 0.5])
    trace = simulate(problem, plan, Runtime(streams=2))
    assert trace.start.tolist() == [0.0, 0.0, 2.0] and trace.finish.tolist() == [8.0, 2.0, 4.0]
    assert trace.energy.dynamic.tolist() == [9 * (2 * 1.0 + 6 * 0.125)]


def test_another_process_sees_the_same_energy() -> None:
    from hetgym.bench.attempt import Attempt

    trace = simulate(powered(), across(speed=[0.5, 1.0]))
    (again,) = unpack_attempt(pack_attempt(Attempt({"classic": trace}, {"classic": 0.0})), powered()).traces.values()
    assert again.energy.total == trace.energy.total
    assert again.problem.cost.tolist() == trace.problem.cost.tolist()


def test_files_and_copies_keep_power_and_digests_do_not(tmp_path: Path) -> None:
    problem, plain = powered(), powered(power_busy=0.0, power_idle=0.0, price=0.0)
    problem.save(tmp_path / "p.npz")
    plain.save(tmp_path / "plain.npz")
    loaded = Problem.load(tmp_path / "p.npz")
    for name in ("power_busy", "power_idle", "price"):
        assert getattr(loaded, name).tolist() == getattr(problem.replace(name="x"), name).tolist()
        assert getattr(Problem.load(tmp_path / "plain.npz"), name).tolist() == [0.0, 0.0]
    assert problem.digest == plain.digest
    with np.load(tmp_path / "plain.npz") as file:
        assert not {"power_busy", "power_idle", "price"} & set(file.files)


def test_platforms_hand_power_on_only_if_all_devices_have_it() -> None:
    from dataclasses import replace

    graph, platform = load_graph("squeezenet"), load_platform("cpu-gpu")
    known = [replace(device, power_busy=100.0, power_idle=10.0, price=None) for device in platform.devices]
    both = Problem.build(graph, replace(platform, devices=tuple(known)), "roofline")
    assert both.power_busy.tolist() == [100.0, 100.0] and not both.price.any()
    known[1] = replace(known[1], power_busy=None, power_idle=None)
    one = Problem.build(graph, replace(platform, devices=tuple(known)), "roofline")
    assert not one.power_busy.any() and one.digest == both.digest
    with pytest.raises(ProblemError, match="does not state power_busy"):
        _ = simulate(one, Schedule(np.zeros(one.num_operators), priority=-np.arange(one.num_operators))).energy


@pytest.mark.parametrize(
    "fields",
    [
        {"power_idle": 1.0},
        {"power_busy": 10.0, "power_idle": 20.0},
        {"power_busy": 0.0, "power_idle": 0.0},
        {"power_busy": float("nan"), "power_idle": 0.0},
        {"price": -1.0},
    ],
)
def test_devices_of_impossible_power(fields: dict[str, float]) -> None:
    with pytest.raises(PlatformError, match="power|price"):
        Device("d", "gpu", {"float32": 1e12}, 1e9, **fields)


def test_problems_and_schedules_of_impossible_power() -> None:
    with pytest.raises(ProblemError, match="above power_busy"):
        powered(power_idle=50.0)
    with pytest.raises(ProblemError, match="price"):
        powered(price=[-1.0, 0.0])
    with pytest.raises(ProblemError, match="does not state the price"):
        _ = simulate(powered(price=0.0), across()).cost
    for speed in ([0.0, 1.0], [1.5, 1.0], [1.0], [float("nan"), 1.0]):
        with pytest.raises(InvalidSchedule, match="speed"):
            across(speed=speed)


def test_objectives_are_means_of_ratios() -> None:
    problem = powered()
    reference, other = simulate(problem, across()), simulate(problem, Schedule([0, 0], order=[[0, 1], []]))
    assert objective("makespan").value(other, reference) == 5 / 7
    assert objective("energy").value(other, reference) == 525 / 355
    assert objective("makespan=1, energy=3").value(other, reference) == pytest.approx(0.25 * 5 / 7 + 0.75 * 525 / 355)
    assert {objective(name).value(reference, reference) for name in OBJECTIVES} == {1.0}
    assert objective("makespan").value(*2 * [simulate(powered(power_busy=0.0, power_idle=0.0), across())]) == 1.0


def test_a_ratio_to_nothing_is_1() -> None:
    instant = simulate(Problem.from_arrays([[0.0]], []), Schedule([0], order=[[0]]))
    longer = simulate(Problem.from_arrays([[2.0]], []), Schedule([0], order=[[0]]))
    assert objective("makespan").value(longer, instant) == objective("makespan").value(instant, instant) == 1.0
    assert objective("makespan").value(instant, longer) == 0.0


def test_rent_begins_with_the_first_use() -> None:
    """Device 1 runs from 3 to 7 s and receives from 2 s on."""
    trace = simulate(powered(price=[0.0, 3600.0]), across())
    assert trace.cost == 7.0 - 2.0
    late = simulate(powered(price=[0.0, 3600.0]).replace(edge_bytes=np.array([0.0])), across())
    assert late.cost == 4.0


def test_objectives_that_are_none() -> None:
    with pytest.raises(UnknownName, match="did you mean 'energy'"):
        objective("enrgy")
    for text in ("energy=x", "energy=-1", "energy=0", "energy=nan", "energy=inf"):
        with pytest.raises(ConfigError):
            objective(text)
    for text in ("makespan=1,makespan=2", "energy=1, energy", "energy,energy"):
        with pytest.raises(ConfigError, match="is given twice"):
            objective(text)
    with pytest.raises(ConfigError, match="not 3"):
        objective(3)  # type: ignore[arg-type]
    assert objective(Objective(energy=2.0)) == objective("energy")
