"""The scripts behind the pages of docs/ still run, on the suites that they name."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hetgym
from hetgym.agents.recipe import load_recipe
from hetgym.workloads import RandomMix, load_suite

ROOT = Path(__file__).parents[1]
BENCHMARKS, STUDIES = ROOT / "benchmarks", ROOT / "studies"


def study(name: str, folder: Path) -> tuple[list[dict[str, Any]], str]:
    """Rows and Markdown of a quick run."""
    numbers, page = folder / "numbers.json", folder / "tables.md"
    command = [sys.executable, f"{name}/{name}_study.py", "--quick", "--json", str(numbers), "--markdown", str(page)]
    subprocess.run(command, cwd=STUDIES, check=True, capture_output=True, timeout=300)
    return json.loads(numbers.read_text())["rows"], page.read_text()


@pytest.mark.slow
def test_cpu_gpu_study(tmp_path: Path) -> None:
    rows, page = study("cpu_gpu", tmp_path)
    assert [(row["network"], row["batch"]) for row in rows] == [
        (network, batch) for network in ("inception x3", "inception x6", "lstm") for batch in (1, 4)
    ]
    for row in rows:
        assert row["ratio"] == 4
        assert row["tvm-fusion"] == pytest.approx(min(row["cpu"], row["gpu"]))
        assert max(row["cpgc"], row["eop"]) <= row["tvm-fusion"] and row["cpgc"] < row["by hand"]
    assert "| inception x3 | CPGC over one device | 23.1 / 18.8 |" in page.splitlines()


@pytest.mark.slow
def test_rnn_study(tmp_path: Path) -> None:
    rows, page = study("rnn", tmp_path)
    assert [(row["r"], row["tasks"]) for row in rows] == [(r, n) for r in (2, 10) for n in (1, 2, 4, 8)]
    for row in rows:
        assert row["limit"] == pytest.approx(row["law"], rel=0.1)
        for method in ("slices", "wavefront", "layer pipeline", "whole tasks"):
            assert row[method] <= row["one device"] * (1 + 1e-12)
        assert row["limited"] >= row["slices"] >= row["one device"] / (1 + row["law"] / 100)
    assert sum(row["cpgc"] is not None for row in rows) == 2
    assert "unvaried" in page


def field(*arguments: str) -> str:
    """What ``field.py`` prints."""
    command = [sys.executable, "field.py", *arguments]
    return subprocess.run(command, cwd=BENCHMARKS, check=True, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.slow
def test_field_study_reads_exported_instances(tmp_path: Path) -> None:
    """Two operators in a chain, apart: 2 s, a transfer of 1 + 4 * 0.5 s, and 3 s."""
    instance = {
        "name": "chain",
        "cost": [[2.0, None], [9.0, 3.0]],
        "latency": [[0.0, 1.0], [1.0, 0.0]],
        "seconds_per_unit": [[0.0, 0.5], [0.5, 0.0]],
        "edges": [[0, 1, 4.0]],
        "start": [0, 1],
        "start_makespan": 8.0,
        "peers": {"peer": 16.0},
    }
    data, numbers = tmp_path / "instances.json", tmp_path / "numbers.json"
    data.write_text(json.dumps([instance]))
    printed = field("giph", "--data", str(data), "--budgets", "0.001", "--json", str(numbers))
    assert "by at most 0.0e+00 of the makespan" in printed
    rows = {row["what"]: row for row in json.loads(numbers.read_text())["rows"]}
    assert rows["the random start"]["slr"]["mean"] == pytest.approx(8 / 5)
    assert all(row["over peer"]["mean"] == pytest.approx(0.5) for name, row in rows.items() if name != "peer")


@pytest.mark.slow
def test_field_study_draws_pairs_of_the_repository_of_giph(tmp_path: Path) -> None:
    """A repository whose generator makes one pair, the chain above."""
    code = (
        "import networkx, numpy\n"
        "def generate_networks(*lists, num_type, seeds):\n"
        "    apart = numpy.array([[0.0, 1.0], [1.0, 0.0]])\n"
        "    network = {'delay': apart, 'comm_speed': apart / 2, 'speed': numpy.ones(2)}\n"
        "    return {'file': [network | {'device_constraints': {0: [0], 1: [1]}}]}\n"
        "def generate_programs(*lists, num_types, seeds):\n"
        "    graph = networkx.DiGraph([(0, 1, {'bytes': 4.0})])\n"
        "    graph.add_node(0, compute=2.0, h_constraint=0)\n"
        "    graph.add_node(1, compute=3.0, h_constraint=1)\n"
        "    return {'file': [graph]}\n"
    )
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "utils.py").write_text(code)
    names = "num_of_devices constraint_prob compute_speed bw delay beta_bw beta_speed seed"
    names += " alpha v conn_prob compute bytes bete_compute beta_byte"
    of = [dict.fromkeys(names.split(), [0])]
    document = {"num_of_types": 2, "testing": {"init_mapping": [20], "networks": of, "programs": of}}
    (tmp_path / "parameters").mkdir()
    (tmp_path / "parameters" / "multiple_networks.txt").write_text(json.dumps(document))
    numbers = tmp_path / "numbers.json"
    field("giph", "--data", str(tmp_path), "--instances", "1", "--budgets", "0.001", "--json", str(numbers))
    rows = json.loads(numbers.read_text())["rows"]
    assert len(rows) > 10 and all(row["slr"]["mean"] == pytest.approx(8 / 5) for row in rows)


@pytest.mark.slow
def test_graphs_of_doppler_are_read_as_its_simulator_runs_them(tmp_path: Path) -> None:
    """Two devices; the second operator waits for 0.5 s of transfer if it runs apart from the first."""
    document = {"cost": [2.0, 3.0, 1.0], "edges": [[0, 1, 0.5], [0, 2, 0.0]], "devices": 2}
    (tmp_path / "small.json").write_text(json.dumps(document))
    (tmp_path / "named.json").write_text(json.dumps(document | {"devices": ["a", "b"]}))
    code = (
        f"import sys, json; sys.path.insert(0, {str(BENCHMARKS)!r}); from pathlib import Path\n"
        f"from planning import doppler_graphs; import hetgym\nfound = doppler_graphs(Path({str(tmp_path)!r}))\n"
        "plan = hetgym.Schedule([0, 1, 0], order=[[0, 2], [1]])\n"
        "print(json.dumps([[p.name, p.cost.tolist(), hetgym.simulate(p, plan).makespan] for p in found]))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    cost = [[2.0, 2.0], [3.0, 3.0], [1.0, 1.0]]
    assert json.loads(found) == [["named", cost, 5.5], ["small", cost, 5.5]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"cost": 3, "edges": [], "devices": 2}', '{"cost": [1], "edges": [[0, 9]], "devices": 2}']
)
def test_what_is_no_graph_of_doppler_is_refused_in_a_sentence(text: str, tmp_path: Path) -> None:
    command = [sys.executable, "planning.py", "doppler", "--data", str(tmp_path)]
    for says in ("holds no .json files", "bad.json is no task graph with cost, edges and devices"):
        done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True)
        assert done.returncode == 1 and says in done.stderr and done.stderr.count("\n") == 1
        (tmp_path / "bad.json").write_text(text)


@pytest.mark.slow
def test_field_study_skips_what_it_has_no_data_for() -> None:
    assert field("doppler").startswith("doppler: skipped")


def test_suites_of_the_studies() -> None:
    pair = load_suite("cpu-gpu-study").specs
    assert {spec.platform for spec in pair} == {f"even-pair-gpu.peak_flops={r:g}" for r in (1.5, 2.5, 4, 6, 10, 20)}
    assert len(pair) == 7 * 3 * 6 and all("-fuse" in spec.graph for spec in pair)
    recurrent = load_suite("rnn-study").specs
    assert len(recurrent) == 12 * 6
    for spec in recurrent[:6]:
        problem = spec.build()
        assert (problem.num_operators, problem.num_devices) == (256, 2)
        assert 1 < problem.cost[0, 0] / problem.cost[0, 1] < 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "studies/agents/agents_dispatch.py --episodes 1 --zoo 0",
        "studies/agents/agents_pipeline.py --chains 1",
        "studies/agents/dispatch_learned.py --sets random --episodes 1",
        "studies/agents/agents_split.py --random 1 --keys 2",
        "studies/agents/agents_streaming.py --episodes 1 --jobs 2 --gaps 0.6",
        "benchmarks/policies.py --small 1 --large 0 --huge 0 --networks 0 --searches 1",
        "studies/learning/proposals.py lists --small 1 --large 0",
        "studies/learning/proposals.py time --small 1 --large 0 --budgets 0.005",
        "studies/learning/proposals.py whole --small 1 --large 0 --budgets 0.005",
        "studies/learning/proposals.py tries --small 1 --large 0 --budgets 2",
        "studies/learning/splits.py headroom --count 1",
    ],
)
def test_comparisons_of_policies_take_a_single_problem(command: str, tmp_path: Path) -> None:
    numbers, (script, *arguments) = tmp_path / "numbers.json", command.split()
    whole = [sys.executable, script, *arguments, "--json", str(numbers)]
    found = subprocess.run(whole, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    assert json.loads(numbers.read_text(), parse_constant=refuse)["rows"]


def test_recipes_of_trials() -> None:
    policy, linear = load_recipe("place-v2"), load_recipe(STUDIES / "learning" / "one-unit.yaml")
    same = {"description": policy.description, "steps": policy.steps, "network": policy.network}
    assert replace(linear, **same) == policy and linear.network.hidden == 1
    assert load_recipe(STUDIES / "learning" / "framework-large.yaml").network.hidden == 40


@pytest.fixture
def methods(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The study of learned methods with two toy problems, and runs of two methods."""
    pytest.importorskip("torch_geometric")
    monkeypatch.syspath_prepend(STUDIES / "learning")
    monkeypatch.delitem(sys.modules, "planning", raising=False)  # the folder of tests, where it was imported by name
    path, known = list(sys.path), set(sys.modules)
    found: Any = import_module("methods")
    kind = found.Kind(partial(found.mixed, RandomMix(operators=(5, 6), devices=2)), 2)
    monkeypatch.setattr(found, "KINDS", {"random": kind, "tiled": replace(kind, runtime="classic", noise=0.2)})
    monkeypatch.setattr(found, "BUDGETS", {"plan 1 ms": 0.001})
    yield found
    sys.path[:] = path
    for name in {"methods", "lists", "planning", "_common"} - known:
        sys.modules.pop(name, None)


def test_learned_methods_side_by_side(methods: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A new network places everything on the first device."""
    from hetgym.agents.network_policy import NetworkPolicy
    from hetgym.agents.networks import ActorCritic

    for name in ("gdp-s0", "gdp-s1", "gnn-s3", "giph-s0"):  # the last one is not finished
        (tmp_path / name).mkdir()
        told = {"recipe": {"algorithm": "reinforce", "env": "HetSchedule-v0"}, "core_seconds": 3.0}
        told["history"] = [{"step": 0, "ratio_reference": 2.0}, {"step": 100, "ratio_reference": 1.0}]
        if not name.startswith("giph"):
            (tmp_path / name / "results.json").write_text(json.dumps(told))
    for seed in "01":
        NetworkPolicy(ActorCritic("place")).save(tmp_path / f"gdp-s{seed}" / "policy.safetensors")
    for ending in ("json", "safetensors"):
        shipped = ROOT / "hetgym" / "agents" / "pretrained" / f"gnn-v1.{ending}"
        shutil.copy(shipped, tmp_path / "gnn-s3" / f"policy.{ending}")
    given = Namespace(runs=[tmp_path], kinds="random,tiled", most=2)
    for method in ("gdp", "gnn", "heuristics"):
        methods.write(tmp_path / f"{method}.json", methods.measured(method, given))
    with pytest.raises(SystemExit, match="no finished run of giph"):
        methods.measured("giph", given)
    rows = [row for path in tmp_path.glob("*.json") for row in json.loads(path.read_text())]
    by = {(row["kind"], row["method"], row["seed"], row["plans"]): row["makespans"] for row in rows if "kind" in row}
    problems = methods.KINDS["random"].draw(2)
    alone = [problem.cost[:, 0].sum() for problem in problems]
    near = partial(pytest.approx, rel=1e-5)  # files have six digits
    assert by["random", "gdp", 0, "greedy"] == by["random", "gdp", 1, "greedy"] == near(alone)
    assert by["random", "gnn", 3, "greedy"] == near(
        [hetgym.agents.load("gnn-v1")(p, "links").makespan for p in problems]
    )
    assert by["random", "heft", 0, ""] == near([hetgym.baselines.get("heft")(p, "links").makespan for p in problems])
    assert by["tiled", "gdp", 0, "greedy"] != near(alone) and ("tiled", "gdp", 0, "best of 16") not in by
    for plans in by.items():
        assert len(plans[1]) == 2 and min(plans[1]) > 0
    methods.tables(rows)
    assert "random, links" in (shown := capsys.readouterr().out) and "giph" not in shown
    methods.draw([row["training"] for row in rows if "training" in row], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 1000


def test_statistics_of_learned_methods(methods: Any) -> None:
    """Agarwal et al. 2021: means of the middle half, shares of shorter plans, and runs resampled within problems."""
    assert methods.iqm(np.arange(8.0).reshape(2, 4)) == pytest.approx(3.5)
    assert methods.shorter(np.array([[0.9, 1.0, 1.1, 0.8]])) == pytest.approx(2.5 / 4)
    same = np.array([[0.8, 1.0, 1.2, 1.4]] * 3)
    assert methods.interval(methods.iqm, same, False) == "1.100 to 1.100"
    low, high = map(float, methods.interval(methods.iqm, same, True).split(" to "))
    assert 0.8 <= low < 1.0 and 1.2 < high <= 1.4
    low, high = map(float, methods.interval(methods.iqm, same.T, False).split(" to "))
    assert low < 1.0 < 1.2 < high
