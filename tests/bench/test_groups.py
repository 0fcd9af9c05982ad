from __future__ import annotations

import pytest

from hetgym import Problem
from hetgym.bench.groups import COLUMNS, Traits, grouped, pick_columns
from hetgym.bench.rows import Row, with_gaps
from hetgym.errors import UnknownName
from hetgym.workloads import ProblemSpec


def row(
    problem: str, scheduler: str, makespan: float | None, n: int, devices: int = 2, runtime: str = "classic"
) -> Row:
    graph, _, platform = problem.partition("@")
    return Row(
        problem,
        graph,
        platform,
        n,
        3,
        devices,
        scheduler,
        "list",
        runtime,
        makespan_s=makespan,
        status="ok" if makespan else "broken",
    )


ROWS = with_gaps(
    [
        row("resnet50@p", "heft", 4.0, 50),
        row("resnet50@p", "x", 2.0, 50),
        row("resnet50-b8-fused@q", "heft", 4.0, 51, 4),
        row("resnet50-b8-fused@q", "x", 8.0, 51, 4),
        row("layered-n=9-s0@q", "heft", 3.0, 2000, 4),
        row("layered-n=9-s0@q", "x", None, 2000, 4),
    ]
)


def traits(**ccr: float) -> Traits:
    found = Traits()
    found.ccr.update(ccr)
    return found


def table(column: str, what: str = "gap_to_best") -> dict[tuple[str, str], float | None]:
    return {(line.group, line.scheduler): getattr(line, what) for line in grouped(ROWS, traits(), [column], "heft")}


def test_families_are_networks_and_generators() -> None:
    found = table("family")
    assert found == {
        ("resnet50", "heft"): pytest.approx(0.5),
        ("resnet50", "x"): pytest.approx(0.5),
        ("layered", "heft"): 0.0,
        ("layered", "x"): None,
    }
    assert table("family", "ratio")["resnet50", "x"] == pytest.approx(1.0)
    assert table("family", "low")["resnet50", "x"] == pytest.approx(0.5)
    assert table("family", "problems")["layered", "x"] == 0


def test_sizes_and_devices_come_in_order() -> None:
    assert list(dict.fromkeys(group for group, _ in table("size"))) == ["up to 50", "51 to 150", "over 1500"]
    assert list(dict.fromkeys(group for group, _ in table("devices"))) == ["2", "4"]
    assert list(dict.fromkeys(group for group, _ in table("platform"))) == ["p", "q"]


def test_the_ccr_is_mean_transfer_over_mean_cost() -> None:
    problem = Problem.from_arrays([[2.0, 4.0], [1.0, 5.0]], [(0, 1, 10.0)], latency=1.0, bandwidth=2.0, name="x")
    found = Traits()
    found.problem(ProblemSpec.held(problem), problem, 1.0)
    assert found.ccr == {"x": pytest.approx(6.0 / 3.0)}


def test_groups_by_ccr_are_half_a_decade_around_one() -> None:
    known = traits(**{"resnet50@p": 0.1, "resnet50-b8-fused@q": 1.0})
    lines = grouped(ROWS, known, ["ccr"])
    assert list(dict.fromkeys(line.group for line in lines)) == ["unknown", "up to 0.3", "0.3 to 3"]
    assert {line.ratio for line in lines} == {None}


def test_runtimes_are_apart_and_unfinished_problems_left_out() -> None:
    more = with_gaps([row("a@p", "heft", 1.0, 9, runtime="links")]) + [row("b@p", "heft", 1.0, 9, runtime="links")]
    lines = grouped([*ROWS, *more], traits(), ["platform"], "heft")
    assert [(line.group, line.problems) for line in lines if line.runtime == "links"] == [("p", 1)]


def test_picking_columns() -> None:
    assert pick_columns("all") == tuple(COLUMNS) == ("family", "size", "devices", "ccr", "platform")
    assert pick_columns("") == ()
    with pytest.raises(UnknownName, match="did you mean 'platform'"):
        pick_columns("size,plattform")
