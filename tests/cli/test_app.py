"""The command line as a user meets it: exit codes, one line for each mistake, and streams that cannot be written."""

from __future__ import annotations

import functools
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from cli.commands import ENVIRONMENT, ask, command, run, said

import hetgym
from hetgym.cli.app import LONGEST_WORD, _with_values

slow = functools.partial(pytest.param, marks=pytest.mark.slow)


def test_version_and_help(tmp_path: Path) -> None:
    assert run("--version", cwd=tmp_path).stdout == f"hetgym {hetgym.__version__}\n"
    shown = run(cwd=tmp_path)
    assert shown.returncode == 0 and all(name in shown.stdout for name in ("bench", "plan", "list"))


def test_help_loads_no_numba_and_no_optional_dependency(tmp_path: Path) -> None:
    code = """
        import sys
        try:
            from hetgym.cli import main; main()
        finally:
            print("LOADED", sorted({"numba", "torch", "onnx", "matplotlib"} & set(sys.modules)))
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
    (["bench", "--schedulers", "HEFT"], "unknown scheduler 'HEFT'; did you mean 'heft'?"),
    (["bench", "--runtimes", "link"], "unknown runtime 'link'; did you mean 'links'"),
    (["bench", "--traces", "few"], "unknown choice of traces 'few'"),
    (["bench", "--suite", "quick", "--out", "a-file"], "a-file"),
    (["bench", "--suite", "quick", "--name", "../x"], "a run's name must be a single word"),
    (["bench", "--problems", "gone.npz"], "gone.npz: no such file"),
    (["bench", "--problems", "a-file.npz"], "a-file.npz"),
    (["bench", "--by", "size,plattform"], "unknown column to group by 'plattform'; did you mean 'platform'"),
    (["bench", "--budgets", "1ms"], "--budgets and --time-limit need --pareto"),
    (["bench", "--pareto", "--time-limit", "1ms"], "more than the limit of 1 ms"),
    (["bench", "--sweet", "zoo"], "No such option"),
    (["bench", "surplus"], "surplus"),
    (["benhc"], "bench"),
    (["list"], "hetgym list takes one of: graphs, llms"),
    (["plan"], "model"),
    (["plan", "resnet50"], "--platform"),
    (["plan", "resnet51", "--platform", "cpu-gpu"], "did you mean 'resnet50'"),
    (["plan", "resnet50", "--platform", "cpu-gp"], "did you mean 'cpu-gpu'"),
    (["plan", "resnet50", "--platform", "CPU-GPU"], "did you mean 'cpu-gpu'?"),
    (["plan", "gone.onnx", "--platform", "cpu-gpu"], "gone.onnx"),
    (["plan", "broken.onnx", "--platform", "cpu-gpu"], "broken.onnx"),
    (["plan", "broken.json", "--platform", "cpu-gpu"], "broken.json"),
    (["plan", "resnet50", "--platform", "cpu-gpu", "--batch", "0"], "--batch"),
    (["plan", "resnet50", "--platform", "cpu-gpu", "--dims", "N"], "--dims N: expected NAME=SIZE"),
    (["plan", "resnet50", "--platform", "cpu-gpu", "--dims", "N=2,S"], "--dims N=2,S: expected NAME=SIZE"),
    (["plan", "resnet50", "--platform", "cpu-gpu", "--dims", "N=\u00b2"], "expected NAME=SIZE"),
    (["adversary", "heft"], "'heft' is compared with nothing; name another scheduler with --against"),
    (["adversary", "heft", "--against", "peftt"], "unknown scheduler 'peftt'; did you mean 'peft'"),
    (["adversary", "heft", "peft", "--budget", "10 z"], "expected a number of problems or a time"),
    (["adversary", "heft", "peft", "--budget", "0"], "budget is 0; it must be a whole number of at least 1"),
    (["adversary", "heft", "peft", "--start", "a-file.npz"], "a-file.npz"),
    (["adversary", "heft", "peft", "--start", "a-file.npz", "--devices", "2"], "--start has its own"),
    (["adversary", "heft", "peft", "--within", "0.5"], "within is 0.5; it must be a factor from 1 to 1000"),
    (["adversary", "heft", "peft", "--operators", "0"], "both must be at least 1"),
    (["adversary", "heft", "peft", "--name", "../x"], "a run's name must be a single word"),
    (["list", "grphs"], "did you mean 'graphs'"),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_costs_one_line_and_exit_code_2(tmp_path: Path, words: list[str], message: str) -> None:
    for name, text in SUITES.items():
        (tmp_path / name).write_text(text)
    for name in ("a-file", "a-file.npz", "broken.onnx", "broken.json"):
        (tmp_path / name).write_bytes(b"\x08\x01not what it says")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    done = ask(*words, cwd=tmp_path)
    assert done.returncode == 2, done
    (line,) = said(done).splitlines()
    assert line.startswith("hetgym: error: ") and message in line
    assert done.stdout == ""
    assert sorted(path.name for path in tmp_path.rglob("*")) == before, "nothing may be left behind"


@pytest.mark.parametrize(
    "words", [["bench", "--schedulers", "heftt"], slow(["plan", "gone.onnx", "--platform", "cpu-gpu"]), slow(["plan"])]
)
def test_a_mistake_ends_a_process_alike(tmp_path: Path, words: list[str]) -> None:
    done, asked = run(*words, cwd=tmp_path), ask(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout, said(done)) == (2, "", said(asked))


@pytest.mark.parametrize(
    "words",
    [
        ["plan", "resnet50", "--platform", "cpu-gpu", "--batch", "9" * 30],
        ["plan", "resnet50", "--platform", "cpu-gpu", "--dims", "N=" + "9" * 5000],
        ["plan", "resnet50", "--platform", "x" * 5000],
        ["plan", "x" * 5000, "--platform", "cpu-gpu"],
        ["bench", "--suite", "x" * 5000],
        ["bench", "--schedulers", "x" * 5000],
        ["bench", "--against", "x" * 5000, "--suite", "quick"],
        ["bench", "--pareto", "--budgets", "9" * 5000 + "s"],
        ["bench", "--pareto", "--budgets", "1e999s"],
        ["bench", "--name", "x" * 5000, "--suite", "quick", "--schedulers", "heft"],
        ["bench", "--out", "x" * 5000, "--suite", "quick", "--schedulers", "heft"],
        ["bench", "--problems", "x" * 5000 + ".npz"],
        ["list", "x" * 5000],
        ["x" * 5000],
        ["--" + "x" * 5000],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_input_of_any_length_gives_a_short_line(tmp_path: Path, words: list[str]) -> None:
    done = ask(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr[-500:]
    (line,) = said(done).splitlines()
    assert line.startswith("hetgym: error: ") and len(line) < 3 * LONGEST_WORD


def shell(line: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which HETGYM stands for the command; it echoes its exit code to stderr at the end."""
    text = line.replace("HETGYM", " ".join(f"'{word}'" for word in command()))
    return subprocess.run(
        ["bash", "-c", text], cwd=cwd, env=ENVIRONMENT | environment, capture_output=True, text=True, timeout=300
    )


FULL = "hetgym: error: standard output cannot be written (No space left on device)\n74\n"
CLOSED = "hetgym: error: standard output cannot be written (Bad file descriptor)\n74\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("HETGYM list schedulers | head -n 1 > /dev/null; echo ${PIPESTATUS[0]} >&2", "0\n"),
        slow("HETGYM list schedulers --json | true; echo ${PIPESTATUS[0]} >&2", "0\n"),
        slow("HETGYM list schedulers > /dev/full; echo $? >&2", FULL),
        slow("HETGYM list schedulers --json > /dev/full; echo $? >&2", FULL),
        ("HETGYM --help > /dev/full; echo $? >&2", FULL),
        ("HETGYM list schedulers >&-; echo $? >&2", CLOSED),
        ("exec 3>&2; HETGYM list schedulrs 2> /dev/full; echo $? >&3", "2\n"),
        slow("exec 3>&2; HETGYM list schedulrs 2>&-; echo $? >&3", "2\n"),
    ],
)
def test_output_that_cannot_be_written(tmp_path: Path, line: str, told: str) -> None:
    assert shell(line, tmp_path).stderr == told


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        ("ascii", "list schedulers"),
        ("cp1252", "plan alexnet --platform cpu-gpu --schedulers heft,cpop"),
        *(slow(name, "plan alexnet --platform cpu-gpu --schedulers heft,cpop") for name in ("ascii", "latin-1")),
    ],
)
def test_encodings_without_typography(tmp_path: Path, encoding: str, words: str) -> None:
    done = shell(f"HETGYM {words} > out; echo $? >&2", tmp_path, PYTHONIOENCODING=encoding)
    progress, code = done.stderr.rstrip("\n").rpartition("\n")[::2]
    assert code == "0" and all(re.match("hetgym: (compiling|alexnet)", line) for line in progress.splitlines())
    assert done.stderr.isascii() and "heft" in (tmp_path / "out").read_text(encoding)


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("bench --problems a b --json", "bench --problems a --problems b --json"),
        ("bench --problems a --problems b c", "bench --problems a --problems b --problems c"),
        ("bench --problems", "bench --problems"),
        ("bench --problems a b --runtimes c d", "bench --problems a --problems b --runtimes c --runtimes d"),
        ("bench --ray --problems a", "bench --ray=local --problems a"),
        ("bench --problems a --ray", "bench --problems a --ray=local"),
        ("plan net.onnx --budget 1s", "plan net.onnx --budget 1s"),
    ],
)
def test_options_with_no_value_or_several(words: str, read: str) -> None:
    assert _with_values(words.split()) == read.split()
