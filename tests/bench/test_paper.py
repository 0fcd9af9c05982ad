from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from hetgym import baselines, bench
from hetgym.bench.evaluation import Evaluation
from hetgym.bench.folder import RunFolder
from hetgym.bench.job import Job, execute
from hetgym.bench.paper_pictures import draw_boxes, draw_profiles, draw_ranks
from hetgym.bench.pareto_picture import save
from hetgym.bench.profiles import Profile, profile, profiles, widest
from hetgym.bench.ranks import Ranking
from hetgym.bench.rows import Row
from hetgym.bench.typeset import Column, PaperTable
from hetgym.errors import ConfigError, MissingExtra
from hetgym.workloads import ProblemSpec

SPECS = (ProblemSpec.textbook("topcuoglu"), ProblemSpec.textbook("arabnejad-barbosa"))


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_profile_by_hand() -> None:
    """Dolan and Moré: three solvers on four problems, times 1 2 4 8, 2 2 2 fail, 1 4 8 4."""
    best = np.array([1.0, 2.0, 2.0, 4.0])
    times = {"a": [1.0, 2.0, 4.0, 8.0], "b": [2.0, 2.0, 2.0, None], "c": [1.0, 4.0, 8.0, 4.0]}
    gaps = {
        name: [None if t is None else t / b - 1 for t, b in zip(ts, best, strict=True)] for name, ts in times.items()
    }
    status = ("ok", "failed")
    rows = [
        Row(
            str(k),
            "g",
            "p",
            2,
            1,
            2,
            name,
            "list",
            "links",
            times[name][k],
            gap_to_best=gap,
            status=status[gap is None],
        )
        for name, column in gaps.items()
        for k, gap in enumerate(column)
    ]
    a, b, c = profiles(rows)
    assert [p.at(1.0) for p in (a, b, c)] == [0.5, 0.5, 0.5]
    assert [p.at(1.99) for p in (a, b, c)] == [0.5, 0.5, 0.5]
    assert [p.at(2.0) for p in (a, b, c)] == [1.0, 0.75, 0.75]
    assert [p.at(4.0) for p in (a, b, c)] == [1.0, 0.75, 1.0]
    assert (a.factors, a.shares) == ((1.0, 2.0), (0.5, 1.0))
    assert a.at(0.5) == 0.0 and profile([None]) == ((), ())
    assert widest([a]) == pytest.approx(2.15) and widest([b]) == 4.0


def test_profiles_tie_up_to_rounding() -> None:
    assert profile([1.0, 1 + 5e-10, 1 + 5e-9]) == ((1.0, 1 + 5e-9), (2 / 3, 1.0))


def test_what_prints_alike_is_bold_alike_unless_it_is_alone() -> None:
    columns = (Column("name", "name"), Column("time", "time", lambda x: f"{x:.1f}", min))

    def cells(*times: float | None) -> list[str]:
        made = PaperTable("t", "A table.", columns, [{"name": f"n{k}", "time": x} for k, x in enumerate(times)])
        return [line.split(" & ")[1].removesuffix(r" \\") for line in made.to_latex().splitlines() if " & " in line][1:]

    assert cells(1.04, 2.0, 0.96, None) == [r"\textbf{1.0}", "2.0", r"\textbf{1.0}", "--"]
    assert cells(1.04, None) == ["1.0", "--"]


def test_to_pandas_has_the_rows() -> None:
    pandas = pytest.importorskip("pandas")
    result = bench.run(SPECS, ["heft", "peft"], ["classic"])
    table = result.to_pandas()
    assert list(table.columns) == list(bench.Row.__dataclass_fields__) and len(table) == 4
    assert table.set_index(["problem", "scheduler"]).loc[("topcuoglu", "heft"), "makespan_s"] == 80.0
    assert table["best_known_s"].dtype == np.float64 and table["best_known_s"].isna().all()
    assert table["n"].dtype == np.int64 and isinstance(table, pandas.DataFrame)


def test_without_its_extra_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "scipy", None)
    with pytest.raises(MissingExtra, match=r"hetgym\[papers\]"):
        Job("test", SPECS, (baselines.get("heft"),), evaluation=Evaluation(plots=True))


def test_a_table_as_csv_and_latex() -> None:
    table = PaperTable(
        "summary",
        "50 % of a_b & c",
        (Column("name", "name"), Column("gap", "gap [%]", lambda x: f"{x:.1f}", min)),
        [
            {"name": "x_1", "gap": 0.251},
            {"name": "y", "gap": None},
            {"name": "z", "gap": 0.249},
            {"name": "w", "gap": 3.0},
        ],
    )
    assert list(csv.reader(io.StringIO(table.to_csv()))) == [
        ["name", "gap"], ["x_1", "0.251"], ["y", ""], ["z", "0.249"], ["w", "3.0"],
    ]  # fmt: skip
    lines = [line.strip() for line in table.to_latex().splitlines()]
    assert r"\caption{50 \% of a\_b \& c}" in lines and r"name & gap [\%] \\" in lines
    assert r"\begin{tabular}{lr}" in lines
    assert {r"x\_1 & 0.3 \\", r"y & -- \\", r"z & \textbf{0.2} \\", r"w & 3.0 \\"} <= set(lines)


@pytest.mark.slow
def test_a_run_writes_every_table_and_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib"), pytest.importorskip("scipy")
    schedulers = tuple(baselines.get(name) for name in ("heft", "peft", "cpop"))
    job = Job("textbook", SPECS, schedulers, ("links",), (), Evaluation(plots=True))
    folder = RunFolder(tmp_path, "run")
    outcome = execute(job, folder)
    paper = tmp_path / "run" / "paper"
    assert outcome.files["paper"] == paper
    names = {path.name for path in paper.iterdir()}
    for stem in ("profiles", "boxes", "ranks", "schedule"):
        assert {f"{stem}-links.pdf", f"{stem}-links.png"} <= names
    for stem in ("summary", "against-heft", "profiles", "ranks", "pairs"):
        assert {f"{stem}-links.csv", f"{stem}-links.tex"} <= names
    assert all((paper / name).stat().st_size for name in names)
    (found,) = json.loads((tmp_path / "run" / "results.json").read_text())["rankings"]
    printed = table(paper / "ranks-links.csv")
    assert [row["scheduler"] for row in printed] == found["schedulers"]
    summary = table(paper / "summary-links.csv")
    lines = [line for line in outcome.summary if line.runtime == "links"]
    assert [float(row["slr"]) for row in summary] == [line.slr for line in lines]
    pdf = (paper / "profiles-links.pdf").read_bytes()
    assert pdf.startswith(b"%PDF") and b"CreationDate" not in pdf
    (paper / "mine.txt").write_text("kept")
    RunFolder(tmp_path, "run", force=True)
    assert [path.name for path in paper.iterdir()] == ["mine.txt"]


def test_pictures_show_what_they_are_given() -> None:
    pytest.importorskip("matplotlib")
    found = [Profile("links", "$a_1$", (1.0, 1.5), (0.5, 1.0)), Profile("links", "b", (1.1,), (0.75,))]
    (axes,) = draw_profiles(found).axes
    x, y = axes.lines[0].get_data()
    assert [line.get_label() for line in axes.lines] == ["$a_1$", "b"]
    assert list(zip(x, y, strict=True))[:3] == [(1.0, 0.0), (1.0, 0.5), (1.5, 1.0)]
    (axes,) = draw_boxes({"a": [0.0, 0.1, 0.2, 0.3, 9.0], "none": []}).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a"]
    names = tuple(f"s{k}" for k in range(5))
    ranking = Ranking("links", names, (1.0, 1.5, 2.5, 4.0, 5.0), 10, 9.0, 0.01, 1.2, 0.05, ())
    (axes,) = draw_ranks(ranking).axes
    texts = {text.get_text() for text in axes.texts}
    assert {"s0  1.00", "s2  2.50", "5.00  s4", "critical difference 1.20"} <= texts
    bars = [line.get_xdata() for line in axes.lines if line.get_linewidth() == 2.6]
    assert [(round(a + 0.024, 2), round(b - 0.024, 2)) for a, b in bars] == [(1.0, 1.5), (1.5, 2.5), (4.0, 5.0)]


def test_pictures_that_cannot_be_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = [Profile("links", "a", (1.0, 1.5), (0.5, 1.0))]
    ranking = Ranking("links", ("a", "b"), (1.0, 2.0), 10, 9.0, 0.01, 1.2, 0.05, ())
    for file, why in (("none/p.svg", "No such file"), ("p.abc", "abc")):
        for draw in (
            lambda path: draw_profiles(found, path),
            lambda path: draw_boxes({"a": [0.1, 0.2]}, path),
            lambda path: draw_ranks(ranking, path),
            lambda path: save(draw_profiles(found), path),
        ):
            with pytest.raises(ConfigError, match=f"{file}: the picture cannot be written .*{why}"):
                draw(tmp_path / file)
