"""Compiled kernels must not outlive the code that they were compiled from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from numba.core.caching import IndexDataCacheFile

import hetgym
from hetgym._kernels.cache import known_kernels, save_kernel
from hetgym._kernels.jit import lean, step

SCRIPT = """
import numpy as np
from hetgym._kernels.interpreted import compile_at_once
from hetgym.planning.ranks import list_order
from hetgym.workloads import textbook
arrays = textbook("topcuoglu").arrays
compile_at_once()
print(list_order(arrays, np.arange(10.0)).tolist())
"""


@pytest.mark.slow
def test_a_change_in_a_called_kernel_or_its_records_is_seen_by_its_callers(tmp_path: Path) -> None:
    """In another copy of the package, the operator of the least priority then comes first."""
    package = tmp_path / "hetgym"
    shutil.copytree(Path(hetgym.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))

    def order() -> list[int]:
        done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=True)
        return list(map(int, done.stdout.strip("[]\n").split(",")))

    assert order() == [0, 5, 4, 3, 2, 6, 1, 8, 7, 9]
    queue = package / "planning" / "ready_queue.py"
    text = queue.read_text("utf-8")
    assert text.count("READY, -priority[") == 2
    queue.write_text(text.replace("READY, -priority[", "READY, priority["), "utf-8")
    changed = order()
    assert changed == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    for path in package.rglob("*.py"):
        path.write_text(path.read_text("utf-8").replace("ReadyQueue", "Waiting"), "utf-8")  # a record of cached kernels
    assert order() == changed


STEPS = """
import sys
from hetgym._kernels.jit import lean, step

@step
def twice(x):
    return 2 * x

@lean
def one(x):
    return twice(x) + 1

@lean
def other(x):
    return twice(x) + 2

print({"one": one, "other": other}[sys.argv[1]](3))
(overload,) = twice.overloads.values()
print(type(overload.library).__name__, overload.library.get_pointer_to_function(overload.fndesc.llvm_func_name))
"""


@pytest.mark.slow
def test_a_step_from_the_cache_has_no_machine_code_either(tmp_path: Path) -> None:
    """It would not be optimised, and would take the place of that in kernels that contain the same step."""
    script = tmp_path / "steps.py"
    script.write_text(STEPS, "utf-8")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for name, result in (("one", "7"), ("other", "8")):
        command = [sys.executable, str(script), name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [result, "StepLibrary", "0"]
    assert len(list((tmp_path / "cache").rglob("steps.twice*.nbc"))) == 1


@pytest.mark.slow
def test_compiling_is_announced_once_and_only_when_it_takes_long(tmp_path: Path) -> None:
    """The first run compiles for longer than the patience; the second finds everything in the cache."""
    script = (
        "from hetgym import baselines; from hetgym._kernels.jit import compiling; compiling._patience = 0.5\n"
        "from hetgym.workloads import textbook\n"
        "for name in ('heft', 'peft'):\n    print(baselines.get(name)(textbook('topcuoglu')).makespan)\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def python() -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout, done.stderr

    first, second = python(), python()
    assert first[1] == "hetgym: compiling kernels once …\n"
    assert second == (first[0], "")


def test_a_constant_that_kernels_import_is_part_of_their_stamp(tmp_path: Path) -> None:
    """Columns are numbered in files without kernels; a cached kernel must not go on writing to the old ones."""
    package = tmp_path / "hetgym"
    shutil.copytree(Path(hetgym.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))

    def stamp() -> str:
        script = "from hetgym._kernels.cache import sources_stamp; print(sources_stamp())"
        done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout

    before = stamp()
    (package / "cli" / "__init__.py").write_text("# no kernel imports anything of this\n", "utf-8")
    assert stamp() == before
    columns = package / "envs" / "place" / "observation.py"
    lines = columns.read_text("utf-8").splitlines(keepends=True)
    busy = next(k for k, line in enumerate(lines) if line.startswith("    BUSY = "))
    lines[busy], lines[busy + 1] = lines[busy + 1], lines[busy]
    columns.write_text("".join(lines), "utf-8")
    assert stamp() != before


def test_kernels_that_two_processes_save_at_the_same_time_are_not_mistaken(tmp_path: Path) -> None:
    """Each of two processes reads the empty index before the other has written it."""
    both = [IndexDataCacheFile(str(tmp_path), "kernel", "stamp") for _ in range(2)]
    for process in both:
        process._load_index = dict
    save_kernel(both[0], "plain", "code for plain")
    save_kernel(both[1], "booked", "code for booked")
    fresh = IndexDataCacheFile(str(tmp_path), "kernel", "stamp")
    assert fresh.load("booked") == "code for booked" and fresh.load("plain") is None
    save_kernel(fresh, "plain", "newer code for plain")
    assert [fresh.load(key) for key in ("booked", "plain")] == ["code for booked", "newer code for plain"]
    both[0]._save_data("kernel.1.nbc", "numbered")
    assert fresh.load("plain") == "newer code for plain"


def test_a_cache_that_cannot_be_written_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise PermissionError("read-only")

    @step
    def twice(x: float) -> float:
        return 2.0 * x

    @lean
    def outer(x: float) -> float:
        return twice(x) + 1.0

    for kernel in (twice, outer):
        locator = type(kernel._cache._impl.locator)  # type: ignore[attr-defined]
        monkeypatch.setattr(locator, "ensure_cache_path", refuse)
    assert outer(3.0) == 7.0


@pytest.mark.parametrize("error", [ModuleNotFoundError("No module named 'mine'"), AttributeError("no record")])
def test_kernels_for_types_of_another_program_are_no_obstacle(error: Exception) -> None:
    def load() -> dict[str, str]:
        raise error

    assert known_kernels(load) == {}
    assert known_kernels(lambda: {"key": "file"}) == {"key": "file"}


def test_an_interrupt_waits_for_the_end_of_a_compilation(tmp_path: Path) -> None:
    code = """
        import os, signal
        from numba.core import event
        from hetgym._kernels.jit import compiling, lean

        class Impatient(event.Listener):
            def on_start(self, event):
                os.kill(os.getpid(), signal.SIGINT)
                print("goes on", flush=True)
            def on_end(self, event):
                pass

        @lean
        def twice(x: float) -> float:
            return 2.0 * x

        before = signal.getsignal(signal.SIGINT)
        with event.install_listener("numba:compile", Impatient()):
            try:
                twice(1.0)
            except KeyboardInterrupt:
                print("interrupted", signal.getsignal(signal.SIGINT) is before, compiling.seconds > 0)
        print(twice(2.0))
    """
    (tmp_path / "kernel.py").write_text(textwrap.dedent(code))
    done = subprocess.run([sys.executable, "kernel.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["goes on", "interrupted True True", "4.0"], done.stderr
