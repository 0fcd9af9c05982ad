"""The script that tries small wrong changes, and that its list names texts and tests that exist."""

from __future__ import annotations

import ast
import functools
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from mutants import Mutant, MutantsError, judge, read_list  # noqa: E402

LIST = read_list(ROOT / "tests" / "mutants.yaml")


def test_the_list_is_of_this_checkout() -> None:
    for mutant in LIST:
        assert (ROOT / mutant.file).read_text("utf-8").count(mutant.text) == 1, mutant.title
        for test in mutant.tests:
            file, _, name = test.partition("::")
            assert re.search(rf"^ *def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE) or not name, test
    assert len({(mutant.file, mutant.text, mutant.instead) for mutant in LIST}) == len(LIST)


def marks_of(node: ast.FunctionDef | ast.Module) -> list[str]:
    """Marks of a test, or those of all tests of a module; marks of single parameters are not among them."""
    if isinstance(node, ast.FunctionDef):
        return [ast.unparse(mark) for mark in node.decorator_list]
    named = (statement for statement in node.body if isinstance(statement, ast.Assign))
    return [ast.unparse(s.value) for s in named if ast.unparse(s.targets[0]) == "pytestmark"]


@functools.cache
def parsed(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text("utf-8"))


def test_no_test_that_must_notice_is_slow() -> None:
    for test in sorted({test for mutant in LIST for test in mutant.tests}):
        file, _, name = test.partition("::")
        tree = parsed(file)
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
        for node in (tree, *nodes):
            assert not any("mark.slow" in mark and "parametrize" not in mark for mark in marks_of(node)), test


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "unchanged"
    folder.mkdir()
    (folder / "double.py").write_text("def double(x):\n    return 2 * x\n")
    (folder / "test_double.py").write_text("from double import double\n\n\ndef test():\n    assert double(2) == 4\n")
    return folder


def change(text: str, instead: str, limit: float | None = None) -> Mutant:
    return Mutant("double.py", text, instead, ("test_double.py",), limit)


def test_a_change_is_noticed_or_missed_and_its_file_left_alone(checkout: Path, tmp_path: Path) -> None:
    noticed, reason = judge(change("2 * x", "3 * x"), checkout, tmp_path)
    assert noticed and reason.startswith("FAILED test_double.py::test")
    assert judge(change("2 * x", "x * x"), checkout, tmp_path) == (False, "all tests passed")
    endless = change("return 2 * x", "return double(x) if x else __import__('time').sleep(9)", 0.1)
    assert judge(endless, checkout, tmp_path) == (True, "stopped at the limit")
    assert (checkout / "double.py").read_text() == "def double(x):\n    return 2 * x\n"
    assert not (tmp_path / "changed").exists()


def test_changes_that_cannot_be_made_are_named(checkout: Path, tmp_path: Path) -> None:
    for text, words in (("4 * x", "occurs 0 times"), ("x", "occurs 2 times")):
        with pytest.raises(MutantsError, match=f"double.py: {re.escape(text)}: the text {words}"):
            judge(change(text, "y"), checkout, tmp_path)
    with pytest.raises(MutantsError, match=r"gone.py: .* the file cannot be read"):
        judge(Mutant("gone.py", "x", "y", ("test_double.py",)), checkout, tmp_path)
    with pytest.raises(MutantsError, match="pytest ended with code 4"):
        judge(Mutant("double.py", "2", "3", ("test_triple.py",)), checkout, tmp_path)


@pytest.mark.parametrize(
    "entry",
    ["{file: a}", "{file: a, text: b, instead: b, tests: [c]}", "{file: a, text: b, instead: c, tests: []}", "[]"],
)
def test_entries_that_are_no_changes(tmp_path: Path, entry: str) -> None:
    (tmp_path / "list.yaml").write_text(f"- {entry}\n")
    with pytest.raises(MutantsError, match="entry 0"):
        read_list(tmp_path / "list.yaml")
