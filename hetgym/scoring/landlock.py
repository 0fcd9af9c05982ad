"""Landlock: a process that can change files in one folder only (Linux 5.13 and later).

It can still read whatever its user can read. Source: ``Documentation/userspace-api/landlock.rst`` of Linux.
"""

import ctypes
import os
import struct
import sys
from pathlib import Path

from hetgym._sums import summed

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # system calls, the same on all architectures
_GET_VERSION, _BENEATH = 1, 1
_WRITE_FILE = 1 << 1
_CHANGES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))  # removing entries, and making each kind of them
_BY_VERSION = {2: 1 << 13, 3: 1 << 14}  # moving between folders, truncating
_PR_SET_NO_NEW_PRIVS = 38


def allow_writing(folder: Path) -> bool:
    """Refuse this process and its children all changes of files but those below a folder; nothing takes this back.

    False where the system has no Landlock; nothing is refused then.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _GET_VERSION)
    if version < 1:
        return False
    handled = _CHANGES | summed(right for since, right in _BY_VERSION.items() if version >= since)
    attributes = struct.pack("=Q", handled)
    rules = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules < 0:
        return False
    try:
        allowed = _allow(libc, rules, folder, handled) and _allow(libc, rules, Path(os.devnull), _WRITE_FILE)
        if not allowed or libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            return False
        return bool(libc.syscall(_RESTRICT_SELF, rules, 0) == 0)
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, path: Path, rights: int) -> bool:
    """Add a rule to a set: rights below a path."""
    beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", rights, beneath)
        return bool(libc.syscall(_ADD_RULE, rules, _BENEATH, rule, 0) == 0)
    finally:
        os.close(beneath)
