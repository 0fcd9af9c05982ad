"""Files of sharding problems: what is written is read again, and each mistake is one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from sharding_tools import EXAMPLE, problems

from hetgym.errors import ProblemError
from hetgym.sharding import ShardingProblem, load, save
from tests.sharding.documents import document

ARRAYS = ("offsets", "costs", "usages", "intervals", "ends", "tables", "table_offsets")


@given(problem=problems())
def test_what_is_saved_is_read(problem: ShardingProblem, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in ("one.json", "two.json.gz"):
        path = tmp_path_factory.mktemp("sharding") / name
        save(problem, path)
        again = load(path)
        assert (again.name, again.limit, again.unit) == (problem.name, problem.limit, problem.unit)
        for array in ARRAYS:
            assert np.array_equal(getattr(again, array), getattr(problem, array)), array


def test_units_are_kept(tmp_path: Path) -> None:
    save(ShardingProblem.from_lists([[1]], [[1]], [[0, 1]], unit="ns"), tmp_path / "a.json")
    assert load(tmp_path / "a.json").unit == "ns"


MISTAKES: dict[str, tuple[str, Any, str]] = {
    "a negative cost": ("nodes.costs.1.0", -1, r"nodes: costs\[1\] holds -1, not a whole number"),
    "a fraction": ("nodes.usages.2.1", 1.5, r"nodes: usages\[2\] holds 1.5, not a whole number"),
    "true": ("edges.costs.0.0", True, r"edges: costs\[0\] holds True"),
    "a huge number": ("nodes.costs.0.0", 2**63, r"nodes: costs\[0\] holds"),
    "text": ("nodes.costs.0.0", "1", r"nodes: costs\[0\] holds '1'"),
    "a reversed interval": ("nodes.intervals.3", [5, 4], r"node 3: its interval \[5, 4\] ends before it begins"),
    "an interval of three": ("nodes.intervals.3", [5, 6, 7], r"nodes: intervals\[3\] has 3 numbers, expected 2"),
    "a ragged table": ("edges.costs.2", [1, 2, 3], r"edge 2: its table has 3 entries, expected 4"),
    "two ragged tables": ("edges.costs", [[30], [50, 10, 40, 1], [90, 10, 20, 80], [60, 20, 30], [70, 60]],
                          "edge 0: its table has 1 entries, expected 2"),
    "an index out of range": ("edges.nodes.1", [0, 5], r"edge 1 joins nodes \[0, 5\] of 5"),
    "a loop": ("edges.nodes.1", [2, 2], "edge 1 joins node 2 to itself"),
    "no strategies": ("nodes.costs.0", [], "node 0 has 0 costs and 1 usages"),
    "other numbers of rows": ("nodes.costs", [[1]], "5 intervals and 1 costs"),
    "no edges": ("edges", None, "not a sharding problem"),
    "edges that are a list": ("edges", [], "'edges' is a list, not an object"),
    "a row that is none": ("nodes.costs.1", 5, r"nodes: costs\[1\] is a number, not a list"),
    "a limit that is none": ("usage_limit", -3, "'usage_limit' is -3"),
    "a name that is none": ("name", 5, "'name' is a number"),
    "a unit that is none": ("unit", "hours", "'unit' is 'hours'"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str, tmp_path: Path) -> None:
    path, value, said = MISTAKES[mistake]
    whole = document()
    at: Any = whole["problem"]
    *parents, last = path.split(".")
    for key in parents:
        at = at[int(key) if isinstance(at, list) else key]
    at[int(last) if isinstance(at, list) else last] = value
    file = tmp_path / "wrong.json"
    file.write_text(json.dumps(whole))
    with pytest.raises(ProblemError, match=said):
        load(file)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"problem": 1}', '{"problem": {"nodes": NaN}}', "[" * 5000])
def test_files_of_another_form(text: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(text)
    with pytest.raises(ProblemError):
        load(file)


def test_the_example_is_read(tmp_path: Path) -> None:
    file = tmp_path / "example.json"
    file.write_text(json.dumps(document()))
    assert np.array_equal(load(file).tables, EXAMPLE.tables)
