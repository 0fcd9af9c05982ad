"""``hetgym bench`` as a user meets it."""

from __future__ import annotations

import functools
import json
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from cli.commands import ENVIRONMENT, HETGYM, ask, rows, run, said

from hetgym.workloads import textbook

slow = functools.partial(pytest.param, marks=pytest.mark.slow)

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


@pytest.mark.slow
def test_the_first_run_compiles_in_several_processes(tmp_path: Path) -> None:
    """Both runs give the same rows in the same order, whatever was compiled while others ran."""
    words = ("bench", "--suite", "quick", "--schedulers", "olb,heft,peft", "--runtimes", "classic")
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first = run(*words, "--name", "first", cwd=tmp_path, **cache)
    assert (first.returncode, said(first)) == (0, "") and "hetgym: compiling kernels once …\n" in first.stderr
    second = run(*words, "--name", "second", cwd=tmp_path, **cache)
    assert (second.returncode, said(second)) == (0, "") and "once" not in second.stderr
    found = [
        [row | {"schedule_seconds": ""} for row in rows(tmp_path / "results" / run)] for run in ("first", "second")
    ]
    assert found[0] == found[1] and len(found[0]) == 9


def test_bench_writes_a_folder_and_prints_a_table_for_each_runtime(tmp_path: Path) -> None:
    done = run("bench", "--suite", "quick", "--schedulers", "heft,peft", "--name", "first", cwd=tmp_path)
    assert (done.returncode, said(done)) == (0, "")
    assert "runtime classic" in done.stdout and "runtime links" in done.stdout
    folder = tmp_path / "results" / "first"
    assert len(rows(folder)) == 3 * 2 * 2
    assert {"rows.csv", "results.json", "report.html", "traces"} == {path.name for path in folder.iterdir()}
    assert "results/first/report.html" in done.stdout
    again = ask("bench", "--suite", "quick", "--name", "first", cwd=tmp_path)
    assert again.returncode == 2 and "--force" in again.stderr and len(rows(folder)) == 12


SLOW = textwrap.dedent("""
    import time
    from hetgym import _progress, baselines
    from hetgym.bench import job
    job.SCHEDULERS, _progress.PATIENCE = ("heft",), 0.2

    @baselines.register("slow", kind="list", citation="-", complexity="-")
    def slow(problem):
        time.sleep(0.05)
        return baselines.heft(problem)

""")


@pytest.mark.slow
def test_a_third_of_the_problems_gives_a_first_table(tmp_path: Path) -> None:
    """By the schedulers that run by default and one that was registered; a file is told how far the run is."""
    for k in range(13):
        textbook("topcuoglu").save(tmp_path / f"p{k}.npz")
    files = [word for k in range(13) for word in ("--problems", f"p{k}.npz")]
    words = ("bench", *files, "--runtimes", "classic", "--traces", "none")
    done = run(*words, "--name", "x", cwd=tmp_path, code=SLOW + HETGYM)
    assert done.returncode == 0, done.stderr
    first, _, last = done.stdout.partition("runtime classic: ")
    assert "runtime classic, the first 5 of 13 problems: transfers never wait" in first
    assert first.count("5/5") == last.count("13/13") == 2 and "5/5" not in last
    assert re.search(r"hetgym: 13 problem files: .*schedule.* \(\d+ s\)", done.stderr)
    json.loads(ask(*words, "--schedulers", "heft", "--json", "--name", "y", cwd=tmp_path).stdout)


def test_json_is_all_that_stdout_holds(tmp_path: Path) -> None:
    done = ask("bench", "--suite", "quick", "--schedulers", "heft", "--runtimes", "links", "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == 0 and document["format"] == "hetgym-results"
    assert {row["runtime"] for row in document["rows"]} == {"links"}
    assert Path(tmp_path, document["files"]["report"]).is_file()


@pytest.mark.slow
def test_bench_compares_groups_and_measures_quality_against_time(tmp_path: Path) -> None:
    words = (
        "--schedulers",
        "heft,peft,lns",
        "--runtimes",
        "classic",
        "--pareto",
        "--budgets",
        "1ms,2ms",
        "--by",
        "size",
    )
    done = ask("bench", "--suite", "quick", *words, "--against", "peft", "--name", "p", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 budgets from 1 ms to 2 ms, after the run itself, at most 9 ms" in done.stderr
    shown = ("makespan over peft", "mean gap to best by size", "what is best within a time", "results/p/pareto.json")
    assert all(words in done.stdout for words in shown)
    assert len((tmp_path / "results" / "p" / "pareto.csv").read_text().splitlines()) == 1 + 3 * (2 + 2)


def test_problem_files_take_the_place_of_a_suite(tmp_path: Path) -> None:
    textbook("topcuoglu").save(tmp_path / "mine.npz")
    done = ask(
        "bench", "--problems", "mine.npz", "--schedulers", "heft", "--name", "x", "--traces", "none", cwd=tmp_path
    )
    assert done.returncode == 0
    assert [(r["problem"], float(r["makespan_s"])) for r in rows(tmp_path / "results" / "x")][0] == ("mine", 80.0)
    assert not (tmp_path / "results" / "x" / "traces").exists()


def test_task_graphs_get_their_devices_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "two.stg").write_text("2\n0 0 0\n1 3 1 0\n2 4 1 0\n3 0 2 1 2\n")
    words = ("--schedulers", "heft", "--runtimes", "classic", "--name", "x", "--traces", "none")
    done = ask("bench", "--problems", "two.stg", "--devices", "2", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path / "results" / "x")
    assert [(row["problem"], float(row["makespan_s"])) for row in found] == [("two@2-devices", 4.0)]
    done = ask("bench", "--problems", "two.stg", *words, cwd=tmp_path)
    assert done.returncode == 2 and "two.stg: the file does not say how many processors" in done.stderr
    done = ask("bench", "--suite", "quick", "--devices", "2", cwd=tmp_path)
    assert done.returncode == 2 and "--devices needs --problems" in done.stderr


def test_a_failed_scheduler_is_named_and_a_warning_is_one_line(tmp_path: Path) -> None:
    words = ("bench", "--suite", "quick", "--schedulers", "heft,broken,loud", "--name", "x")
    command = [sys.executable, "-c", PLUGINS + HETGYM, *words]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "failed: broken on topcuoglu: ValueError: no luck today" in done.stderr
    assert "Traceback" not in done.stderr and "broken (3 failed)" in done.stdout
    assert [r["status"] for r in rows(tmp_path / "results" / "x")].count("ok") == 12
    lines = [line for line in done.stderr.splitlines() if "Foo" in line]
    assert lines == ["hetgym: warning: operator 'Foo' is unknown; its cost is a guess"]


def stopped(tmp_path: Path, how: signal.Signals) -> subprocess.Popen[str]:
    """A run that gets a signal while the second problem is being scheduled."""
    command = [sys.executable, "-c", PLUGINS + HETGYM, "bench", "--suite", "quick", "--schedulers", "heft,sleepy"]
    process = subprocess.Popen(
        [*command, "--name", "x"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)],
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "ASLEEP" in line:
            break
    time.sleep(0.1)
    process.send_signal(how)
    return process


@pytest.mark.parametrize("how", [signal.SIGINT, slow(signal.SIGTERM), slow(signal.SIGHUP)])
def test_a_stopped_run_keeps_finished_rows_and_writes_the_summary(tmp_path: Path, how: signal.Signals) -> None:
    process = stopped(tmp_path, how)
    out, error = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in error and "interrupted: 1 of 3 problems are complete" in error
    folder = tmp_path / "results" / "x"
    assert [r["scheduler"] for r in rows(folder)] == ["heft"] * 2 + ["sleepy"] * 2 + ["heft"] * 2
    assert json.loads((folder / "results.json").read_text())["interrupted"]
    assert (folder / "report.html").is_file() and "runtime links" in out


def test_a_killed_run_keeps_its_finished_rows(tmp_path: Path) -> None:
    process = stopped(tmp_path, signal.SIGKILL)
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    kept = rows(tmp_path / "results" / "x")
    assert [r["scheduler"] for r in kept] == ["heft"] * 2 + ["sleepy"] * 2 + ["heft"] * 2
    assert all(r["gap_to_best"] for r in kept[:4])


FULL = """
    @baselines.register("filling", kind="search", citation="-", complexity="-")
    def filling(problem):
        global calls
        calls += 1
        if calls == 3:  # from now on the disk takes no more than is there already
            import resource
            size = os.path.getsize("results/x/rows.csv")
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return baselines.heft(problem)

    @baselines.register("deleting", kind="search", citation="-", complexity="-")
    def deleting(problem):
        global calls
        calls += 1
        if calls == 3:
            import shutil
            shutil.rmtree("results")
        return baselines.heft(problem)
"""


@pytest.mark.parametrize(("scheduler", "why"), [("filling", "File too large"), slow("deleting", "No such file")])
def test_a_disk_that_fails_costs_one_line(tmp_path: Path, scheduler: str, why: str) -> None:
    code = PLUGINS + "import os\n" + textwrap.dedent(FULL) + HETGYM
    words = ("bench", "--suite", "quick", "--schedulers", f"heft,{scheduler}", "--name", "x", "--runtimes", "classic")
    done = run(*words, cwd=tmp_path, code=code)
    assert done.returncode == 2, done.stderr
    (line,) = said(done).splitlines()
    assert line.startswith("hetgym: error: ") and why in line and "results/x" in line
    if scheduler == "filling":
        kept = rows(tmp_path / "results" / "x")
        assert [row["scheduler"] for row in kept] == ["heft", "filling", "heft"]
        assert all(row["makespan_s"] for row in kept)


def test_an_imported_file_takes_part(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from hetgym import baselines\n"
        "@baselines.register('mine', kind='list', citation='-', complexity='-')\n"
        "def mine(problem):\n    return baselines.heft(problem)\n"
    )
    words = ("--suite", "quick", "--schedulers", "heft,mine", "--runtimes", "classic", "--name", "x")
    done = run("bench", *words, "--import", "mine.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path / "results" / "x")
    assert [row["makespan_s"] for row in found[::2]] == [row["makespan_s"] for row in found[1::2]]
    for file, message in (("gone.py", "gone.py"), ("broken.py", "broken.py: cannot be imported")):
        (tmp_path / "broken.py").write_text("1 / 0")
        done = ask("bench", *words, "--import", file, cwd=tmp_path)
        assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
