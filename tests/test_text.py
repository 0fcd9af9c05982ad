r"""Text for people: units, and names that files of others may hold, on their way to terminals, tables and pages.

Markup of rich, escape sequences, halves of surrogate pairs, text that turns around, and formulas of spreadsheets.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.commands import ask
from hypothesis import given
from hypothesis import strategies as st

import hetgym
from hetgym import Problem
from hetgym._text import (
    brief,
    cell,
    csv_text,
    duration,
    finite,
    minutes,
    percent,
    plain,
    plain_lines,
    plain_values,
    value_of,
)
from hetgym.bench.encode import compact
from hetgym.bench.typeset import Column, PaperTable
from hetgym.cli.charts import chart
from hetgym.errors import size
from hetgym.measurements import Measurements

NAMES = [
    "[/x]", "[red]x[/red] :smile:", "\x1b[31mred\x1b]0;title\x07", "a\ud800b", "b\u202egnp.exe", "=1+1", "+a", "-b",
    "@sum(A1)", "two\nlines", "$x^$", "'=q",
]  # fmt: skip


def hostile(names: list[str] = NAMES) -> Problem:
    n = len(names)
    return Problem.from_arrays(
        np.arange(1.0, 1 + 2 * n).reshape(n, 2),
        [(i, i + 1, 1.0) for i in range(n - 1)],
        operator_names=names,
        operator_kinds=names,
        device_names=["[/gpu]\x1b[2J", "=cpu"],
        name="[/p]\x1b[1m",
    )


@given(st.text(st.characters(), max_size=20))
def test_plain_text_is_one_printable_line(text: str) -> None:
    found = plain(text)
    assert found.isprintable() and plain(found) == found
    assert found == text or not text.isprintable()
    assert plain_lines(text).encode() is not None and plain_lines(text).count("\n") == text.count("\n")
    json.loads(compact({text: [text]}).encode())


@given(st.lists(st.text(max_size=8), min_size=1, max_size=3))
def test_cells_are_no_formulas_and_are_read_back(texts: list[str]) -> None:
    (found,) = csv.reader(io.StringIO(csv_text([texts])))
    assert [value_of(text) for text in found] == [plain(text) for text in texts]
    assert all(len(text) < 2 or text[0] not in "=+-@" for text in found)


def test_there_is_one_way_to_print_and_to_write_tables() -> None:
    root = Path(__file__).parents[1]
    files = [path for room in ("hetgym", "agents", "baselines") for path in (root / room).rglob("*.py")]
    for word, place in (
        (r"csv\.(Dict)?[wW]riter\(", "_text.py"),
        (r"from rich.console import Console\b", "console.py"),
    ):
        assert {path.name for path in files if re.search(word, path.read_text("utf-8"))} == {place}


def test_numbers_stay_numbers() -> None:
    assert csv_text([[-1.5, None, "-", 3, "-3 %"]]) == "-1.5,,-,3,'-3 %\n"
    assert plain_values({"a\n": [1, ("b\x00",)]}) == {"a ": [1, ["b\\x00"]]} and cell(True) is True


def test_commands_print_and_write_any_name(tmp_path: Path) -> None:
    hostile([name for name in NAMES if "\ud800" not in name]).save(tmp_path / os.fsdecode(b"[b]=\xff.npz"))
    odd = os.fsdecode(b"out\xff\x1b[3m")
    words = ("bench", "--problems", os.fsdecode(b"[b]=\xff.npz"), "--schedulers", "heft", "--name", odd)
    done = ask(*words, "--traces", "all", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "results" / odd
    for text in (done.stdout, done.stderr, (folder / "rows.csv").read_text(), (folder / "report.html").read_text()):
        assert plain_lines(text) == text
    assert "[b]=\\udcff" in (folder / "rows.csv").read_text() and "out\\udcff\\x1b[3m" in done.stdout
    for line in csv.reader(io.StringIO((folder / "rows.csv").read_text())):
        assert not any(re.match(r"[=+@-].", text) and not _number(text) for text in line)


def _number(text: str) -> bool:
    try:
        return bool(float(text) or True)
    except ValueError:
        return False


def test_plans_of_hostile_platforms_and_models(tmp_path: Path) -> None:
    x = hetgym.graph.Tensor((8, 8))
    operators = [hetgym.graph.Operator(name, "Relu", (x,), (x,)) for name in NAMES if "\ud800" not in name]
    graph = hetgym.DataflowGraph(operators, [(i, 0, i + 1) for i in range(len(operators) - 1)], "[/g]\x1b[5m")
    hetgym.graph.to_json(graph, tmp_path / "g.json")
    rates = {"kind": "cpu", "peak_flops": {"float32": 1e9}, "memory_bandwidth": 1e9, "memory_capacity": 1e9}
    devices = [{"name": name, **rates} for name in ("[/d]\x1b[7m", "=b")]
    links = [{"between": [device["name"] for device in devices], "latency": 0, "bandwidth": 1e9}]
    document = {"name": "[/nothing]\x07", "devices": devices, "links": links}
    (tmp_path / "p.yaml").write_text(json.dumps(document))
    done = ask("plan", "g.json", "--platform", "p.yaml", "--budget", "20ms", "--name", "n", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert plain_lines(done.stdout) == done.stdout and "[/d]\\x1b[7m" in done.stdout
    assert (tmp_path / "results/n/report.html").read_text().count("\x1b") == 0


def test_halves_of_surrogate_pairs_are_neither_read_nor_saved(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text('name: "a\\ud800b"')
    with pytest.raises(hetgym.errors.ConfigError, match="half of a surrogate pair"):
        hetgym.load_platform(tmp_path / "p.yaml")
    with pytest.raises(hetgym.ProblemError, match="cannot be written .a name holds half of a surrogate pair"):
        hostile().save(tmp_path / "p.npz")
    assert not (tmp_path / "p.npz").exists()


def test_charts_and_tables() -> None:
    problem = hostile()
    trace = hetgym.simulate(problem, hetgym.baselines.get("heft")(problem))
    lines = chart(trace, trace.makespan)
    assert lines and all(line.isprintable() for line in lines)
    pytest.importorskip("matplotlib")
    trace.gantt(size=(8, 4))
    table = PaperTable("t", "\x1b[1m", (Column("a", "b\ud800"),), [{"a": name} for name in NAMES])
    assert table.to_latex().encode() and table.to_csv().encode()


def test_tables_of_measurements_keep_odd_kinds(tmp_path: Path) -> None:
    x = hetgym.graph.Tensor((2,))
    from hetgym.measurements.table import Measurement

    rows = tuple(
        Measurement(hetgym.graph.Operator("o", name, (x,), (x,)), 1.0, 1.0, 1.0, 3, source=name)
        for name in ("=1+1", "'=q", "-b", "Relu")
    )
    Measurements(rows).save(tmp_path / "m.csv")
    found = Measurements.load(tmp_path / "m.csv")
    assert [row.operator.kind for row in found] == ["=1+1", "'=q", "-b", "Relu"]
    assert [row.source for row in found] == ["=1+1", "'=q", "-b", "Relu"]


def printed() -> dict[str, object]:
    """Public objects that hold arrays or long lists."""
    graph, platform = hetgym.load_graph("resnet50"), hetgym.load_platform("8gpu-node")
    problem = Problem.build(graph, platform)
    schedule = hetgym.baselines.get("heft")(problem)
    training = hetgym.parallel.RandomSteps()(np.random.default_rng(0))
    plan = hetgym.plan_training(training)
    pipeline = hetgym.pipeline.training_pipeline(graph, platform)
    env = hetgym.envs.HetScheduleEnv(problem, completion="off")
    played = hetgym.agents.play(env, hetgym.agents.uniform(0), seed=0)
    found: dict[str, object] = {
        "arrays": problem.arrays,
        "cut": hetgym.pipeline.cut_problem(pipeline, hetgym.pipeline.Objective()),
        "fusion": hetgym.graph.transforms.fuse(graph),
        "report": hetgym.validate(problem, schedule),
        "trace": hetgym.simulate(problem, schedule, "framework"),
        "step": training.step(plan),
        "cluster": hetgym.parallel.load_cluster("dgx-a100-64"),
        "suite": hetgym.workloads.load_suite("hetbench-v2"),
        "result": played,
        "replay": played.info["replay"],
        "shared": problem.shared_weights,
    }
    found |= {name: hetgym.costs.load_costs(name) for name in hetgym.costs.artefact.names()}
    own = graph, platform, platform["gpu0"], problem, schedule, training, plan, pipeline
    return found | {type(one).__name__: one for one in own}


def test_public_objects_are_printed_in_one_line() -> None:
    for name, value in printed().items():
        line = repr(value)
        assert len(line) <= 200 and line.isprintable(), (name, line[:300])
        assert line.startswith((f"{type(value).__qualname__}(", f"<{type(value).__module__}.")), line
    schedule = hetgym.Schedule([0, 1, 0], order=[[0, 2], [1]], start=[0.0, 0.0, 1.0], finish=[1.0, 2.0, 2.5])
    assert repr(schedule) == "Schedule(3 operators on 2 devices, 2.5 s under 'classic')"
    assert repr(hetgym.Schedule([0, 1], order=[[0], [1]], scheduler="mine")) == (
        "Schedule(2 operators on 2 devices by 'mine')"
    )


def test_long_values_are_counted() -> None:
    @dataclass
    class Held:
        first: Any
        rest: Any = ()

        __repr__ = brief

    name = f"{Held.__qualname__}("
    assert repr(Held(np.zeros((2, 3)))) == name + "first=float64[2, 3])"
    assert repr(Held(1, (1, "a", [2.0]))) == name + "first=1, rest=(1, 'a', [2.0]))"
    assert repr(Held((1,), list(range(9)))) == name + "first=(1,), rest=9 items)"
    assert repr(Held({"a": 1}, {k: k for k in range(9)})) == name + "first={'a': 1}, rest=9 items)"
    assert repr(Held("x" * 100, "y\n" * 100)) == name + "first=str(…), rest=str(…))"
    assert repr(Held(["z" * 70] * 3)) == name + "…)"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (percent(0.0), "0.00 %"),
        (percent(0.99994), "99.99 %"),
        (percent(1.0), "100 %"),
        (percent(0.99995), "100 %"),
        (percent(-0.5), "-50.00 %"),
        (percent(None), "–"),
        (duration(1.5e-3), "1.5 ms"),
        (duration(1.0), "1 s"),
        (duration(1e-3), "1 ms"),
        (duration(1e-6), "1 µs"),
        (duration(9.99e-7), "999 ns"),
        (minutes(59.9), "59.9 s"),
        (minutes(60.0), "1 min"),
        (minutes(3599.4), "59 min 59 s"),
        (minutes(3600.0), "1 h"),
        (minutes(3661.0), "1 h 1 min"),
        (duration(90.0), "90 s"),
        (size(1_500), "1.5 kB"),
        (size(2.5e9), "2.5 GB"),
    ],
)
def test_units(shown: str, expected: str) -> None:
    assert shown == expected


def test_what_json_does_not_have_becomes_none() -> None:
    assert finite({"a": [1.0, math.inf, (math.nan, "x")]}) == {"a": [1.0, None, [None, "x"]]}
