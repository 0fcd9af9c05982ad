"""Settings for the whole suite: deterministic property tests, shared helpers importable, no stale kernels."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # tests import oracle.py and strategies.py by name

settings.register_profile(
    "deterministic",
    deadline=None,  # kernels may compile inside the first example
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("deterministic")


def drop_stale_kernels() -> None:
    """Delete compiled kernels that are older than any file with kernels in it.

    Numba recompiles a kernel when its own file changes, but not when one that it calls does.
    """
    files = [Path(folder) / name for folder, _, names in os.walk(ROOT / "hetgym", followlinks=True) for name in names]
    newest = max(f.stat().st_mtime for f in files if f.suffix == ".py" and "hetgym._jit" in f.read_text("utf-8"))
    compiled = [f for f in files if f.suffix in (".nbi", ".nbc")]
    if any(f.stat().st_mtime < newest for f in compiled):
        for file in compiled:
            file.unlink(missing_ok=True)


drop_stale_kernels()
