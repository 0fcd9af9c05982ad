"""Confinement: what a process gives up before it runs untrusted code.

Each measure is taken where the system has it; :func:`confine` says which. Together they are no sandbox against a
determined attacker: the process may read what its user may read, and use most of the kernel's interface.
"""

import ctypes
import os
import signal
import struct
import sys
from pathlib import Path

from hetgym.scoring.landlock import allow_writing
from hetgym.scoring.limits import OPEN_FILES, Limits
from hetgym.scoring.seccomp import refuse_calls

_CAPABILITY_VERSION = 0x20080522
_CLONE_NEWUSER = 0x10000000
_PR_SET_DUMPABLE = 4


def confine(limits: Limits, folder: Path) -> list[str]:
    """Take all measures that the system has, permanently, for this process; return the names of those that hold.

    They are ``limits`` (processor time, address space, files, processes), ``processes`` (the memory of others cannot be
    read or written by way of ``/proc``), ``files`` (no changes outside the folder), ``capabilities`` (a root user's
    privileges are gone), ``calls`` (no processes or sockets, nothing done to other processes, no changes of files'
    permissions, owners and times).
    """
    held = ["limits"] if _set_limits(limits) else []
    apart = _enter_own_namespace()
    if allow_writing(folder):
        held.append("files")
    if apart or "files" in held:  # Landlock guards processes outside of its own domain
        held.append("processes")
    if _drop_capabilities():
        held.append("capabilities")
    if refuse_calls():
        held.append("calls")
    else:  # threads count as processes here, so a program gets none; a root user's are not counted
        _limit("RLIMIT_NPROC", 0, 0)
    return held


def hide() -> None:
    """Refuse other processes of the same user a look into this one and its children, by ``/proc`` or a debugger.

    Core dumps are given up, too. Only Linux can do this; elsewhere the call does nothing.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _enter_own_namespace() -> bool:
    """Enter a user namespace of its own, from which no process outside can be traced; False where this is refused."""
    return sys.platform == "linux" and bool(ctypes.CDLL(None).unshare(_CLONE_NEWUSER) == 0)


def _set_limits(limits: Limits) -> bool:
    """Limits of the operating system; True if it took them all."""
    if hasattr(signal, "SIGXFSZ"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing too long a file is an error, not the process's end
    memory, file = int(limits.memory), int(limits.file)
    return all(
        [
            _limit("RLIMIT_CPU", limits.cpu_seconds, limits.cpu_seconds + 1),
            _limit("RLIMIT_AS", memory, memory),
            _limit("RLIMIT_FSIZE", file, file),
            _limit("RLIMIT_CORE", 0, 0),
            _limit("RLIMIT_NOFILE", OPEN_FILES, OPEN_FILES),
        ]
    )


def _limit(name: str, soft: int, hard: int) -> bool:
    """Set a limit; False if the system has none of that name or refuses it, as macOS refuses that of memory."""
    try:
        import resource

        resource.setrlimit(getattr(resource, name), (soft, hard))
    except (ImportError, AttributeError, OSError, ValueError):
        return False
    return True


def _drop_capabilities() -> bool:
    """Give up all capabilities, which a root user has, so that limits cannot be raised and files' permissions count."""
    if sys.platform != "linux":
        return os.name == "posix" and os.getuid() != 0
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)) == 0)
