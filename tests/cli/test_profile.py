"""``hetgym profile`` as a user meets it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from cli.commands import HETGYM, ask, run

from hetgym.cli.profile import _say_if_busy
from hetgym.measurements import Dataset
from hetgym.profiling.host import HostSettings

CORE = str(min(os.sched_getaffinity(0)))


@pytest.mark.slow
def test_a_profile_is_a_dataset(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    words = "--designs relu --share 0.05 --networks 1 --models squeezenet --passes 1 --cores"
    done = run("profile", "mine", *words.split(), CORE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "measurements/mine.csv.gz" in done.stdout
    dataset = Dataset.load(tmp_path / "measurements" / "mine.csv.gz")
    sources = {row.source for row in dataset.table}
    assert {"relu", "random-0-plain", "squeezenet"} == sources
    assert all(row.status == "ok" for row in dataset.table)
    assert dataset.device.peak_flops["float32"] > 1e9
    assert dataset.machine.isa_cap == "full"
    assert set(dataset.table.graphs()) == {"random-0-plain", "squeezenet"}


def test_a_table_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    table = tmp_path / "measurements" / "mine.csv.gz"
    table.parent.mkdir()
    table.write_bytes(b"")
    done = ask("profile", "mine", "--designs", "relu", "--networks", "0", "--cores", CORE, cwd=tmp_path)
    assert table.read_bytes() == b""
    assert (done.returncode, done.stdout) == (2, "")
    assert "give another --name" not in done.stderr
    assert "already exists" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("profile", "a/b"), "a single word"),
        (("profile", "x", "--designs", "convv"), "did you mean 'conv'"),
        (("profile", "x", "--cores", "zero"), "--cores zero"),
        (("profile", "x", "--time-limit", "20"), "'20'"),
        (("profile", "x", "--memory-limit", "8"), "Invalid size '8'"),
        (("profile", "x", "--cores", "99999"), "--cores 99999: this process may use the cores "),
        (("profile", "x", "--isa", "avx3"), "unknown instruction set 'avx3'"),
        (("profile", "x", "--isa", "mkl=avx2,aten=x"), "unknown instruction set 'x' for aten"),
        (("profile", "x", "--designs", "none", "--networks", "0", "--shapes", "none.csv"), "none.csv"),
        (("profile", "x", "--designs", "none", "--networks", "0"), "nothing to measure"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    pytest.importorskip("torch")
    done = ask(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hetgym: error: ") and done.stderr.count("\n") == 1
    assert said in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_busy_machine_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    child = os.fork()
    if child == 0:
        os.sched_setaffinity(0, {int(CORE)})
        end = time.monotonic() + 30.0
        while time.monotonic() < end:
            pass
        os._exit(0)
    try:
        time.sleep(0.1)
        _say_if_busy(HostSettings((int(CORE),)))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    (line,) = capfd.readouterr().err.splitlines()
    assert f"% of core {CORE}" in line and "measured times will be too long" in line


SMALL = ("profile", "mine", "--designs", "relu", "--share", "0.05", "--networks", "0", "--passes", "1", "--cores", CORE)

DOOMED = f"""
import os, signal
import hetgym.measurements.dataset as module
module.write_bytes = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
{HETGYM}
"""


@pytest.mark.slow
def test_a_profile_that_is_killed_between_its_table_and_its_card_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert run(*SMALL, cwd=tmp_path, code=DOOMED).returncode == -signal.SIGKILL
    lines = (tmp_path / "measurements" / "mine.part.csv").read_bytes().count(b"\n") - 1
    done = run(*SMALL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert lines > 0 and f"; {lines} of them measured before" in done.stderr
    assert len(Dataset.load(tmp_path / "measurements" / "mine.csv.gz").table) == lines
    assert {path.name for path in (tmp_path / "measurements").iterdir()} == {"mine.csv.gz", "mine.json"}


@pytest.mark.slow
def test_a_profile_that_is_terminated_says_how_to_go_on(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = f"""
import os, signal
from hetgym.profiling.session import Profile
measure = Profile._measure
def interrupted(self, worker, item):
    rows = measure(self, worker, item)
    os.kill(os.getpid(), signal.SIGTERM)
    return rows
Profile._measure = interrupted
{HETGYM}
"""
    done = run(*SMALL, cwd=tmp_path, code=code)
    assert done.returncode == 130 and done.stderr.splitlines()[-1].startswith("interrupted: the same command resumes")
    assert (tmp_path / "measurements" / "mine.part.csv").is_file()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "measurements").write_text("a file")
    done = ask(*SMALL, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "cannot be written" in done.stderr
