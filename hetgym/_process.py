"""Child processes: Python programs with a connection to them, and those that end with their parent."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

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


def connected(
    code: str,
    environment: Mapping[str, str],
    inherited: int,
    errors: IO[bytes] | int = subprocess.DEVNULL,
    folder: Path | None = None,
) -> tuple[subprocess.Popen[bytes], "Connection[Any, Any]"]:
    """Start Python in a session of its own, and connect to it; OSError if it does not start.

    ``code`` finds packages where this process does, and ``END`` in it stands for the descriptor of its end of the
    connection. It also has the descriptor ``inherited``, and an empty standard input; only its ``errors`` are kept.
    """
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; END = {theirs.fileno()}; {code}"],
            cwd=folder,
            env=environment,
            pass_fds=(theirs.fileno(), inherited),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return process, Connection(ours.detach())
