"""Trace: transfers, utilisation, the Chrome format, and pictures without a display."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

import hetgym
from hetgym import Problem, Runtime, Schedule, Trace, simulate
from hetgym._types import IntArray
from hetgym.errors import ConfigError, UnknownName
from hetgym.graph import FAMILIES
from hetgym.sim import PRESETS, online
from hetgym.sim.gantt import COLOURS, family, time_unit


@pytest.fixture
def trace() -> Trace:
    """Operator 0 on cpu feeds 1 on cpu and 2 on gpu, 2 feeds 3 on cpu; 2 bytes at 1 byte/s."""
    problem = Problem.from_arrays(
        [[1.0, 2.0], [2.0, 9.0], [9.0, 1.0], [1.0, 1.0]],
        [(0, 1, 2.0), (0, 2, 2.0), (2, 3, 2.0)],
        operator_names=["load", "left", "right", "join"],
        operator_kinds=["Load", "Conv", "Conv", "Add"],
        device_names=["cpu", "gpu"],
        name="diamond",
    )
    return simulate(problem, Schedule([0, 0, 1, 0], order=[[0, 1, 3], [2]], scheduler="hand"), "links")


def test_times(trace: Trace) -> None:
    assert trace.start.tolist() == [0.0, 1.0, 3.0, 6.0]
    assert trace.finish.tolist() == [1.0, 3.0, 4.0, 7.0]
    assert trace.makespan == 7.0
    assert (trace.scheduler, trace.runtime) == ("hand", "links")


def test_transfers(trace: Trace) -> None:
    assert trace.remote.tolist() == [False, True, True]
    assert trace.transfers == [(1, 0, 1, 1.0, 3.0), (2, 1, 0, 4.0, 6.0)]


def test_utilisation(trace: Trace) -> None:
    assert trace.utilisation.tolist() == [4 / 7, 1 / 7]


def test_a_device_with_streams_is_no_more_than_busy() -> None:
    problem = Problem.from_arrays([[4.0], [1.0], [2.0], [1.0]], [(0, 3, 0.0)], occupancy=0.25)
    run = simulate(problem, Schedule([0] * 4, order=[[0, 1, 2, 3]]), Runtime(streams=2, dispatch=1.0))
    assert run.start.tolist() == [1.0, 1.0, 3.0, 6.0] and run.makespan == 7.0
    assert run.utilisation.tolist() == pytest.approx([5 / 7])


def test_utilisation_of_no_time_at_all() -> None:
    problem = Problem.from_arrays([[0.0, 0.0]], [])
    assert simulate(problem, Schedule([0], order=[[0], []])).utilisation.tolist() == [0.0, 0.0]


def test_chrome_trace(trace: Trace, tmp_path: Path) -> None:
    trace.save_chrome(tmp_path / "trace.json")
    chrome = json.loads((tmp_path / "trace.json").read_text())
    assert chrome == trace.to_chrome()
    assert chrome["otherData"] == {
        "problem": "diamond",
        "scheduler": "hand",
        "runtime": "links",
        "makespan_s": 7.0,
        "blame": trace.blame.shares,
    }
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in chrome["traceEvents"] if e["ph"] == "M"}
    assert names["process_name", 0, 0] == "devices"
    assert names["process_name", 1, 0] == "links"
    assert [names["thread_name", 0, d] for d in (0, 1)] == ["cpu", "gpu"]
    assert [names["thread_name", 1, k] for k in (0, 1)] == ["cpu → gpu", "gpu → cpu"]
    spans = [e for e in chrome["traceEvents"] if e["ph"] == "X"]
    operators = [(e["name"], e["cat"], e["tid"], e["ts"], e["dur"]) for e in spans if e["pid"] == 0]
    assert operators == [
        ("load", "Load", 0, 0.0, 1e6),
        ("left", "Conv", 0, 1e6, 2e6),
        ("right", "Conv", 1, 3e6, 1e6),
        ("join", "Add", 0, 6e6, 1e6),
    ]
    transfers = [(e["name"], e["tid"], e["ts"], e["dur"], e["args"]) for e in spans if e["pid"] == 1]
    assert transfers == [
        ("load", 0, 1e6, 2e6, {"bytes": 2.0, "read by": "right"}),
        ("right", 1, 4e6, 2e6, {"bytes": 2.0, "read by": "join"}),
    ]


@examples(40)
@given(case=strategies.cases())
def test_chrome_trace_holds_everything_once(case: tuple[Problem, Schedule]) -> None:
    problem, schedule = case
    trace = simulate(problem, schedule, "links")
    chrome = json.loads(json.dumps(trace.to_chrome(), allow_nan=False))
    assert {e["ph"] for e in chrome["traceEvents"]} <= {"M", "X"}
    spans = [e for e in chrome["traceEvents"] if e["ph"] == "X"]
    assert sorted(e["name"] for e in spans if e["pid"] == 0) == sorted(problem.operator_names)
    assert sum(e["pid"] == 1 for e in spans) == len(trace.transfers) == trace.remote.sum()
    assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in spans)
    assert [t.start for t in trace.transfers] == sorted(t.start for t in trace.transfers)
    tracks = {(e["pid"], e["tid"]) for e in chrome["traceEvents"] if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in spans} <= tracks


@pytest.mark.slow
def test_gantt_writes_a_picture_without_a_display(tmp_path: Path) -> None:
    """In a process of its own, where neither a display nor pyplot's state is at hand."""
    pytest.importorskip("matplotlib")
    path = tmp_path / "gantt.png"
    script = (
        "import sys, hetgym; from hetgym.workloads import textbook; p = textbook('topcuoglu');"
        "hetgym.simulate(p, hetgym.baselines.get('heft')(p), 'links').gantt(sys.argv[1]);"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    environment = {"PATH": "", "MPLBACKEND": "TkAgg", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-W", "error", "-c", script, str(path)], env=environment, check=True)
    assert path.read_bytes().startswith(b"\x89PNG\r\n")


def test_gantt_draws_each_operator_and_link(trace: Trace) -> None:
    pytest.importorskip("matplotlib")
    (axes,) = trace.gantt().axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["cpu", "gpu", "cpu → gpu", "gpu → cpu"]
    assert {text.get_text() for text in axes.texts} == {"load", "left", "right", "join"}
    bars = [len(collection.get_paths()) for collection in axes.collections]
    assert bars == [3, 1, 1, 1]
    assert axes.get_title(loc="left") == "diamond · hand · 7 s (links)"


def test_gantt_has_the_size_and_the_colours_that_are_asked_for(trace: Trace, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.colors import to_hex

    figure = trace.gantt(size=(6.3, None), dpi=50, colours={"join": "#112233", "Conv": "tab:red", "view": "white"})
    assert figure.get_figwidth() == 6.3 and figure.dpi == 50
    bars = [[to_hex(colour) for colour in found.get_facecolor()] for found in figure.axes[0].collections[:2]]
    assert bars == [[COLOURS[family("Load")], "#d62728", "#112233"], ["#d62728"]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["Conv", family("Load"), "join"]
    assert tuple(trace.gantt(size=(4, 3)).get_size_inches()) == (4, 3)
    for size in ((0, 3), (4, float("nan")), "x", "xy", 3, (1, 2, 3), (None, 3), ("4", 3)):
        with pytest.raises(ConfigError, match="inches"):
            trace.gantt(size=size)
    for colours in (3, "red", ["red"], 0):
        with pytest.raises(ConfigError, match="colours are given by name"):
            trace.gantt(colours=colours)
    for dpi in (0, -1, "x", float("nan"), 10**9):
        with pytest.raises(ConfigError, match="resolution of a chart"):
            trace.gantt(dpi=dpi)
    with pytest.raises(ConfigError, match="colour of 'Conv'"):
        trace.gantt(colours={"Conv": "reddish"})
    with pytest.raises(UnknownName, match="did you mean 'Conv'"):
        trace.gantt(colours={"Convv": "red"})
    for file, why in (("none/plan.png", "No such file"), ("plan.abc", "abc")):
        with pytest.raises(ConfigError, match=f"{file}: the chart cannot be written .*{why}"):
            trace.gantt(tmp_path / file)


def test_a_crowded_gantt_shows_shares_and_stays_quick() -> None:
    """Ten thousand operators on two devices, each busy half of the time: areas, not bars."""
    n = 10_000
    problem = Problem.from_arrays(np.ones((n, 2)), [(i, i + 1, 1e-3) for i in range(n - 1)])
    trace = simulate(problem, Schedule(np.arange(n) % 2, order=[np.arange(0, n, 2), np.arange(1, n, 2)]))
    begin = time.process_time()
    (axes,) = trace.gantt().axes
    assert time.process_time() - begin < 10
    areas = [patch.get_data() for patch in axes.patches if type(patch).__name__ == "StepPatch"]
    assert len(areas) == 4  # two devices, two directions
    for area in areas[:2]:
        assert np.abs(area.values - area.baseline)[10:-10] == pytest.approx(0.36, rel=0.1)
    assert not axes.texts


def test_gantt_takes_any_name(tmp_path: Path) -> None:
    """Names come from model files; a dollar sign does not start a formula."""
    pytest.importorskip("matplotlib")
    odd = r"$\frac$"
    problem = Problem.from_arrays(
        [[1.0, 9.0], [9.0, 1.0]],
        [(0, 1, 1.0)],
        operator_names=[odd, "b"],
        device_names=[odd, "y"],
        name=odd,
    )
    simulate(problem, Schedule([0, 1], order=[[0], [1]], scheduler=odd)).gantt(tmp_path / "gantt.svg")
    assert (tmp_path / "gantt.svg").stat().st_size > 0


def test_gantt_of_no_time_at_all(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    problem = Problem.from_arrays([[0.0, 0.0]], [])
    simulate(problem, Schedule([0], order=[[0], []])).gantt(tmp_path / "gantt.png")
    assert (tmp_path / "gantt.png").stat().st_size > 0


def test_a_missing_matplotlib_is_one_line(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(hetgym.MissingExtra, match=r'needs matplotlib: pip install "hetgym\[plot\]"$'):
        trace.gantt()


def test_every_family_has_a_colour_of_its_own() -> None:
    assert set(COLOURS) == set(FAMILIES) and len(set(COLOURS.values())) == len(FAMILIES)
    assert family("Conv") == "conv" and family("NoSuchKind") == "generic"


@pytest.mark.parametrize(
    ("seconds", "unit"), [(3.0, "s"), (1.0, "s"), (0.5, "ms"), (2e-6, "µs"), (1e-12, "ns"), (0.0, "s")]
)
def test_time_units(seconds: float, unit: str) -> None:
    assert time_unit(seconds)[1] == unit


@examples(50)
@given(case=strategies.cases())
def test_utilisation_is_busy_time_over_makespan(case: tuple[Problem, Schedule]) -> None:
    trace = simulate(*case)
    busy = [
        sum(f - s for s, f, d in zip(trace.start, trace.finish, trace.assignment, strict=True) if d == device)
        for device in range(case[0].num_devices)
    ]
    expected = np.array(busy) / trace.makespan if trace.makespan else np.zeros(len(busy))
    assert trace.utilisation == pytest.approx(expected, rel=1e-12)


def test_chrome_counts_memory_where_it_is_tracked(trace: Trace) -> None:
    assert not [event for event in trace.to_chrome()["traceEvents"] if event["ph"] == "C"]
    problem = Problem.from_arrays([[1.0, 1.0]] * 2, [(0, 1, 8.0)], weight_bytes=[5.0, 0.0])
    tracked = simulate(problem, Schedule([0, 1], order=[[0], [1]]), Runtime(memory="track"))
    counters = [event for event in tracked.to_chrome()["traceEvents"] if event["ph"] == "C"]
    assert {event["name"] for event in counters} == {"memory of dev0", "memory of dev1"}
    assert counters[0]["args"] == {"bytes": 13.0} and counters[0]["ts"] == 0.0


@given(case=strategies.cases(("order", "priority", "start")), preset=st.sampled_from(sorted(PRESETS)))
def test_the_order_of_a_run_is_the_run(case: tuple[Problem, Schedule], preset: str) -> None:
    """Launching operators in the same order gives the same times, also with operators of zero duration."""
    problem, schedule = case
    there = simulate(problem, schedule, preset)
    assert sorted(np.concatenate(there.order).tolist()) == list(range(problem.num_operators))
    if schedule.priority is None:
        again = simulate(problem, Schedule(there.assignment, order=there.order), preset)
        assert np.array_equal(again.start, there.start)
        assert np.array_equal(again.finish, there.finish)
        decided = online(problem, follow(there.order), "classic")
        assert [row.tolist() for row in decided.order] == [row.tolist() for row in there.order]


def follow(order: tuple[IntArray, ...]) -> Any:
    """Commits what is next in device orders as soon as it is ready."""
    rows = [row.tolist() for row in order]

    def decide(situation: Any) -> tuple[int, int] | None:
        ready = set(situation.ready.tolist())
        return next(((row.pop(0), device) for device, row in enumerate(rows) if row and row[0] in ready), None)

    return decide


def test_memory_is_a_counter_in_microseconds() -> None:
    """10 bytes from 0 to 3 s, 5 more from 2 s on; 7 of weights."""
    problem = Problem.from_arrays([[2.0], [1.0]], [(0, 1, 10.0)], weight_bytes=[7.0, 0.0], output_bytes=[10.0, 5.0])
    schedule = Schedule([0, 0], order=[[0, 1]])
    events = simulate(problem, schedule, Runtime(memory="track")).to_chrome()["traceEvents"]
    counters = [(e["name"], e["ts"], e["args"]) for e in events if e["ph"] == "C"]
    assert counters == [("memory of dev0", ts, {"bytes": b}) for ts, b in ((0.0, 17.0), (2e6, 22.0), (3e6, 12.0))]
