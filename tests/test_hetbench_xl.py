"""hetbench-xl: problems of 3000 to 100 000 operators that are built from specifications, with best-known values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetgym import baselines, simulate, validate
from hetgym.baselines import lower_bound
from hetgym.bench.best_schedules import load_best_schedules
from hetgym.workloads import ProblemSpec, load_best_known, load_suite, suites
from hetgym.workloads.best_known import PROVED
from hetgym.workloads.suites import FOLDER

SUITE = FOLDER / "hetbench-xl"
KNOWN = load_best_known(SUITE / "best_known.json")
SCHEDULES = load_best_schedules(SUITE / "best_known.json")
RUNTIMES = ("links", "framework")
HELD_OUT = ("wavefront", "decoding", "lu")
SMALL = 5000  # most operators of a problem that is built on every day
SIZES = {name: len(SCHEDULES[name, "links"].assignment) for name in KNOWN}
SPECS = {spec.name: spec for spec in load_suite("hetbench-xl").specs}


def test_thirty_problems_a_third_of_them_held_out() -> None:
    assert len(SPECS) == 30 and SPECS.keys() == KNOWN.keys() == SIZES.keys()
    assert SCHEDULES.keys() == {(name, runtime) for name in KNOWN for runtime in RUNTIMES}
    assert min(SIZES.values()) >= 3000 and max(SIZES.values()) == 100_000
    assert sum(size <= 10_000 for size in SIZES.values()) >= 20
    assert {name.partition("-")[0] for name in KNOWN} >= {*HELD_OUT, "cholesky", "qr", "layered", "daggen", "fork_join"}
    assert sum(name.startswith(HELD_OUT) for name in KNOWN) == 9
    devices = [len(schedule.order or ()) for schedule in SCHEDULES.values()]
    assert min(devices) == 4 and max(devices) == 16


def test_the_files_stay_small() -> None:
    assert sum(path.stat().st_size for path in SUITE.rglob("*")) < 1_500_000


def test_loading_the_suite_draws_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a graph was drawn")

    monkeypatch.setattr(suites, "generated_graph", refuse)
    assert len(load_suite("hetbench-xl")) == 30


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if size > SMALL else []) for name, size in SIZES.items()]
)
def test_every_best_known_makespan_is_that_of_its_schedule(name: str) -> None:
    spec: ProblemSpec = SPECS[name]
    problem, row = spec.build(), KNOWN[name]  # which compares digests
    assert problem.num_operators == SIZES[name] and set(row.best) == set(RUNTIMES)
    for runtime in RUNTIMES:
        schedule, best = SCHEDULES[name, runtime], row.best[runtime]
        validate(problem, schedule, memory=False)
        assert simulate(problem, schedule, runtime).makespan == best.makespan_s
        baselines.get(best.scheduler, **best.options)
        assert lower_bound(problem, runtime=runtime) <= row.bound(runtime) * (1 + PROVED)
        assert 0 < row.bound(runtime) <= best.makespan_s


def test_the_documentation_shows_the_shipped_values() -> None:
    """``python scripts/make_hetbench.py docs --suite hetbench-xl`` writes them."""
    path = Path(__file__).parents[1] / "docs" / "results" / "data" / "hetbench-xl.json"
    table = next(table for table in json.loads(path.read_text("utf-8"))["tables"] if table["name"] == "makespans")
    rows = [dict(zip(table["columns"], cells, strict=True)) for cells in table["rows"]]
    assert [row["problem"] for row in rows] == list(KNOWN)
    for row, known in zip(rows, KNOWN.values(), strict=True):
        for runtime in RUNTIMES:
            assert row[f"{runtime} [ms]"] == f"{1e3 * known.best[runtime].makespan_s:.6g}"
