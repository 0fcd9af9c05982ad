"""Sums of floats: the same under every version of Python."""

from __future__ import annotations

import ast
from pathlib import Path

from hetgym._sums import summed

ROOT = Path(__file__).parents[1]
FILES = [path for room in ("hetgym", "agents", "baselines") for path in sorted((ROOT / room).rglob("*.py"))]
ARRAYS = {"baselines/exact.py", "baselines/pipeline/exact.py", "hetgym/costs/gpu/work.py"} | {
    "hetgym/costs/learned_models/polynomial.py"
}
"""Files that add up arrays or expressions of OR-Tools, which the builtin does not compensate."""


def counts(call: ast.Call) -> bool:
    """True if a call of the builtin evidently adds whole numbers: it counts what holds, lengths or bits."""
    given = call.args[0]
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Name) and given.func.id == "map":
        return isinstance(given.args[0], ast.Name) and given.args[0].id == "len"
    item = given.elt if isinstance(given, ast.GeneratorExp | ast.ListComp) else given
    if isinstance(item, ast.Call):
        return (isinstance(item.func, ast.Name) and item.func.id in ("len", "int")) or (
            isinstance(item.func, ast.Attribute) and item.func.attr in ("endswith", "startswith")
        )
    return (
        isinstance(item, ast.Compare | ast.BoolOp)
        or (isinstance(item, ast.UnaryOp) and isinstance(item.op, ast.Not))
        or (isinstance(item, ast.Constant) and isinstance(item.value, int))
        or (isinstance(item, ast.BinOp) and isinstance(item.op, ast.LShift | ast.BitAnd))
    )


def sums(text: str) -> list[ast.Call]:
    """Calls of the builtin that do not evidently count."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "sum" and not counts(call)]


def test_floats_are_added_by_summed() -> None:
    places = {str(path.relative_to(ROOT)): [c.lineno for c in sums(path.read_text("utf-8"))] for path in FILES}
    wrong = {name: lines for name, lines in places.items() if lines and name not in ARRAYS}
    assert not wrong, f"hetgym._sums.summed adds floats the same everywhere; lines {wrong}"


def test_what_the_rule_finds() -> None:
    assert len(sums("sum(x.seconds for x in y); sum(times); sum(a.size for a in b)")) == 3
    assert not sums("sum(x > 0 for x in y); sum(map(len, y)); sum(len(x) for x in y); sum(1 for _ in y)")


def test_the_order_is_from_left_to_right() -> None:
    assert summed([1.0, 1e100, 1.0, -1e100]) == 0.0  # the builtin of Python 3.12 gives 2.0
    assert (summed([]), summed(iter([2, 3]))) == (0, 5) and type(summed([1, 2])) is int
