"""hetbench-v2: hetbench-v1's problems and twenty more, with best-known values for four runtimes."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from hetgym import Problem, baselines, simulate, validate
from hetgym.baselines import lower_bound
from hetgym.bench.best_schedules import load_best_schedules
from hetgym.workloads import load_best_known, load_suite
from hetgym.workloads.best_known import PROVED
from hetgym.workloads.suites import FOLDER

SUITE = FOLDER / "hetbench-v2"
KNOWN = load_best_known(SUITE / "best_known.json")
BEFORE = load_best_known(FOLDER / "hetbench-v1" / "best_known.json")
SCHEDULES = load_best_schedules(SUITE / "best_known.json")
RUNTIMES = ("classic", "links", "framework", "ready")
NEW = [name for name in KNOWN if name not in BEFORE]
SCRIPTS = Path(__file__).parents[1] / "scripts"


def load(name: str) -> Problem:
    owner = "hetbench-v2" if name in NEW else "hetbench-v1"
    return Problem.load(FOLDER / owner / "problems" / f"{name}.npz")


def test_eighty_problems_sixty_of_them_those_of_the_first_suite() -> None:
    suite = load_suite("hetbench-v2")
    assert len(suite) == 80 and len(NEW) == 20
    assert {spec.name: spec.known for spec in suite.specs} == dict(KNOWN)
    assert all(set(row.best) == set(RUNTIMES) for row in KNOWN.values())
    assert all(KNOWN[name].digest == row.digest for name, row in BEFORE.items())
    assert sum(path.stat().st_size for path in SUITE.rglob("*") if path.is_file()) < 1_000_000


def test_the_documentation_shows_the_shipped_values() -> None:
    """``python scripts/make_hetbench.py docs --suite hetbench-v2`` writes them."""
    document = json.loads((SCRIPTS.parent / "docs/results/data/hetbench-v2.json").read_text("utf-8"))
    table = next(table for table in document["tables"] if table["name"] == "makespans")
    rows = [dict(zip(table["columns"], cells, strict=True)) for cells in table["rows"]]
    assert [row["problem"] for row in rows] == list(KNOWN)
    for row, known in zip(rows, KNOWN.values(), strict=True):
        for runtime in RUNTIMES:
            assert row[f"{runtime} [ms]"] == f"{1e3 * known.best[runtime].makespan_s:.6g}"


@pytest.mark.parametrize("name", KNOWN)
def test_every_best_known_makespan_is_that_of_its_schedule(name: str) -> None:
    problem, row = load(name), KNOWN[name]
    assert problem.name == name and problem.digest == row.digest
    for runtime in RUNTIMES:
        schedule, best = SCHEDULES[name, runtime], row.best[runtime]
        validate(problem, schedule)
        assert simulate(problem, schedule, runtime).makespan == best.makespan_s
        baselines.get(best.scheduler.removesuffix(" on walks"), **best.options)
        assert lower_bound(problem, runtime=runtime) <= best.makespan_s * (1 + PROVED)
        assert row.bound(runtime) <= best.makespan_s
    assert row.best["classic"].makespan_s <= row.best["links"].makespan_s


def test_nothing_is_longer_than_what_the_first_suite_knew() -> None:
    for name, row in BEFORE.items():
        for runtime, best in row.best.items():
            assert KNOWN[name].best[runtime].makespan_s <= best.makespan_s
        assert KNOWN[name].bound("classic") >= row.bound_s * (1 - PROVED)


def test_new_problems_leave_room_on_devices_with_several_streams() -> None:
    shared = [name for name in NEW if (load(name).occupancy < 1).any()]
    assert len(shared) == 15
    gained = [name for name in shared if KNOWN[name].best["framework"].makespan_s < KNOWN[name].bound("links")]
    assert gained  # small operators run beside each other, as no plan with one stream can let them


@pytest.mark.slow
def test_a_search_reaches_its_makespan_again() -> None:
    found = [
        (load(name).num_operators, name)
        for name, row in KNOWN.items()
        if row.best["links"].options.get("runtime") == "links"
    ]
    problem = load(min(found)[1])
    best = KNOWN[problem.name].best["links"]
    assert baselines.get(best.scheduler, **best.options)(problem).makespan == best.makespan_s


@pytest.mark.parametrize("name", ["job-shop-15x6-transport", "flexible-job-shop-15x8"])
def test_the_script_rebuilds_the_frozen_files_bit_for_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that no fitted model prices: the others are frozen with the prices of their day."""
    spec = importlib.util.spec_from_file_location("hetbench_problems", SCRIPTS / "hetbench_problems.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "hetbench_problems", module)
    spec.loader.exec_module(module)
    assert list(module.definitions("hetbench-v2")) == NEW
    rebuilt, frozen = module.definitions("hetbench-v2")[name](), load(name)
    assert rebuilt.digest == frozen.digest and rebuilt.operator_names == frozen.operator_names
