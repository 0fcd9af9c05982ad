"""A Numba whose internals differ: kernels work as Numba itself compiles them, which is said once."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from hetgym._kernels.internals import difference

SCRIPT = """
import hetgym
from hetgym.workloads import textbook
problem = textbook("topcuoglu")
schedule = hetgym.baselines.get("heft")(problem)
trace = hetgym.simulate(problem, schedule)
print(trace.makespan, trace.start.tolist())
"""

CHANGES = {
    "a class is gone": "import numba.core.codegen as c; del c.JITCodeLibrary\n",
    "a release that nobody looked at": "import numba; numba.__version__ = '9.0.0'\n",
}


def run(change: str, folder: Path) -> tuple[str, str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", change + SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def test_a_trial_kernel_of_an_unknown_release_may_fail() -> None:
    script = (
        "import numba; numba.__version__ = '9.0.0'\n"
        "from hetgym._kernels import compiler, internals\n"
        "compiler.StepLibrary._finalize_final_module = lambda self: 1 / 0\n"
        "print(internals.difference())\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "division by zero" in found


def test_this_numba_is_known() -> None:
    assert difference() == ""


LIKELY = "a release that nobody looked at"


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [name if name == LIKELY else pytest.param(name, marks=pytest.mark.slow) for name in sorted(CHANGES)]
)
def test_results_are_the_same_with_another_numba(change: str, tmp_path: Path) -> None:
    with redirect_stdout(io.StringIO()) as usual:
        exec(SCRIPT, {})
    found, said = run(CHANGES[change], tmp_path)
    assert found == usual.getvalue()
    assert said.count("differs from the releases that hetgym knows") == (change != LIKELY)
    if change == "a class is gone":
        (folder,) = tmp_path.iterdir()  # named by the sources: nothing else tells which kernels are stale
        assert len(folder.name) == 16 and list(folder.rglob("*.nbc"))
        assert "compiling kernels" not in run(CHANGES[change], tmp_path)[1]
