"""``hetgym adversary`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

from cli.commands import ask, run, said

from hetgym import Problem, baselines, simulate
from hetgym.cli.charts import COLUMNS, chart
from hetgym.workloads import load_problem, textbook


def test_a_pair_is_shown_with_both_charts_and_saved(tmp_path: Path) -> None:
    done = ask("adversary", "heft", "--against", "single-device", "--budget", "100", "--name", "a", cwd=tmp_path)
    assert (done.returncode, said(done)) == (0, "")
    problem = load_problem(tmp_path / "results" / "a" / "heft-against-single-device.npz")
    makespans = [simulate(problem, baselines.get(name)(problem)).makespan for name in ("heft", "single-device")]
    assert done.stdout.startswith(f"heft takes {makespans[0] / makespans[1]:.2f} times as long as single-device: ")
    assert "\nheft: " in done.stdout and "\nsingle-device: " in done.stdout and "dev0  " in done.stdout
    hint = done.stdout.splitlines()[-1].partition("hetgym ")[2]
    assert ask(*hint.split(), "--schedulers", "heft", cwd=tmp_path).returncode == 0


def test_several_schedulers_give_a_table(tmp_path: Path) -> None:
    words = ("adversary", "heft,peft", "cpop", "--budget", "20", "--runtime", "links", "--name", "m")
    done = ask(*words, cwd=tmp_path)
    assert (done.returncode, said(done)) == (0, "")
    assert "under links" in done.stdout and "scheduler" in done.stdout
    files = sorted(path.name for path in (tmp_path / "results" / "m").iterdir())
    assert len(files) == 7 and "peft-against-cpop.npz" in files and "adversary.json" in files
    again = ask(*words, cwd=tmp_path)
    assert again.returncode == 2 and "--force" in again.stderr
    alone = ask("adversary", "heft", "--against", "peft", "--budget", "5", "--name", "m", "--force", cwd=tmp_path)
    assert alone.returncode == 0
    assert {path.name for path in (tmp_path / "results" / "m").iterdir()} == {"heft-against-peft.npz", "adversary.json"}


TERMINATED = """
import signal
from hetgym.bench import adversarial
from hetgym.cli import main

def search(*rows, tell=lambda *_: None, of=adversarial.adversary, **options):
    told = []

    def count(*what):
        told.append(what)
        if len(told) == 30:
            signal.raise_signal(signal.SIGTERM)
        tell(*what)

    return of(*rows, tell=count, **options)

adversarial.adversary = search
main()
"""


def test_an_interrupt_keeps_the_problem_of_the_search_under_way(tmp_path: Path) -> None:
    done = run("adversary", "heft,peft", "cpop", "--budget", "10000", "--name", "a", cwd=tmp_path, code=TERMINATED)
    assert done.returncode == 130 and "interrupted: 1 of 6 searches" in done.stderr
    found = json.loads((tmp_path / "results" / "a" / "adversary.json").read_text())
    assert found["interrupted"] and [row["evaluations"] for row in found["found"]] == [30]
    assert load_problem(tmp_path / found["found"][0]["file"]).id == found["found"][0]["problem"]


def test_json_starts_from_a_file(tmp_path: Path) -> None:
    textbook("topcuoglu").save(tmp_path / "start.npz")
    words = ("adversary", "heft", "--against", "cpop", "--start", "start.npz", "--within", "2", "--budget", "30")
    done = ask(*words, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["found"]
    assert found["trail"][0] == {"evaluation": 1, "ratio": 80 / 86, "change": ""}
    assert load_problem(tmp_path / found["file"]).id == found["problem"]


def test_charts_fit_their_columns_and_name_what_has_room() -> None:
    problem = Problem.from_arrays([[1.0, 9.0], [9.0, 1.0], [0.001, 9.0]], [(0, 1, 2.0)], operator_names="abc")
    trace = simulate(problem, baselines.heft(problem))
    lines = chart(trace, 2 * trace.makespan)
    assert lines[0].startswith("dev0         [a--") and lines[2].startswith("dev0 > dev1            a...")
    assert [line.split()[0] for line in lines] == ["dev0", "dev1", "dev0"]
    assert all(len(line) <= len("dev0 > dev1  ") + COLUMNS / 2 + 1 for line in lines)
    assert chart(trace, 0.0)[0] == "dev0"
