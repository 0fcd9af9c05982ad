"""Loaders under mutated files: a short run of what ``python -m tests.fuzz`` does at length."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

for module in ("onnx", "torch", "torch_geometric"):
    pytest.importorskip(module)

ROOT = Path(__file__).parents[2]


def fuzz(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "HETGYM_DATA"}
    command = [sys.executable, "-m", "tests.fuzz", "--workers", "1", "--out", str(tmp_path / "out"), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and processor time are Linux's")
def test_no_mutated_file_ends_in_anything_but_a_sentence(tmp_path: Path) -> None:
    ran = fuzz(tmp_path, "--inputs", "160", "--seed", "7")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "all" in ran.stdout and not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and processor time are Linux's")
def test_what_is_no_sentence_is_found(tmp_path: Path) -> None:
    """The net itself: an exception, a long line, too much memory, too much time and a crash are all caught."""
    script = f"""
import os, sys
from pathlib import Path
from hetgym.errors import GraphError
from tests.fuzz import loaders, running
calls = iter(range(10))
def read(path):
    at = next(calls)
    if at == 0: raise KeyError(3)
    if at == 1: bytearray(8 << 30)
    if at == 2: raise GraphError("fine")
    if at == 3: raise type("Loud", (GraphError,), {{"__str__": lambda self: "two\\nlines"}})()
    if at == 4: os.abort()
loaders.LOADERS["machine-card"] = loaders.Loader(read, "json")
fuzzer = running.Fuzzer(["machine-card"], 0, Path({str(tmp_path)!r}) / "out")
fuzzer.run(0, 5, 1)
print(sorted(fuzzer.findings), fuzzer.outcomes["machine-card", "refused"])
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    for words in ("KeyError at", "MemoryError at", "a message that is no sentence", "ended by -6"):
        assert words in ran.stdout, ran.stdout + ran.stderr
    assert ran.stdout.strip().endswith(" 1")
    assert len(list((tmp_path / "out").glob("*.txt"))) == 4
