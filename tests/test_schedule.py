"""Schedule and its validator: each rule is broken alone, and the message names it and the operators."""

from __future__ import annotations

import ast
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

import hetgym.schedule
from hetgym import InvalidSchedule, Problem, Schedule, validate
from hetgym.baselines import heft
from hetgym.workloads import textbook

INF = np.inf


@pytest.fixture
def problem() -> Problem:
    """Operator 0 (1 s) feeds 1 and 2 (2 s each), both feed 3 (1 s); 3 s between devices; 2 not on device 0."""
    return Problem.from_arrays(
        [[1.0, 1.0], [2.0, 2.0], [INF, 2.0], [1.0, 1.0]],
        [(0, 1, 1.0), (0, 2, 1.0), (1, 3, 1.0), (2, 3, 1.0)],
        latency=2.0,
        operator_names=["a", "b", "c", "d"],
        device_names=["cpu", "gpu"],
    )


LEGAL: dict[str, Any] = {
    "assignment": [0, 0, 1, 1],
    "order": [[0, 1], [2, 3]],
    "start": [0.0, 1.0, 4.0, 6.0],
    "finish": [1.0, 3.0, 6.0, 7.0],
}


def test_a_legal_schedule_passes_with_a_report(problem: Problem) -> None:
    report = validate(problem, Schedule(**LEGAL))
    assert report == hetgym.schedule.ValidationReport(7.0, (2, 2), (3.0, 3.0), 2.0)
    assert validate(problem, Schedule(LEGAL["assignment"], order=LEGAL["order"])).makespan is None
    assert validate(problem, Schedule(LEGAL["assignment"], priority=[0.0] * 4)).device_operators == (2, 2)
    validate(problem, Schedule(LEGAL["assignment"], start=LEGAL["start"]))


BROKEN = {
    "coverage: too few assigned": ({"assignment": [0, 0, 1], "start": None, "finish": None}, "3 operators"),
    "coverage: no such device": ({"assignment": [0, 0, 1, 2]}, r"operator 3 \('d'\) is on device 2, there are 0..1"),
    "coverage: negative device": ({"assignment": [0, 0, 1, -1]}, r"operator 3 \('d'\) is on device -1"),
    "coverage: too many orders": ({"order": [[0, 1], [2, 3], []]}, "orders for 3 devices, the problem has 2"),
    "coverage: no such operator": ({"order": [[0, 1], [2, 4]]}, "device 1 lists operator 4, there are 0..3"),
    "coverage: negative operator": ({"order": [[0, 1], [2, -1]]}, "device 1 lists operator -1"),
    "coverage: listed twice": ({"order": [[0, 1, 1], [2, 3]]}, r"operator 1 \('b'\) is listed on devices 0 and 0"),
    "coverage: on the wrong list": ({"order": [[0, 1, 3], [2]]}, r"operator 3 \('d'\) .* device 0 but assigned"),
    "coverage: on no list": ({"order": [[0, 1], [2]]}, r"operator 3 \('d'\) is in no device's order"),
    "placement": (
        {"assignment": [0, 0, 0, 1], "order": [[0, 1, 2], [3]]},
        r"operator 2 \('c'\) cannot run on device 0 \('cpu'\)",
    ),
    "deadlock: on one device": (
        {"order": [[1, 0], [2, 3]], "start": None, "finish": None},
        r"operator 1 \('b'\) waits for operator 0 \('a'\)",
    ),
    "duration: too short": ({"finish": [1.0, 2.5, 6.0, 7.0]}, r"operator 1 \('b'\) runs from 1 to 2.5, but takes 2"),
    "duration: before time": (
        {"start": [-1.0, 1.0, 4.0, 6.0], "finish": [0.0, 3.0, 6.0, 7.0]},
        r"operator 0 \('a'\) runs from -1",
    ),
    "precedence: on one device": (
        {"order": [[0, 1], [2, 3]], "start": [0.0, 1.0, 4.0, 5.9], "finish": [1.0, 3.0, 6.0, 6.9]},
        r"operator 3 \('d'\) starts at 5.9, before the output of operator",
    ),
    "precedence: between devices": (
        {"start": [0.0, 1.0, 3.5, 6.0], "finish": [1.0, 3.0, 5.5, 7.0]},
        r"operator 2 \('c'\) starts at 3.5, .* operator 0 \('a'\) can arrive at 4",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN)
def test_one_broken_rule(problem: Problem, rule: str) -> None:
    change, message = BROKEN[rule]
    with pytest.raises(InvalidSchedule, match=f"^{rule.partition(':')[0]}: .*{message}"):
        validate(problem, Schedule(**(LEGAL | change)))


def test_deadlock_across_devices() -> None:
    """Neither order alone is wrong: 0 feeds 3, 2 feeds 1, and each stands behind the other's reader."""
    problem = Problem.from_arrays([[1.0, 1.0]] * 4, [(0, 3, 0.0), (2, 1, 0.0)])
    with pytest.raises(InvalidSchedule, match=r"^deadlock: operator 1 \('op1'\) waits for operator 2 \('op2'\)"):
        validate(problem, Schedule([0, 0, 1, 1], order=[[1, 0], [3, 2]]))
    validate(problem, Schedule([0, 0, 1, 1], order=[[0, 1], [3, 2]]))


def test_exclusivity() -> None:
    problem = Problem.from_arrays([[2.0], [2.0]], [])
    with pytest.raises(InvalidSchedule, match=r"^exclusivity: operator 1 \('op1'\) starts at 1.5 .* runs until 2$"):
        validate(problem, Schedule([0, 0], start=[0.0, 1.5]))
    validate(problem, Schedule([0, 0], start=[0.0, 2.0]))


def test_as_many_operators_as_streams_run_at_a_time() -> None:
    problem = Problem.from_arrays([[2.0], [2.0], [2.0]], [])
    times = {"start": [0.0, 1.0, 2.0], "finish": [2.0, 3.0, 4.0]}
    validate(problem, Schedule([0, 0, 0], **times, streams=2))
    again = Schedule.from_dict(Schedule([0, 0, 0], **times, streams=2).to_dict())
    assert again.streams == 2
    with pytest.raises(InvalidSchedule, match=r"^exclusivity: operator 1 .* starts at 1 on device 0"):
        validate(problem, Schedule([0, 0, 0], **times))
    crowded = Schedule([0, 0, 0], start=[0.0, 1.0, 1.5], finish=[2.0, 3.0, 3.5], streams=2)
    with pytest.raises(InvalidSchedule, match=r"^exclusivity: operator 2 .* where 2 operators run already"):
        validate(problem, crowded)
    with pytest.raises(InvalidSchedule, match="streams must be a whole number of at least 1, not 0"):
        Schedule([0], start=[0.0], streams=0)


def test_exclusivity_holds_for_operators_of_no_duration() -> None:
    problem = Problem.from_arrays([[2.0], [0.0]], [])
    with pytest.raises(InvalidSchedule, match="^exclusivity: operator 1"):
        validate(problem, Schedule([0, 0], start=[0.0, 1.0]))
    for start in (0.0, 2.0):
        validate(problem, Schedule([0, 0], start=[0.0, start]))


def test_exclusivity_of_times_that_contradict_the_order() -> None:
    problem = Problem.from_arrays([[2.0], [2.0]], [])
    with pytest.raises(InvalidSchedule, match="^exclusivity: operator 1 .* starts at 0 .* operator 0 .* until 4"):
        validate(problem, Schedule([0, 0], order=[[0, 1]], start=[2.0, 0.0], finish=[4.0, 2.0]))


def test_times_beside_priorities_are_checked(problem: Problem) -> None:
    with pytest.raises(InvalidSchedule, match="^precedence"):
        validate(problem, Schedule([0, 0, 1, 1], priority=[0.0] * 4, start=[0.0] * 4))


def test_rounding_is_forgiven_but_no_more() -> None:
    problem = Problem.from_arrays([[0.1], [0.2], [0.3]], [(0, 1, 0.0), (1, 2, 0.0)])
    start = [0.0, 0.1, 0.3]  # 0.1 + 0.2 > 0.3 in binary
    validate(problem, Schedule([0, 0, 0], start=start))
    with pytest.raises(InvalidSchedule, match="^precedence"):
        validate(problem, Schedule([0, 0, 0], start=[0.0, 0.1, 0.3 - 1e-8]))


def test_the_validator_is_independent_of_the_simulator() -> None:
    """It must not vouch for the simulator with the simulator's own code."""
    tree = ast.parse(Path(hetgym.schedule.__file__).read_text("utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert {str(name) for name in imported if str(name).startswith("hetgym")} == {
        "hetgym._kernels.jit",
        "hetgym._text",
        "hetgym._types",
        "hetgym.errors",
        "hetgym.problem",
    }


@examples(150)
@given(case=strategies.cases())
def test_legal_schedules_pass(case: tuple[Problem, Schedule]) -> None:
    problem, schedule = case
    report = validate(problem, schedule)
    assert sum(report.device_operators) == problem.num_operators
    assert report.remote_bytes >= 0.0


@examples(150)
@given(problem=strategies.problems(min_operators=2, allow_inf=False), data=st.data())
def test_swapping_a_producer_behind_its_reader_deadlocks(problem: Problem, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    order = strategies.random_topological_order(problem, rng)
    schedule = Schedule([0] * problem.num_operators, order=[order] + [[]] * (problem.num_devices - 1))
    validate(problem, schedule)
    if problem.num_edges:
        k = data.draw(st.integers(0, problem.num_edges - 1))
        i, j = order.index(problem.edge_source[k]), order.index(problem.edge_target[k])
        order[i], order[j] = order[j], order[i]
        with pytest.raises(InvalidSchedule, match="^deadlock"):
            validate(problem, Schedule(schedule.assignment, order=[order] + [[]] * (problem.num_devices - 1)))


@examples(100)
@given(case=strategies.cases())
def test_dict_round_trip(case: tuple[Problem, Schedule]) -> None:
    _, schedule = case
    named = dataclasses.replace(schedule, scheduler="mine", model="links")
    again = Schedule.from_dict(json.loads(json.dumps(named.to_dict())))
    for field in dataclasses.fields(Schedule):
        before, after = getattr(named, field.name), getattr(again, field.name)
        if field.name == "order" and before is not None:
            assert [row.tolist() for row in after] == [row.tolist() for row in before]
        elif isinstance(before, np.ndarray):
            assert after.dtype == before.dtype
            assert after.tolist() == before.tolist()
        else:
            assert after == before


def test_dict_round_trip_of_planned_times() -> None:
    schedule = heft(textbook("topcuoglu"))
    again = Schedule.from_dict(json.loads(json.dumps(schedule.to_dict())))
    assert again.makespan == schedule.makespan
    assert again.to_dict() == schedule.to_dict()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"assignment": [0], "start": [0.0], "colour": "red"}, "unknown field 'colour'"),
        ({"start": [0.0]}, "no assignment"),
        ({"assignment": [0]}, "needs an order, priorities or start times"),
        ({"assignment": [0], "order": [[0]], "priority": [1.0]}, "not both"),
        ({"assignment": [0], "order": [[0]], "finish": [1.0]}, "finish times without start times"),
        ({"assignment": "cpu", "start": [0.0]}, "assignment"),
        ({"assignment": [0.5], "start": [0.0]}, "assignment must be a flat list of whole numbers"),
        ({"assignment": [float("nan")], "start": [0.0]}, "whole numbers"),
        ({"assignment": [2**40], "start": [0.0]}, "whole numbers"),
        ({"assignment": [[0]], "start": [0.0]}, "flat list"),
        ({"assignment": [0], "order": [["a"]]}, "order"),
        ({"assignment": [0], "order": [0]}, "order must be a flat list"),
        ({"assignment": [0], "order": 0}, "order"),
        ({"assignment": [0], "priority": [1.0, 2.0]}, "priority must hold one finite number for each of the 1"),
        ({"assignment": [0], "priority": [float("nan")]}, "priority must hold one finite number"),
        ({"assignment": [0], "start": [float("inf")]}, "start must hold one finite number"),
        ({"assignment": [0], "start": "soon"}, "start is not a list of numbers"),
        ({"assignment": [0], "start": [0.0], "finish": [None, 1.0]}, "finish"),
        ({"assignment": [0], "start": [0.0], "model": 7}, "model"),
        ({"assignment": [0], "start": [0.0], "scheduler": ["heft"]}, "scheduler"),
    ],
)
def test_bad_fields(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSchedule, match=message):
        Schedule.from_dict(fields)


def test_a_schedule_is_a_value() -> None:
    assignment = np.array([0, 0], np.int32)
    schedule = Schedule(assignment, priority=[1.0, 2.0])
    assignment[0] = 1
    assert schedule.assignment.tolist() == [0, 0]
    with pytest.raises(ValueError, match="read-only"):
        schedule.assignment[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        schedule.model = "links"  # type: ignore[misc]


def test_what_was_not_planned_is_not_there(problem: Problem) -> None:
    with pytest.raises(InvalidSchedule, match=r"no planned finish times; hetgym.simulate\(problem, schedule\) has"):
        _ = Schedule(LEGAL["assignment"], order=LEGAL["order"]).makespan
    with pytest.raises(InvalidSchedule, match="priorities has no order until it is simulated"):
        Schedule(LEGAL["assignment"], priority=[0.0] * 4).device_order(problem)


def test_times_are_read_as_an_order(problem: Problem) -> None:
    rows = Schedule(LEGAL["assignment"], start=LEGAL["start"]).device_order(problem)
    assert [row.tolist() for row in rows] == LEGAL["order"]


def test_operators_of_no_duration_keep_the_order_of_their_data() -> None:
    problem = Problem.from_arrays([[0.0]] * 3, [(2, 1, 0.0), (1, 0, 0.0)])
    schedule = Schedule([0, 0, 0], start=[0.0, 0.0, 0.0])
    validate(problem, schedule)
    assert schedule.device_order(problem)[0].tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    "fields",
    [
        {"assignment": [10**400], "priority": [1.0]},
        {"assignment": [0], "priority": [10**400]},
        {"assignment": [0], "order": [[10**400]]},
        {"assignment": [0], "order": 3},
        {"assignment": [0], "order": [[0]], "model": 10**5000},
        {"assignment": [0], 3: 4, "x" * 100_000: 5},
        None,
        [1, 2],
    ],
    ids=range(8),
)
def test_fields_of_another_type_are_one_sentence(fields):
    with pytest.raises(InvalidSchedule) as refused:
        Schedule.from_dict(fields)
    assert str(refused.value).isprintable() and len(str(refused.value)) <= 600


def test_a_placement_alone_is_no_schedule() -> None:
    with pytest.raises(InvalidSchedule, match="a schedule is a hetgym.Schedule, not list"):
        validate(textbook("topcuoglu"), [0] * 10)  # type: ignore[arg-type]


def test_orders_of_planned_times_go_by_start_then_finish_then_position() -> None:
    """Operators 1 and 2 start at 3 s, and 2, of no duration, ends first; 4 comes before 3 in topological order."""
    problem = Problem.from_arrays([[3.0], [2.0], [0.0], [0.0], [0.0]], [(4, 3, 0.0)])
    schedule = Schedule([0] * 5, start=[0.0, 3.0, 3.0, 5.0, 5.0])
    assert [row.tolist() for row in schedule.device_order(problem)] == [[0, 2, 1, 4, 3]]


def test_numbers_at_their_limits_are_taken() -> None:
    schedule = Schedule([0], start=[0.0], speed=[1.0], lower_bound=0.0, streams=1)
    assert schedule.speed is not None and schedule.lower_bound == 0.0
    for limits in ({"speed": [1.0 + 1e-9]}, {"speed": [0.0]}, {"lower_bound": -1e-9}, {"lower_bound": INF}):
        with pytest.raises(InvalidSchedule, match=next(iter(limits))):
            Schedule([0], start=[0.0], **limits)


def test_planned_times_may_be_rounded() -> None:
    """By a billionth of the last finish, and not by more."""
    problem = Problem.from_arrays([[1.0], [1.0], [1.0]], [(0, 1, 0.0)])
    for streams, start in ((1, [0.0, 1.0, 2.0]), (2, [0.0, 1.0, 0.0])):
        for error, legal in ((1e-10, True), (1e-8, False)):
            early = np.array(start) - [0.0, error, 0.0]
            schedule = Schedule([0, 0, 0], start=early, finish=np.array(start) + 1.0, streams=streams)
            if legal:
                validate(problem, schedule)
                continue
            with pytest.raises(InvalidSchedule, match="^(precedence|exclusivity)"):
                validate(problem, schedule)


def test_exclusivity_goes_by_the_stated_finish() -> None:
    """Operator 0 takes 2 s and is said to hold its device for 3 s."""
    problem = Problem.from_arrays([[2.0], [2.0]], [])
    with pytest.raises(InvalidSchedule, match="^exclusivity: operator 1 .* starts at 2 .* operator 0 .* until 3"):
        validate(problem, Schedule([0, 0], start=[0.0, 2.0], finish=[3.0, 4.0]))
    validate(problem, Schedule([0, 0], start=[0.0, 3.0], finish=[3.0, 5.0]))


def test_precedence_goes_by_the_stated_finish() -> None:
    problem = Problem.from_arrays([[2.0, 9.0], [9.0, 2.0]], [(0, 1, 1.0)])
    with pytest.raises(InvalidSchedule, match="^precedence: operator 1 .* starts at 3, .* can arrive at 4"):
        validate(problem, Schedule([0, 1], start=[0.0, 3.0], finish=[3.0, 5.0]))
    validate(problem, Schedule([0, 1], start=[0.0, 4.0], finish=[3.0, 6.0]))
