"""Settings for the whole suite: deterministic property tests, shared helpers importable."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

if "PYTEST_XDIST_WORKER" in os.environ:  # each worker has a core: threads would fight for them
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Threads of torch that wait for each other give their core up: where other processes need it, an example whose threads
# spin takes four times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Without their bytecode, each of a hundred processes would compile every module, and each worker would rewrite every
# test, again. Numba writes kernels into the same folders in any case.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Shells start jobs in the background with interrupts ignored, which child processes would inherit.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))  # tests import oracle.py and strategies.py by name

for profile, examples in (("fast", 25), ("slow", 200)):  # pytest --hypothesis-profile slow, see .ci/slow
    settings.register_profile(
        profile,
        max_examples=examples,
        deadline=None,  # kernels may compile inside the first example
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
settings.load_profile("fast")


gc.disable()  # while modules are imported and tests are made, millions of objects that live to the end


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over all that from now on."""
    gc.freeze()
    gc.enable()
