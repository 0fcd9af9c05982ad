"""Scores of programs, and the fresh problems on which they are judged."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cli.commands import ask, command, said
from scoring.others import all_gone, descendants

from hetgym.baselines import get
from hetgym.errors import ConfigError
from hetgym.scoring import REFERENCE, Limits, Program, fresh_problems, score
from hetgym.sim import simulate
from hetgym.workloads import ProblemSpec, load_suite

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="programs run in forks")

slow = functools.partial(pytest.param, marks=pytest.mark.slow)
PATIENT = Limits(seconds=100.0)
"""For programs that call schedulers, whose kernels may have to be compiled."""

FRAIL = """
from hetgym.baselines import get

def schedule(problem, runtime):
    if problem.num_devices == 4:
        raise ValueError("four devices")
    return get("heft")(problem, runtime)
"""


def test_rows_are_ratios_to_best_known_makespans_and_to_a_search(tmp_path: Path) -> None:
    (tmp_path / "frail.py").write_text(FRAIL)
    specs = [spec for spec in load_suite("hetbench-v2").specs if spec.name.startswith(("cholesky", "layered-20"))][2:4]
    done = []
    with Program(tmp_path / "frail.py", PATIENT) as program:
        found = score(
            program, specs, fresh_problems(specs, 2, 3), ["links", "links"], lambda *told: done.append(told[1:])
        )
    assert done == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    first, second, *_ = found["rows"]
    problem, known = specs[0].build(), specs[0].known
    assert known is not None
    assert first["makespan_s"] == simulate(problem, get("heft")(problem, "links"), "links").makespan
    assert (first["reference"], first["reference_s"]) == ("best known", known.best["links"].makespan_s)
    assert first["score"] == first["reference_s"] / first["makespan_s"] < 1
    assert (second["status"], second["score"], second["makespan_s"]) == ("ValueError: four devices", 0.0, None)
    assert [row["reference"] for row in found["rows"]] == ["best known"] * 2 + [REFERENCE] * 2
    for name, rows in (("shown", found["rows"][:2]), ("fresh", found["rows"][2:])):
        assert found[name]["score"] == pytest.approx(np.mean([row["score"] for row in rows]))
        assert found[name]["valid"] == sum(row["status"] == "ok" for row in rows)
    assert found["score"] == pytest.approx(np.mean([row["score"] for row in found["rows"]]))


def test_fresh_problems_follow_from_the_seed_alone() -> None:
    specs = [ProblemSpec.textbook("topcuoglu"), ProblemSpec.textbook("arabnejad-barbosa")]
    few, many, others = fresh_problems(specs, 2, 5), fresh_problems(specs, 4, 5), fresh_problems(specs, 4, 6)
    digests = [[spec.build().digest for spec in drawn] for drawn in (few, many, others)]
    assert digests[0] == digests[1][:2]
    assert len({*digests[1], *digests[2]}) == 8
    assert not {*digests[1]} & {spec.build().digest for spec in specs}
    assert {30 <= spec.build().num_operators <= 200 for spec in many[1::2]} == {True}
    assert [spec.build().name for spec in many] == [spec.name for spec in others]  # names do not tell the seed


@pytest.mark.parametrize(("count", "seed"), [(-1, 0), (10**6, 0), (1, -1)])
def test_impossible_draws(count: int, seed: int) -> None:
    with pytest.raises(ConfigError, match="fresh problems"):
        fresh_problems([ProblemSpec.textbook("topcuoglu")], count, seed)
    with pytest.raises(ConfigError, match="there are none"):
        fresh_problems([], 1, 0)


@pytest.mark.slow
def test_the_command_prints_json_and_tells_of_failures_by_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def schedule(problem): return 3\n")
    words = ("score", "mine.py", "--suite", "quick", "--shown", "1", "--fresh", "0", "--seed", "4", "--out", "s.json")
    done = ask(*words, cwd=tmp_path)
    assert (done.returncode, said(done)) == (1, "")
    found = json.loads(done.stdout)
    assert found["rows"][0]["status"] == "schedule(problem) returned int, not a hetgym.Schedule"
    assert (found["score"], found["fresh"]["score"], found["seed"], found["suite"]) == (0.0, None, 4, "quick")
    assert (found["status"], found["calls"]) == ("ok", 1)
    assert json.loads((tmp_path / "s.json").read_text()) == found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import nothing_of_that_name\n", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        slow("def schedule(problem:\n", "SyntaxError: '(' was never closed (program.py, line 1)"),
        slow("schedule = 3\n", "defines no function schedule(problem)"),
        slow("while True: pass\n", "gave no schedule within 1 s"),
        ("import os; os._exit(3)\n", "ended with code 3 and gave no schedule"),
    ],
)
def test_a_program_that_cannot_be_loaded_is_told_once(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    seconds = "1s" if "while" in text else "60s"
    done = ask("score", "mine.py", "--suite", "quick", "--time-limit", seconds, "--out", "s.json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert (found["status"], found["rows"]) == (f"the program cannot be loaded: {says}", [])
    assert (found["score"], found["calls"], found["valid"]) == (0.0, 0, 0)
    assert (done.returncode, said(done)) == (1, f"{found['status']}\n")
    assert json.loads((tmp_path / "s.json").read_text()) == found


SLOW = """
from hetgym import Schedule
from hetgym.baselines import get

def schedule(problem):
    made = get("heft")(problem)
    speed = {"topcuoglu": 5e-324, "arabnejad-barbosa": 1e-306}.get(problem.name, 0.5)
    return Schedule(made.assignment, made.device_order(problem), speed=[speed] * problem.num_operators)
"""


@pytest.mark.slow
def test_times_beyond_those_of_problems_are_failures(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    words = ("score", "slow.py", "--suite", "quick", "--shown", "2", "--fresh", "1", "--time-limit", "100s")
    done = ask(*words, "--runtimes", "classic", "links", cwd=tmp_path)
    found = json.loads(done.stdout)
    long = "speed: operator 0 ('T1') would take more than 1e+100 s"
    assert [row["status"] for row in found["rows"]] == [long] * 4 + ["ok"] * 2
    assert found["valid"] == 2


STAYS = """
import ctypes, os, signal, time
from hetgym.baselines import get

def schedule(problem):
    if problem.name == "topcuoglu":
        return get("heft")(problem)
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # no signal when the parent ends
    for number in (signal.SIGXCPU, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0)
    os.mkdir("note", 0o300)
    time.sleep(100)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.parametrize("how", [*map(slow, ("SIGTERM", "SIGKILL")), "all SIGKILL"])
def test_whatever_ends_the_scorer_loses_no_row_and_leaves_nothing(tmp_path: Path, how: str) -> None:
    (tmp_path / "stays.py").write_text(STAYS)
    (tmp_path / "tmp").mkdir()
    words = command("score", "stays.py", "--suite", "quick", "--fresh", "0", "--time-limit", "100s", "--out", "s.json")
    environment = os.environ | {"TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as scorer:
        try:
            until, started = time.monotonic() + 300, list[int]()
            while len(started) < 2 or not list((tmp_path / "tmp").glob("hetgym-score-*/*/note")):
                assert scorer.poll() is None and time.monotonic() < until
                time.sleep(0.05)
                started = descendants(scorer.pid)
            scorer.send_signal(signal.SIGTERM if how == "SIGTERM" else signal.SIGKILL)
            if how == "all SIGKILL":
                os.kill(started[0], signal.SIGKILL)  # the nursery; its child has refused the signal
            printed = scorer.communicate(timeout=60)[0]
        finally:
            scorer.kill()
    assert all_gone(started, 20.0)
    kept = json.loads((tmp_path / "s.json").read_text())
    assert kept["status"].startswith("unfinished: 1 of ") and [row["status"] for row in kept["rows"]] == ["ok"]
    if how == "SIGTERM":
        assert scorer.returncode == 130 and json.loads(printed) == kept
    assert bool(list((tmp_path / "tmp").iterdir())) == (how == "all SIGKILL")  # the next run removes it


def test_an_output_that_cannot_be_written_is_refused_before_the_calls(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("schedule = 3\n")
    words = ("score", "mine.py", "--suite", "quick", "--shown", "1", "--fresh", "0", "--out")
    for out in ("none/s.json", "."):
        done = ask(*words, out, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "") and "cannot be written" in said(done)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


def test_the_result_is_printed_although_its_file_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from hetgym._input import files as _files
    from hetgym.cli.score import score as command

    def full(*_: object) -> None:
        raise ConfigError("the disk is full")

    (tmp_path / "mine.py").write_text("def schedule(problem): return 3\n")
    monkeypatch.setattr(_files, "write_bytes", full)
    with pytest.raises(ConfigError, match="the disk is full"):
        command(tmp_path / "mine.py", "quick", shown=1, fresh=0, seed=0, out=tmp_path / "s.json")
    assert json.loads(capsys.readouterr().out)["calls"] == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("none.py",), "no such file"),
        (("a.py", "--suite", "hetbench-v9"), "unknown suite"),
        (("a.py", "--time-limit", "0s"), "'0s'"),
        (("a.py", "--memory-limit", "much"), "Invalid size 'much'"),
        (("a.py", "--memory-limit", "500MB"), "memory limit"),
        (("a.py", "--runtimes", "linx"), "unknown runtime"),
        (("a.py", "--suite", "quick", "--shown", "0", "--fresh", "0"), "at least one problem"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    (tmp_path / "a.py").write_text("")
    done = ask("score", *words, cwd=tmp_path)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1
