"""Figures on pages come from results, and pages are written as a manual."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import prose  # noqa: E402
import results  # noqa: E402


def test_marked_places_show_the_results() -> None:
    """``python docs/results.py --write`` fills them in."""
    changed = [
        path.name for path in results.pages() if results.filled(path.read_text("utf-8")) != path.read_text("utf-8")
    ]
    assert changed == []


@pytest.mark.parametrize("name", results.names())
def test_results_are_whole(name: str) -> None:
    found = results.load(name)
    assert found.title and found.command and found.machine and len(found.date) == 10 and found.tables
    assert all((ROOT / source).exists() for source in found.sources)
    assert len({table.name for table in found.tables}) == len(found.tables)
    for table in found.tables:
        assert all(len(cells) == len(table.columns) for cells in table.rows)
    assert f"# {found.title}" in results.page(name)


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A result ``speed`` that depends on a file."""
    table = {"name": "all", "title": "All", "columns": ["what", "time"], "rows": [["heft", "1.5 ms"], ["peft", "2 ms"]]}
    source = tmp_path / "code.py"
    source.write_text("x = 1\n")
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "DATA", tmp_path)
    monkeypatch.setattr(results, "load", results.load.__wrapped__)
    monkeypatch.setattr(results, "_digest", results._digest.__wrapped__)
    fields = {"title": "Speed", "date": "2026-01-31", "machine": "a test", "command": "time it", "tables": [table]}
    fields |= {"sources": ["code.py"], "digest": results.digest_of(["code.py"])}
    (tmp_path / "speed.json").write_text(json.dumps(fields))
    return source


def test_a_marked_place_shows_a_cell_or_a_table(measured: Path) -> None:
    text = "takes <!--= speed/all/heft/time -->?<!--/-->.\n\n<!--= speed/all rows=peft columns=time -->\n<!--/-->\n"
    filled = results.filled(text)
    assert filled.startswith("takes <!--= speed/all/heft/time -->1.5 ms<!--/-->.")
    assert "| time |\n| --: |\n| 2 ms |\n<!--/-->" in filled and results.filled(filled) == filled
    for wrong in ("speed/all/cpop/time", "speed/all/heft/size", "speed/none/heft/time", "slow/all/heft/time", "speed"):
        with pytest.raises(results.ResultError):
            results.filled(f"<!--= {wrong} --><!--/-->")


def test_a_result_is_older_than_the_code_once_a_source_changes(measured: Path) -> None:
    assert results.load("speed").is_current and "current" in results.overview()
    measured.write_text('"""A comment changes no figure."""\n\n# nor this\nx = 1\n')
    assert results.load("speed").is_current
    measured.write_text("x = 2\n")
    assert not results.load("speed").is_current and "older than the code" in results.page("speed")


def test_a_page_of_the_site_ends_in_the_results_that_it_quotes(measured: Path) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="how-to/page.md"))
    text = "Takes <!--= speed/all/heft/time -->?<!--/-->.\n"
    shown = results.on_page_markdown(text, page=page)
    assert shown.startswith("Takes 1.5 ms.") and "[Speed](../results/speed.md), 2026-01-31, current." in shown
    measured.write_text("x = 2\n")
    assert "2026-01-31, older than the code." in results.on_page_markdown(text, page=page)
    assert results.on_page_markdown("No figure.\n", page=page) == "No figure.\n"


def test_a_table_that_is_measured_again_keeps_its_fixed_rows(measured: Path) -> None:
    path = measured.with_name("speed.json")
    known = json.loads(path.read_text())
    other = {**known["tables"][0], "name": "other"}
    table = {**known["tables"][0], "note": "On one core.", "fixed": ["HEFT of others"]}
    table["rows"] = [["heft", "1.5 ms"], ["HEFT of others", "9 ms"], ["gone", "3 ms"]]
    path.write_text(json.dumps({**known, "tables": [table, other]}))
    again = {"name": "all", "title": "?", "columns": ["what", "time"], "rows": [["cpop", "4 ms"], ["heft", "1 ms"]]}
    script = measured.with_name("script.py")
    script.write_text(
        f"import pathlib, sys\npathlib.Path(sys.argv[-1]).write_text({json.dumps({'tables': [again]})!r})\n"
    )
    results.record("speed", ["python", str(script)])
    found = results.load("speed")
    assert found.table("all").rows == [["heft", "1 ms"], ["HEFT of others", "9 ms"], ["cpop", "4 ms"]]
    assert found.table("all").note == "On one core." and found.table("all").title == "All"
    assert (found.table("other").date, found.table("other").command) == ("2026-01-31", "time it")
    assert found.command == "python DIR/script.py"
    assert found.is_current and "*Of 2026-01-31, `time it`; current.*" in results.page("speed")
    measured.write_text("x = 3\n")
    results.record("speed", ["python", str(script)])
    assert results.load("speed").state() == "in part older than the code"  # one table is of the code before
    assert results.load("speed").state("all") == "current"


def test_figures_without_a_result_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "HEFT is 5 % longer.\nIt takes `3 ms`, and <!--= a/b/c/d -->4 ms<!--/--> there.\n```\n7 s\n```\n"
        "| heft | 1.2 | 3 |\nWe aim at that.\nItem 2x2, 12 operators, see [1 s](a).\n"
    )
    found = [complaint.split(": ", 1)[1] for complaint in prose.complaints(page)]
    assert found == [
        "'5 %' comes from no result",
        "a row of numbers outside a marked place",
        "'We aim' is about the project itself",
        "'1 s' comes from no result",
    ]


@pytest.mark.parametrize("path", results.pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_quote_results_only_and_do_not_speak_of_the_project(path: Path) -> None:
    assert list(prose.complaints(path)) == []


def test_the_manual_stays_short() -> None:
    counts = {path: prose.words(path.read_text("utf-8")) for path in results.pages()}
    assert counts[ROOT / "README.md"] <= prose.README_LIMIT
    assert sum(count for path, count in counts.items() if "docs" in path.relative_to(ROOT).parts) <= prose.LIMIT


def test_allowed_figures_are_still_there() -> None:
    """An entry that allows nothing is taken out of docs/results/allowed.yaml."""
    for page, reasons in prose.allowed().items():
        text = "" if page == "everywhere" else prose.prose((ROOT / page).read_text("utf-8"))
        assert all(reasons.values()) and all(figure in text for figure in reasons if text), page
