"""Compiled kernels must not outlive the code that they were compiled from."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import hetgym

SCRIPT = """
import numpy as np
from hetgym.planning import decode_placement
from hetgym.workloads import textbook
print(decode_placement(textbook("topcuoglu"), np.zeros(10, np.int32)).makespan)
"""


def test_a_change_in_a_called_kernel_is_seen_by_its_callers(tmp_path: Path) -> None:
    """In another copy of the package, inputs then take a second at least to be ready."""
    package = tmp_path / "hetgym"
    shutil.copytree(Path(hetgym.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))

    def makespan() -> float:
        done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=True)
        return float(done.stdout)

    assert makespan() == 127.0
    timeline = package / "planning" / "timeline.py"
    text = timeline.read_text("utf-8")
    assert text.count("    ready = 0.0\n") == 1
    timeline.write_text(text.replace("    ready = 0.0\n", "    ready = 1.0\n"), "utf-8")
    assert makespan() == 128.0
