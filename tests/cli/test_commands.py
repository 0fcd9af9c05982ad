"""The command line as a user meets it: real processes, exit codes, and one line for each mistake."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

import hetgym
from hetgym import Schedule, baselines, load_graph, load_platform, simulate, validate
from hetgym.cli.catalogue import CATALOGUES
from hetgym.workloads import textbook

HETGYM = "from hetgym.cli.main import main; main()"
ENVIRONMENT = os.environ | {"COLUMNS": "110", "NO_COLOR": "1"}


def run(*words: str, cwd: Path, code: str = HETGYM, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code, *words]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT | environment, capture_output=True, text=True, timeout=120)


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "rows.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_first_run_compiles_in_several_processes(tmp_path: Path) -> None:
    words = ("bench", "--suite", "quick", "--schedulers", "heft,olb,peft", "--runtime", "classic")
    first = run(*words, "--name", "first", cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert (first.returncode, first.stderr) == (0, "compiling kernels (first run only)…\n")
    kernels = {path.name.partition("-")[0] for path in (tmp_path / "cache").rglob("*.nbi")}
    assert {"kernel.run_orders", "online._balance", "list_scheduling.place_in_order"} <= kernels
    second = run(*words, "--name", "second", cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert (second.returncode, second.stderr) == (0, "")
    makespans = [[row["makespan_s"] for row in rows(tmp_path / "results" / name)] for name in ("first", "second")]
    assert makespans[0] == makespans[1]


def test_bench_writes_a_folder_and_prints_a_table_for_each_runtime(tmp_path: Path) -> None:
    done = run("bench", "--suite", "quick", "--schedulers", "heft,peft", "--name", "first", cwd=tmp_path)
    assert (done.returncode, done.stderr.replace("compiling kernels (first run only)…\n", "")) == (0, "")
    assert "runtime classic" in done.stdout and "runtime links" in done.stdout
    folder = tmp_path / "results" / "first"
    assert len(rows(folder)) == 3 * 2 * 2
    assert {"rows.csv", "results.json", "report.html", "traces"} == {path.name for path in folder.iterdir()}
    assert "results/first/report.html" in done.stdout
    again = run("bench", "--suite", "quick", "--name", "first", cwd=tmp_path)
    assert again.returncode == 2 and "--force" in again.stderr and len(rows(folder)) == 12


def test_json_is_all_that_stdout_holds(tmp_path: Path) -> None:
    done = run("bench", "--suite", "quick", "--schedulers", "heft", "--runtime", "links", "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == 0 and document["format"] == "hetgym-results"
    assert {row["runtime"] for row in document["rows"]} == {"links"}
    assert Path(tmp_path, document["files"]["report"]).is_file()


def test_bench_compares_groups_and_measures_quality_against_time(tmp_path: Path) -> None:
    words = (
        "--schedulers",
        "heft,peft,lns",
        "--runtime",
        "classic",
        "--pareto",
        "--budgets",
        "1ms,2ms",
        "--by",
        "size",
    )
    done = run("bench", "--suite", "quick", *words, "--against", "peft", "--name", "p", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 budgets from 1 ms to 2 ms, after the run itself, at most 9 ms" in done.stderr
    shown = ("makespan over peft", "mean gap to best by size", "what is best within a time", "results/p/pareto.json")
    assert all(words in done.stdout for words in shown)
    assert len((tmp_path / "results" / "p" / "pareto.csv").read_text().splitlines()) == 1 + 3 * (2 + 2)


def test_problem_files_take_the_place_of_a_suite(tmp_path: Path) -> None:
    textbook("topcuoglu").save(tmp_path / "mine.npz")
    done = run(
        "bench", "--problems", "mine.npz", "--schedulers", "heft", "--name", "x", "--traces", "none", cwd=tmp_path
    )
    assert done.returncode == 0
    assert [(r["problem"], float(r["makespan_s"])) for r in rows(tmp_path / "results" / "x")][0] == ("mine", 80.0)
    assert not (tmp_path / "results" / "x" / "traces").exists()


def test_train_refuses_in_one_line(tmp_path: Path) -> None:
    done = run("train", "maskable-ppo-shedule", cwd=tmp_path)
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert done.stderr.startswith("hetgym: error: unknown recipe 'maskable-ppo-shedule'; did you mean 'maskable-ppo-")
    assert done.stderr.count("\n") == 1


def test_plan_gives_a_schedule_that_can_be_read_back(tmp_path: Path) -> None:
    words = ("plan", "squeezenet", "--platform", "cpu-gpu-npu", "--batch", "4", "--schedulers", "heft,random", "--json")
    done = run(*words, "--name", "p", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plan = json.loads((tmp_path / "results" / "p" / "plan.json").read_text())
    assert json.loads(done.stdout)["plan"] == plan
    graph = load_graph("squeezenet", batch=4)
    problem = hetgym.Problem.build(graph, load_platform("cpu-gpu-npu"))
    schedule = Schedule.from_dict(plan["schedule"])
    validate(problem, schedule)
    assert simulate(problem, schedule, plan["runtime"]).makespan == plan["makespan_s"]
    best = min(simulate(problem, baselines.get(s)(problem), "links").makespan for s in ("heft", "random"))
    assert plan["makespan_s"] == best
    assert {o["name"]: o["device"] for o in plan["operators"]} == {
        op.name: problem.device_names[d] for op, d in zip(graph.operators, schedule.assignment, strict=True)
    }
    assert sum(share["operators"] for share in plan["devices"]) == problem.num_operators
    assert sum(share["sent_bytes"] for share in plan["devices"]) == validate(problem, schedule).remote_bytes


def test_plan_shows_what_each_device_does(tmp_path: Path) -> None:
    done = run("plan", "alexnet", "--platform", "cpu-gpu", "--schedulers", "heft", cwd=tmp_path)
    assert done.returncode == 0
    assert "times as fast as everything on the best single device" in done.stdout
    assert all(word in done.stdout for word in ("device", "weights", "receives", "cpu", "gpu"))


@pytest.mark.parametrize("what", CATALOGUES)
def test_lists(what: str, tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = json.loads(run("list", what, "--json", cwd=tmp_path).stdout)[what]
    shown = run("list", what, cwd=tmp_path)
    assert shown.returncode == 0 and entries
    assert all(entry["name"] in shown.stdout for entry in entries)


def test_graphs_are_listed_with_their_sizes(tmp_path: Path) -> None:
    graph = load_graph("resnet50")
    listed = {entry["name"]: entry for entry in CATALOGUES["graphs"]()}["resnet50"]
    assert (listed["operators"], listed["edges"]) == (len(graph), len(graph.edges))
    assert 7 < listed["gflop"] < 9 and 95 < listed["weights_mb"] < 110  # 4.1 GMAC and 25.6 million weights


def test_version_and_help(tmp_path: Path) -> None:
    assert run("--version", cwd=tmp_path).stdout == f"hetgym {hetgym.__version__}\n"
    shown = run(cwd=tmp_path)
    assert shown.returncode == 0 and all(name in shown.stdout for name in ("bench", "plan", "list"))


def test_help_loads_no_numba_and_no_optional_dependency(tmp_path: Path) -> None:
    code = f"""
        import sys
        try:
            {HETGYM}
        finally:
            print("LOADED", sorted({{"numba", "torch", "onnx", "matplotlib"}} & set(sys.modules)))
    """
    done = run("--help", cwd=tmp_path, code=textwrap.dedent(code))
    assert done.stdout.splitlines()[-1] == "LOADED []"


SUITES = {
    "unknown-key.yaml": "problms: []",
    "graph.yaml": "problems: [{graphs: [resnet5], platforms: [cpu-gpu]}]",
}

MISTAKES = [
    (["bench", "--suite", "zooo"], "unknown suite 'zooo'; did you mean 'zoo'"),
    (["bench", "--suite", "unknown-key.yaml"], "unknown key 'problms'; did you mean 'problems'"),
    (["bench", "--suite", "graph.yaml"], "unknown graph 'resnet5'; did you mean 'resnet50'"),
    (["bench", "--suite", "gone.yaml"], "gone.yaml"),
    (["bench", "--schedulers", "heftt"], "unknown scheduler 'heftt'; did you mean 'heft'"),
    (["bench", "--runtime", "link"], "unknown runtime 'link'; did you mean 'links'"),
    (["bench", "--traces", "few"], "unknown choice of traces 'few'"),
    (["bench", "--suite", "quick", "--out", "a-file"], "a-file"),
    (["bench", "--suite", "quick", "--name", "../x"], "a run is named by one word"),
    (["bench", "--problems", "gone.npz"], "gone.npz: no such file"),
    (["bench", "--problems", "a-file.npz"], "a-file.npz"),
    (["bench", "--by", "size,plattform"], "unknown column to group by 'plattform'; did you mean 'platform'"),
    (["bench", "--budgets", "1ms"], "--budgets and --time-limit belong to --pareto"),
    (["bench", "--pareto", "--time-limit", "1ms"], "more than the limit of 1 ms"),
    (["bench", "--sweet", "zoo"], "No such option"),
    (["bench", "surplus"], "surplus"),
    (["benhc"], "bench"),
    (["plan"], "model"),
    (["plan", "resnet50"], "--platform"),
    (["plan", "resnet51", "--platform", "cpu-gpu"], "did you mean 'resnet50'"),
    (["plan", "resnet50", "--platform", "cpu-gp"], "did you mean 'cpu-gpu'"),
    (["plan", "gone.onnx", "--platform", "cpu-gpu"], "gone.onnx"),
    (["plan", "broken.onnx", "--platform", "cpu-gpu"], "broken.onnx"),
    (["plan", "broken.json", "--platform", "cpu-gpu"], "broken.json"),
    (["plan", "resnet50", "--platform", "cpu-gpu", "--batch", "0"], "--batch"),
    (["plan", "resnet50", "--platform", "cpu-gpu", "--dims", "N"], "--dims N: expected NAME=SIZE"),
    (["plan", "resnet50", "--platform", "cpu-gpu", "--dims", "N=2,S"], "--dims N=2,S: expected NAME=SIZE"),
    (["plan", "resnet50", "--platform", "cpu-gpu", "--dims", "N=\u00b2"], "expected NAME=SIZE"),
    (["list", "grphs"], "did you mean 'graphs'"),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_costs_one_line_and_exit_code_2(tmp_path: Path, words: list[str], message: str) -> None:
    for name, text in SUITES.items():
        (tmp_path / name).write_text(text)
    for name in ("a-file", "a-file.npz", "broken.onnx", "broken.json"):
        (tmp_path / name).write_bytes(b"\x08\x01not what it says")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("hetgym: error: ") and message in line
    assert done.stdout == ""
    assert sorted(path.name for path in tmp_path.rglob("*")) == before, "nothing may be left behind"


PLUGINS = textwrap.dedent("""
    import sys, time, warnings
    from hetgym import baselines
    calls = 0

    @baselines.register("broken", kind="search", citation="-", complexity="-")
    def broken(problem):
        raise ValueError("no luck today")

    @baselines.register("sleepy", kind="search", citation="-", complexity="-")
    def sleepy(problem):
        global calls
        calls += 1
        if calls == 3:  # the first is the warm-up
            print("ASLEEP", file=sys.stderr, flush=True)
            time.sleep(100)
        return baselines.heft(problem)

    @baselines.register("loud", kind="search", citation="-", complexity="-")
    def loud(problem):
        warnings.warn("operator 'Foo' is unknown;\\nits cost is a guess", stacklevel=1)
        return baselines.heft(problem)

""")


def test_a_failed_scheduler_is_named_and_gives_exit_code_1(tmp_path: Path) -> None:
    words = ("bench", "--suite", "quick", "--schedulers", "heft,broken", "--name", "x")
    done = run(*words, cwd=tmp_path, code=PLUGINS + HETGYM)
    assert done.returncode == 1
    assert "failed: broken on topcuoglu: ValueError: no luck today" in done.stderr
    assert "Traceback" not in done.stderr and "broken (3 failed)" in done.stdout
    assert [r["status"] for r in rows(tmp_path / "results" / "x")].count("ok") == 6


def test_a_warning_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PLUGINS + HETGYM, "bench", "--suite", "quick", "--schedulers", "loud"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    lines = [line for line in done.stderr.splitlines() if "Foo" in line]
    assert lines == ["hetgym: warning: operator 'Foo' is unknown; its cost is a guess"]


def stopped(tmp_path: Path, how: signal.Signals) -> subprocess.Popen[str]:
    """A run that gets a signal while the second problem is being scheduled."""
    command = [sys.executable, "-c", PLUGINS + HETGYM, "bench", "--suite", "quick", "--schedulers", "heft,sleepy"]
    process = subprocess.Popen(
        [*command, "--name", "x"], cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if "ASLEEP" in line:
            break
    time.sleep(0.1)
    process.send_signal(how)
    return process


def test_ctrl_c_keeps_finished_rows_and_writes_the_summary(tmp_path: Path) -> None:
    process = stopped(tmp_path, signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in error and "interrupted: 1 of 3 problems are complete" in error
    folder = tmp_path / "results" / "x"
    assert [r["scheduler"] for r in rows(folder)] == ["heft"] * 2 + ["sleepy"] * 2 + ["heft"] * 2
    assert json.loads((folder / "results.json").read_text())["interrupted"]
    assert (folder / "report.html").is_file() and "runtime links" in out


def test_a_killed_run_keeps_its_finished_rows(tmp_path: Path) -> None:
    process = stopped(tmp_path, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    kept = rows(tmp_path / "results" / "x")
    assert [r["scheduler"] for r in kept] == ["heft"] * 2 + ["sleepy"] * 2 + ["heft"] * 2
    assert all(r["gap_to_best"] for r in kept[:4])


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    code = f"{sys.executable} -c '{HETGYM}' list schedulers | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, env=ENVIRONMENT
    )
    assert "Traceback" not in done.stderr


def test_dims_may_be_joined_by_commas_or_repeated() -> None:
    from hetgym.cli.main import _sizes

    assert _sizes(["N=2,S=16"]) == _sizes(["N=2", "S=16"]) == _sizes(["N=2, S=16", "N=2"]) == {"N": 2, "S": 16}
    with pytest.raises(hetgym.ConfigError, match="N is given as 2 and as 3"):
        _sizes(["N=2,N=3"])
