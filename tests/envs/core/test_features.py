"""Columns: numbered in the order of their definition, with one enum for each public table."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import hetgym.envs
from hetgym.envs.cluster.observation import LayerColumn, PoolColumn, StepColumn
from hetgym.envs.core.features import Column, feature_table, features_of
from hetgym.envs.dispatch.observation import DispatchCandidateColumn, DispatchDeviceColumn
from hetgym.envs.improve.observation import MoveColumn, PlanColumn
from hetgym.envs.pipeline.observation import BlockColumn, CutColumn, StageColumn
from hetgym.envs.place.observation import CandidateColumn, DeviceColumn, OperatorColumn
from hetgym.envs.split.observation import SplitCandidateColumn, SplitDeviceColumn, SplitOperatorColumn
from hetgym.graph.transforms import AXES

TABLES = {
    "OPERATOR_FEATURES": OperatorColumn,
    "DEVICE_FEATURES": DeviceColumn,
    "CANDIDATE_FEATURES": CandidateColumn,
    "DISPATCH_DEVICE_FEATURES": DispatchDeviceColumn,
    "DISPATCH_CANDIDATE_FEATURES": DispatchCandidateColumn,
    "SPLIT_OPERATOR_FEATURES": SplitOperatorColumn,
    "SPLIT_DEVICE_FEATURES": SplitDeviceColumn,
    "SPLIT_CANDIDATE_FEATURES": SplitCandidateColumn,
    "BLOCK_FEATURES": BlockColumn,
    "STAGE_FEATURES": StageColumn,
    "CUT_FEATURES": CutColumn,
    "LAYER_FEATURES": LayerColumn,
    "POOL_FEATURES": PoolColumn,
    "STEP_FEATURES": StepColumn,
    "MOVE_FEATURES": MoveColumn,
    "PLAN_FEATURES": PlanColumn,
}
ENVS = Path(hetgym.envs.__file__).parent


def test_columns_are_numbered_in_the_order_in_which_they_are_written() -> None:
    class Example(Column):
        LAST = "s", "written first"
        FIRST = "-", "written second"

    assert [int(column) for column in Example] == [0, 1]
    assert [feature.name for feature in features_of(Example)] == ["last", "first"]
    assert Example.FIRST.meaning == "written second" and Example.LAST.unit == "s"
    assert feature_table(features_of(Example)).splitlines()[1].split() == ["1", "first", "-", "written", "second"]


@pytest.mark.parametrize("name", sorted(name for name in hetgym.envs.__all__ if name.endswith("_FEATURES")))
def test_public_tables_are_made_of_the_enums_that_kernels_index_by(name: str) -> None:
    table, columns = getattr(hetgym.envs, name), TABLES[name]
    assert [(feature.name, feature.unit, feature.meaning) for feature in table] == [
        (column.name.lower(), column.unit, column.meaning) for column in columns
    ]


@pytest.mark.parametrize("columns", [SplitOperatorColumn, SplitCandidateColumn])
def test_each_axis_of_a_split_has_its_column(columns: type[Column]) -> None:
    assert all(axis.upper() in columns.__members__ for axis in AXES)


TABLE_NAMES = {"operators", "devices", "candidates", "blocks", "row"}


def bare_columns(source: str) -> list[str]:
    """Subscripts of feature tables whose last index is a number that is written out."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript):
            base = node.value
            while isinstance(base, ast.Subscript):
                base = base.value
            name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
            several = isinstance(node.slice, ast.Tuple) and node.slice.elts
            last = node.slice.elts[-1] if several else node.slice
            if name in TABLE_NAMES and isinstance(last, ast.Constant) and isinstance(last.value, int):
                found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("path", sorted(ENVS.rglob("*.py")), ids=lambda path: str(path.relative_to(ENVS)))
def test_no_column_is_a_bare_number(path: Path) -> None:
    assert bare_columns(path.read_text("utf-8")) == []


def test_bare_numbers_are_found() -> None:
    assert bare_columns("row[7] = 1\nseen.operators[lane, i, 9] = 0\nx = p.cost[i, 0]") == [
        "row[7]",
        "seen.operators[lane, i, 9]",
    ]
