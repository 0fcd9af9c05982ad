"""What the benchmark makes of best-known makespans and proved bounds."""

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
from hetgym.cli.terminal import print_tables
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


@pytest.mark.parametrize(("makespan", "told"), [(85.0, True), (73.0, False)])
def test_the_terminal_tells_of_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], makespan: float, told: bool
) -> None:
    job = Job("test", (known(makespan, 60.0),), (baselines.get("heft"),), ("classic",))
    outcome = execute(job, RunFolder(tmp_path, "run"))
    print_tables(job, outcome)
    expected = "new best: heft takes 80 s on topcuoglu under classic, 5.88 % less than the best known 85 s"
    assert (expected in capsys.readouterr().out) == told
    assert bool(outcome.document["records"]) == told
