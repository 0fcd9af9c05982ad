"""What importers leave out: said once, at the caller's line, or refused."""

from __future__ import annotations

import warnings

import pytest

import hetgym
from hetgym._input.notes import left_out
from hetgym.errors import GraphError, HetgymWarning, ProblemError
from hetgym.graph import DataflowGraph, Operator, Tensor, from_json, to_json
from hetgym.graph.transforms import fuse, training


def test_notes_are_one_warning_or_one_refusal() -> None:
    left_out("file", (), True, GraphError)
    with pytest.raises(GraphError, match="^file: a; b; strict=True refuses this$"):
        left_out("file", ("a", "b"), True, GraphError)
    with pytest.warns(HetgymWarning, match="^file: a; b$") as caught:
        left_out("file", ("a", "b"), False, GraphError)
    assert [warning.filename for warning in caught] == [__file__]


def test_notes_stay_with_graphs_and_problems(tmp_path) -> None:
    x = Tensor((4, 4))
    rows = [Operator("a", "MatMul", (x, x), (x,)), Operator("b", "Relu", (x,), (x,))]
    graph = DataflowGraph(rows, [(0, 0, 1)], notes=["n"])
    copies = [fuse(graph).graph, training(graph), from_json(to_json(graph))]
    assert [copy.notes for copy in copies] == [("n",)] * 3
    problem = hetgym.Problem.build(graph, hetgym.load_platform("cpu-gpu"))
    problem.save(tmp_path / "p.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said when the file of others was read
        loaded = hetgym.load_problem(tmp_path / "p.npz")
    assert problem.notes == loaded.notes == problem.replace(name="x").notes == ("n",)
    assert loaded.digest == problem.digest
    with pytest.raises(ProblemError, match="n; strict=True"):
        hetgym.load_problem(tmp_path / "p.npz", strict=True)
