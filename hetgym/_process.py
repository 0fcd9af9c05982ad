"""Child processes that end with their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # of linux/prctl.h


def end_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends.

    Only Linux can do this; elsewhere the call does nothing. Children of this process do not inherit the setting.

    Args:
        parent: process id of the parent, which may be gone already.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
