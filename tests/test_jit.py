"""Compiled kernels must not outlive the code that they were compiled from."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import hetgym

SCRIPT = """
import numpy as np
from hetgym.sim.batch import evaluate
from hetgym.workloads import textbook
print(evaluate(textbook("topcuoglu"), np.zeros((1, 10), int), "links")[0])
"""


def test_a_change_in_a_called_kernel_is_seen_by_its_callers(tmp_path: Path) -> None:
    """In another copy of the package, a device then waits a second before every operator."""
    package = tmp_path / "hetgym"
    shutil.copytree(Path(hetgym.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))

    def makespan() -> float:
        done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=True)
        return float(done.stdout)

    assert makespan() == 127.0
    kernel = package / "sim" / "kernel.py"
    text = kernel.read_text("utf-8")
    kernel.write_text(text.replace("start = max(s.ready", "start = 1.0 + max(s.ready"), "utf-8")
    assert kernel.read_text("utf-8") != text
    assert makespan() == 137.0
