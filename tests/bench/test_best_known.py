"""The benchmark's use of best-known makespans and proved bounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetgym import baselines
from hetgym.baselines import lower_bound
from hetgym.bench.folder import RunFolder
from hetgym.bench.job import Job, execute
from hetgym.bench.rows import Row
from hetgym.bench.runner import run
from hetgym.bench.summary import records, summarise
from hetgym.workloads import Best, BestKnown, ProblemSpec, textbook

PROBLEM = textbook("topcuoglu")  # HEFT 80, CPOP 86, optimum 73


def known(makespan: float, bound: float = 73.0, runtime: str = "classic") -> ProblemSpec:
    row = BestKnown(PROBLEM.digest, bound, "CP-SAT", {runtime: Best(makespan, "cp-sat")})
    return replace(ProblemSpec.textbook("topcuoglu"), known=row)


def rows(spec: ProblemSpec, *runtimes: str) -> dict[tuple[str, str], Row]:
    result = run([spec], ["heft", "cpop"], runtimes or ("classic",))
    return {(row.scheduler, row.runtime): row for row in result.rows}


def test_gaps_are_to_the_best_known_makespan_and_to_the_proved_bound() -> None:
    found = rows(known(73.0))
    assert found["heft", "classic"].gap_to_best == pytest.approx(80 / 73 - 1)
    assert found["cpop", "classic"].gap_to_best == pytest.approx(86 / 73 - 1)
    assert found["heft", "classic"].gap_to_bound == pytest.approx(80 / 73 - 1)
    assert (found["heft", "classic"].best_known_s, found["heft", "classic"].lower_bound_s) == (73.0, 73.0)


def test_nobody_wins_where_something_better_is_known() -> None:
    lines = summarise(rows(known(73.0)).values())
    assert [(line.scheduler, line.wins) for line in lines] == [("heft", 0), ("cpop", 0)]
    assert not records(rows(known(73.0)).values())


def test_a_run_that_beats_the_best_known_is_the_best_itself() -> None:
    found = rows(known(85.0, bound=60.0))
    assert found["heft", "classic"].gap_to_best == 0.0
    assert found["cpop", "classic"].gap_to_best == pytest.approx(86 / 80 - 1)
    assert [row.scheduler for row in records(found.values())] == ["heft"]


def test_of_several_that_beat_the_best_known_the_shortest_counts() -> None:
    assert [row.scheduler for row in records(reversed(list(rows(known(90.0)).values())))] == ["heft"]


def test_reaching_the_best_known_makespan_is_no_record() -> None:
    assert not records(rows(known(80.0)).values())
    assert not records(rows(ProblemSpec.textbook("topcuoglu")).values())


def test_values_hold_for_their_runtime_only() -> None:
    found = rows(known(73.0), "classic", "links")
    assert found["heft", "links"].best_known_s is None
    assert found["heft", "links"].lower_bound_s == lower_bound(PROBLEM) < 73.0
    assert min(found[scheduler, "links"].gap_to_best or 0.0 for scheduler in ("heft", "cpop")) == 0.0


def test_a_looser_bound_than_the_quick_ones_changes_nothing() -> None:
    assert rows(known(73.0, bound=1.0))["heft", "classic"].lower_bound_s == lower_bound(PROBLEM)


def test_values_of_another_problem_make_failed_rows() -> None:
    spec = replace(ProblemSpec.textbook("arabnejad-barbosa"), known=known(73.0).known)
    assert {row.status for row in rows(spec).values()} == {
        "arabnejad-barbosa: the best-known values belong to another problem of this name"
    }


def test_an_optimum_that_the_run_proves_is_the_bound_of_all() -> None:
    pytest.importorskip("ortools")
    solver = baselines.get("cp-sat", seconds=60.0)
    result = run([ProblemSpec.textbook("topcuoglu")], ["heft", solver, "cpop"], ("classic", "links", "framework"))
    found = {(row.scheduler, row.runtime): row for row in result.rows}
    assert lower_bound(PROBLEM) < 72.9  # what was known before
    for name, makespan in (("heft", 80.0), ("cp-sat", 73.0), ("cpop", 86.0)):
        row = found[name, "classic"]
        assert row.lower_bound_s == pytest.approx(73.0)
        assert row.gap_to_bound == pytest.approx(makespan / 73 - 1, abs=1e-9)
        assert found[name, "links"].lower_bound_s == pytest.approx(73.0)  # where transfers only wait longer
        assert found[name, "framework"].lower_bound_s == lower_bound(PROBLEM, runtime="framework")  # streams share


def test_a_proof_reaches_files_and_report(tmp_path: Path) -> None:
    pytest.importorskip("ortools")
    solver = baselines.get("cp-sat", seconds=60.0)
    job = Job("test", (ProblemSpec.textbook("topcuoglu"),), (baselines.get("heft"), solver), ("classic",))
    outcome = execute(job, RunFolder(tmp_path, "run"))
    assert {row["lower_bound_s"] for row in outcome.document["rows"]} == {73.0}
    assert [line.gap_to_bound for line in outcome.summary] == pytest.approx([0.0, 80 / 73 - 1])
    assert '"bound":73000' in outcome.files["report"].read_text()  # quanta of a millisecond


def test_a_solver_that_is_bound_by_memory_proves_nothing_for_others() -> None:
    pytest.importorskip("ortools")
    assert baselines.get("cp-sat", memory=True)(PROBLEM).lower_bound is None


def test_the_larger_bound_counts_and_proves_up_to_rounding() -> None:
    nearly = Best(3.0 * (1 + 9e-7), "x", bound_s=3.0)
    best = {"classic": Best(2.0, "x"), "links": nearly, "fair": Best(3.1, "x", bound_s=1.0)}
    known = BestKnown("", 2.0, "y", best)
    assert [known.bound(name) for name in best] == [2.0, 3.0, 2.0]
    assert [known.optimal(name) for name in best] == [True, True, False]
