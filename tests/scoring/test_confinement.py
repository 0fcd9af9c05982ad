"""What other processes of the same user keep to themselves where the system has no Landlock."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import pytest
from scoring.others import as_other_user, in_child

from hetgym.scoring import Limits, confinement

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="measures of Linux")

PR_SET_DUMPABLE = 4
WIDE = Limits(seconds=60.0, memory=float(1 << 50))


def can_read(process: int) -> bool:
    """Whether this process may open the memory of another, for reading or for writing, or its environment."""
    for name, flags in (("mem", os.O_RDONLY), ("mem", os.O_RDWR), ("environ", os.O_RDONLY)):
        try:
            os.close(os.open(f"/proc/{process}/{name}", flags))
        except PermissionError:
            continue
        return True
    return False


def test_a_program_cannot_read_the_memory_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_child(confinement._enter_own_namespace):
        pytest.skip("this system gives no user namespaces")
    monkeypatch.setattr(confinement, "allow_writing", lambda _: False)

    def other() -> bool:
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as any program that was started by its user
        own = os.getpid()

        def program() -> bool:
            before = can_read(own)
            held = confinement.confine(WIDE, tmp_path)
            return before and "processes" in held and "files" not in held and not can_read(own)

        return in_child(program)

    assert as_other_user(other)


def test_a_hidden_process_cannot_be_read(tmp_path: Path) -> None:
    def other() -> bool:
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        own = os.getpid()
        before = in_child(lambda: can_read(own))
        confinement.hide()
        return before and not in_child(lambda: can_read(own))

    assert as_other_user(other)
