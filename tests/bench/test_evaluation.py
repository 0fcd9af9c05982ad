"""``hetgym bench --pareto --against --by`` as a library call: documents, files and the picture."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from hetgym import baselines
from hetgym.bench.evaluation import Evaluation, Pareto
from hetgym.bench.folder import RunFolder
from hetgym.bench.job import Job, Outcome, execute
from hetgym.bench.pareto_files import COLUMNS
from hetgym.bench.pareto_picture import draw, spread
from hetgym.errors import ConfigError, UnknownName
from hetgym.workloads import ProblemSpec

SPECS = (ProblemSpec.textbook("topcuoglu"), ProblemSpec.textbook("arabnejad-barbosa"))


def job(names: str, evaluation: Evaluation, specs: tuple[ProblemSpec, ...] = SPECS) -> Job:
    return Job("a test", specs, tuple(map(baselines.get, names.split(","))), ("classic",), (), evaluation)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    asked = Evaluation("cpop", ("family",), True, (0.001, 0.002))
    folder = RunFolder(tmp_path_factory.mktemp("evaluation"), "run", traces="none")
    return execute(job("heft,cpop,lns", asked), folder)


def pareto(outcome: Outcome) -> Pareto:
    assert outcome.findings.pareto is not None
    return outcome.findings.pareto


def test_documents_say_what_was_compared_grouped_and_measured(outcome: Outcome) -> None:
    document = json.loads(outcome.files["results"].read_text())
    assert document["reference"] == "cpop"
    assert [line["scheduler"] for line in document["against"]] == ["heft", "lns"]
    heft, cpop = ([r.makespan_s or 0.0 for r in outcome.result.rows if r.scheduler == s] for s in ("heft", "cpop"))
    assert document["against"][0]["ratio"] == pytest.approx((heft[0] / cpop[0] * heft[1] / cpop[1]) ** 0.5)
    assert list(document["groups"]) == ["family"]  # all else is the same for both problems, and was not asked for
    assert document["pareto"]["budgets"] == [0.001, 0.002]
    assert {point["scheduler"] for point in document["pareto"]["points"]} == {"heft", "cpop", "lns"}
    assert document["pareto"]["fronts"]["classic"][0]["scheduler"] in ("heft", "cpop")
    assert all(choice["best"]["gap"] >= 0 for choice in document["pareto"]["choices"]["classic"])
    assert outcome.exit_code == 0


def test_files_hold_every_row(outcome: Outcome) -> None:
    folder = outcome.files["pareto"].parent
    with (folder / "pareto.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert tuple(found[0]) == COLUMNS and len(found) == 2 * (2 + 2)
    document = json.loads(outcome.files["pareto"].read_text())
    assert document["columns"] == list(COLUMNS) and len(document["rows"]) == len(found)
    assert [float(row["makespan_s"]) for row in found] == [row.makespan_s for row in pareto(outcome).measurement.rows]


def test_gaps_are_to_the_best_of_run_and_measurement(outcome: Outcome) -> None:
    best = min(row.makespan_s or 0.0 for row in outcome.result.rows if row.problem == "topcuoglu")
    for row in pareto(outcome).measurement.rows:
        if row.problem == "topcuoglu":
            assert row.gap == pytest.approx((row.makespan_s or 0.0) / best - 1)


def test_the_picture_is_drawn_where_matplotlib_is_installed(outcome: Outcome) -> None:
    pytest.importorskip("matplotlib")
    for suffix in ("png", "svg"):
        assert outcome.files["pareto"].with_suffix(f".{suffix}").stat().st_size > 5_000
    found = pareto(outcome)
    figure = draw(found.points, found.fronts["classic"], "classic", "a $title$ _")
    words = {text.get_text() for text in figure.axes[0].texts}
    assert words == {"lns", "heft", "cpop"}


def test_names_in_the_margin_keep_apart() -> None:
    placed = spread([0.1, 0.1, 0.11, 0.9], 0.05)
    assert placed == pytest.approx([0.1, 0.15, 0.2, 0.9])
    assert spread([], 0.1) == []


def test_bad_input_is_refused_before_anything_runs() -> None:
    with pytest.raises(UnknownName, match="did you mean 'heft'"):
        job("heft,cpop", Evaluation("hefft"))
    with pytest.raises(ConfigError, match="more than the limit of 1 s"):
        job("lns", Evaluation(pareto=True, budgets=(10.0,), time_limit=1.0))


def test_without_heft_and_without_asking_nothing_is_compared(tmp_path: Path) -> None:
    document = execute(job("cpop", Evaluation(), SPECS[:1]), RunFolder(tmp_path, "run", traces="none")).document
    assert (document["reference"], document["against"], document["groups"]) == ("", [], {})
    assert "pareto" not in document
