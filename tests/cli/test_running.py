"""Messages in the terminal before and after a job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetgym import Problem, Schedule, baselines
from hetgym.bench.evaluation import Evaluation
from hetgym.bench.folder import RunFolder
from hetgym.bench.job import Job, execute
from hetgym.cli.running import announce, print_evaluation, print_tables
from hetgym.errors import ProblemError
from hetgym.planning import Baseline
from hetgym.workloads import Best, BestKnown, ProblemSpec, textbook

SPECS = (ProblemSpec.textbook("topcuoglu"), ProblemSpec.textbook("arabnejad-barbosa"))


def job(names: str, evaluation: Evaluation) -> Job:
    return Job("a test", SPECS, tuple(map(baselines.get, names.split(","))), ("classic",), (), evaluation)


def test_quality_against_time_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    announce(job("heft,lns", Evaluation(pareto=True, budgets=(0.001, 1.0, 60.0), time_limit=10.0)))
    told = " ".join(capsys.readouterr().err.split())
    assert "2 budgets from 1 ms to 1 s, after the run itself, at most 2 s" in told
    assert "left out: 60 s; with them at most 2 min 2 s" in told
    announce(job("heft", Evaluation(pareto=True)))
    assert "all are points" in capsys.readouterr().err
    announce(job("heft", Evaluation()))
    assert capsys.readouterr().err == ""


def test_tables_that_were_asked_for_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = job("heft,cpop,lns", Evaluation("cpop", ("family",), True, (0.001, 0.002)))
    print_evaluation(asked, execute(asked, RunFolder(tmp_path, "run", traces="none")))
    shown = capsys.readouterr().out
    assert "makespan over cpop" in shown and "textbook" in shown and "what is best within a time" in shown
    assert "…" not in shown


def test_schedulers_without_a_rank_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("scipy")

    def fails(problem: Problem) -> Schedule:
        raise ProblemError("no")

    broken = Baseline("broken", "search", fails, "a test", "O(1)")
    table = (*map(baselines.get, ("heft", "peft")), broken)
    asked = Job("a test", SPECS, table, ("classic",), (), Evaluation(plots=True))
    print_evaluation(asked, execute(asked, RunFolder(tmp_path, "run", traces="none")))
    told = " ".join(capsys.readouterr().out.split())
    assert "for 2 schedulers on 2 problems" in told and told.endswith("without broken, which failed")


@pytest.mark.parametrize(("makespan", "told"), [(85.0, True), (73.0, False)])
def test_records_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], makespan: float, told: bool) -> None:
    known = BestKnown(textbook("topcuoglu").digest, 60.0, "CP-SAT", {"classic": Best(makespan, "cp-sat")})
    one = Job("test", (replace(SPECS[0], known=known),), (baselines.get("heft"),), ("classic",))
    outcome = execute(one, RunFolder(tmp_path, "run"))
    print_tables(one, outcome)
    expected = "new best: heft takes 80 s on topcuoglu under classic, 5.88 % less than the best known 85 s"
    assert (expected in capsys.readouterr().out) == told
    assert bool(outcome.document["records"]) == told
