"""Child processes that end with their parent."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # of linux/prctl.h


def end_with_parent(parent: int, how: signal.Signals | None = None) -> None:
    """Ask the kernel to send this process a signal when its parent ends.

    Only Linux can do this; elsewhere the call does nothing. Children of this process do not inherit the setting. If the
    parent is gone already, the signal is sent at once; by default it is SIGKILL.
    """
    if sys.platform == "linux":
        how = how or signal.SIGKILL
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, how)
        if os.getppid() != parent:
            os.kill(os.getpid(), how)
