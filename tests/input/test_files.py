"""Files: reads are bounded, and every failure to read or write is one sentence."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

import hetgym
from hetgym._input.files import as_path, check_writable, packed, read_bytes, read_text, write_bytes
from hetgym.agents.network_policy import load_policy
from hetgym.agents.recipe import load_recipe
from hetgym.costs import load_costs
from hetgym.errors import LONGEST_MESSAGE, ConfigError, GraphError, HetgymError, ProblemError, shown, unknown_name
from hetgym.measurements import Dataset, Measurements
from hetgym.workloads import load_best_known, load_suite

LOADERS = (
    hetgym.load_graph, hetgym.load_platform, hetgym.load_problem, load_suite, load_recipe, load_best_known, load_costs,
    load_policy, Measurements.load, Dataset.load, hetgym.graph.from_onnx, hetgym.Problem.load,
)  # fmt: skip


@pytest.mark.parametrize("load", LOADERS)
@pytest.mark.parametrize("argument", [None, 3, b"bytes", ["a"], 10**5000, "a\0b.npz", "x" * 100_000], ids=range(7))
def test_arguments_of_any_type_are_refused_in_a_sentence(load, argument) -> None:
    with pytest.raises(HetgymError) as refused:
        load(argument)
    assert len(str(refused.value)) <= LONGEST_MESSAGE and str(refused.value).isprintable()


def test_pipes_and_devices_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(ProblemError, match=r"pipe\.npz: not a regular file"):
        hetgym.load_problem(tmp_path / "pipe.npz")
    with pytest.raises(ConfigError, match="/dev/zero: not a regular file"):
        load_best_known("/dev/zero")


def test_what_is_too_long_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_bytes(b" " * 101)
    assert len(read_bytes(path, 101, GraphError)) == 101
    with pytest.raises(GraphError, match=r"long\.json: longer than 100 bytes"):
        read_bytes(path, 100, GraphError)
    path.write_bytes(gzip.compress(b" " * (5 << 20)))
    with pytest.raises(GraphError, match=r"long\.json: longer than 4 MiB"):
        read_text(path, 4 << 20, GraphError)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"cannot be written \(No such file or directory\)"):
        write_bytes(tmp_path / "none" / "x", b"", GraphError)
    with pytest.raises(GraphError, match="cannot be written"):
        write_bytes(tmp_path / "x\0", b"", GraphError)
    with pytest.raises(GraphError, match=r"^\.: cannot be written \(Is a directory\)$"):
        write_bytes(Path("."), b"", GraphError)
    assert as_path("a/b", "a graph", GraphError) == Path("a/b")


def test_packed_bytes_do_not_depend_on_python() -> None:
    """Python 3.13 names no operating system in the header, earlier ones name Unix."""
    found = packed(b"x" * 99)
    assert found[:10] == b"\x1f\x8b\x08\0\0\0\0\0\x02\x03" and gzip.decompress(found) == b"x" * 99


def test_files_are_tried_before_work_begins(tmp_path: Path) -> None:
    for name, why in (("none/x", "No such file"), ("x\0", "null"), (".", "Is a directory"), ("x" * 300, "too long")):
        with pytest.raises(GraphError, match=rf"cannot be written \(.*{why}"):
            check_writable(tmp_path / name, GraphError)
    with pytest.raises(GraphError, match="/dev/null: not a regular file"):
        check_writable(Path("/dev/null"), GraphError)
    (tmp_path / "kept").write_text("x")
    check_writable(tmp_path / "kept", GraphError)
    check_writable(tmp_path / "new", GraphError)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"] and (tmp_path / "kept").read_text() == "x"


def test_messages_are_one_short_line_whatever_they_quote() -> None:
    error = GraphError("start " + "x" * 10_000 + "\n\x1b[31m end")
    assert len(str(error)) <= LONGEST_MESSAGE
    assert str(error).startswith("start xxx") and str(error).endswith(r"x \x1b[31m end") and str(error).isprintable()
    assert str(GraphError("half of a pair: \ud800")) == r"half of a pair: \ud800"
    assert shown(10**5000) == "a huge number" and len(shown({"a": ["x" * 1000] * 1000})) <= 60
    assert "did you mean" not in str(unknown_name("graph", "a" * 100_000, ["alexnet"]))
    assert "a huge number" in str(unknown_name("graph", 10**5000, ["alexnet"]))
