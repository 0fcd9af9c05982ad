"""A filter of system calls for a process that runs untrusted code: no processes, no sockets, nothing done to others.

Other processes get no signals, not even by way of a file's owner, and keep their limits, their places among processors
and their memory. The process ends with its parent. Files keep their permissions, owners, times and extended attributes,
which Landlock does not guard.

Linux on x86-64 and AArch64. The filter refuses calls by name instead of allowing a list of them, since Python, NumPy
and Numba call what differs between versions. Numbers: ``arch/x86/entry/syscalls/syscall_64.tbl``,
``include/uapi/asm-generic/unistd.h``, ``fcntl.h``, ``sockios.h`` and ``include/uapi/linux/fs.h`` of Linux. Filters:
``Documentation/userspace-api/seccomp_filter.rst``.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from dataclasses import dataclass

_SHARED = {  # the same number on all architectures since Linux 5.1
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "pidfd_open": 434, "pidfd_getfd": 438, "process_madvise": 440, "memfd_secret": 447, "process_mrelease": 448,
    "fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469,
}  # fmt: skip
_X86_64 = {
    "shmget": 29, "socket": 41, "socketpair": 53, "fork": 57, "vfork": 58, "execve": 59, "semget": 64, "msgget": 68,
    "chmod": 90, "fchmod": 91, "chown": 92, "fchown": 93, "lchown": 94, "ptrace": 101, "rt_sigqueueinfo": 129,
    "utime": 132, "setpriority": 141, "mount": 165, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190,
    "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "tkill": 200, "utimes": 235, "mq_open": 240,
    "add_key": 248, "request_key": 249, "keyctl": 250, "ioprio_set": 251, "migrate_pages": 256, "fchownat": 260,
    "futimesat": 261, "fchmodat": 268, "unshare": 272, "move_pages": 279, "utimensat": 280, "rt_tgsigqueueinfo": 297,
    "perf_event_open": 298, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "memfd_create": 319, "bpf": 321, "execveat": 322, "userfaultfd": 323,
}  # fmt: skip
_AARCH64 = {
    "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16,
    "ioprio_set": 30, "mount": 40, "fchmod": 52, "fchmodat": 53, "fchownat": 54, "fchown": 55, "utimensat": 88,
    "unshare": 97, "ptrace": 117, "tkill": 130, "rt_sigqueueinfo": 138, "setpriority": 140, "mq_open": 180,
    "msgget": 186, "semget": 190, "shmget": 194, "socket": 198, "socketpair": 199, "add_key": 217, "request_key": 218,
    "keyctl": 219, "execve": 221, "migrate_pages": 238, "move_pages": 239, "rt_tgsigqueueinfo": 240,
    "perf_event_open": 241, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
    "memfd_create": 279, "bpf": 280, "execveat": 281, "userfaultfd": 282,
}  # fmt: skip


@dataclass(frozen=True)
class _Machine:
    """An architecture."""

    audit: int  # its `AUDIT_ARCH` number
    refused: dict[str, int]  # calls that fail with `EPERM`
    clone: int  # number of `clone`, which makes threads, too
    signals: tuple[int, ...]  # numbers of `kill` and `tgkill`, whose first argument is a process
    # numbers of `sched_setparam`, `sched_setscheduler`, `sched_setaffinity`, `sched_setattr` and `prlimit64`, whose
    # first argument is a process, or 0 for the caller
    settings: tuple[int, ...]
    fcntl: int  # number of `fcntl`
    ioctl: int  # number of `ioctl`
    prctl: int  # number of `prctl`


_MACHINES = {
    "x86_64": _Machine(0xC000003E, _X86_64 | _SHARED, 56, (62, 234), (142, 144, 203, 314, 302), 72, 16, 157),
    "aarch64": _Machine(0xC00000B7, _AARCH64 | _SHARED, 220, (129, 131), (118, 119, 122, 274, 261), 25, 29, 167),
}
_FCNTL = {"F_SETOWN": 8, "F_SETSIG": 10, "F_SETOWN_EX": 15, "F_SETLEASE": 1024}
"""Commands of ``fcntl`` that send signals to a file's owner, or keep others from opening the file."""
_IOCTL = {
    "FIOSETOWN": 0x8901, "SIOCSPGRP": 0x8902, "FS_IOC_SETFLAGS": 0x40086602, "FS_IOC32_SETFLAGS": 0x40046602,
    "FS_IOC_SETVERSION": 0x40087602, "FS_IOC32_SETVERSION": 0x40047602, "FS_IOC_FSSETXATTR": 0x401C5820,
    "FS_IOC_ENABLE_VERITY": 0x40806685, "FS_IOC_SET_ENCRYPTION_POLICY": 0x800C6613,
}  # fmt: skip
"""Commands of ``ioctl`` that name an owner for signals, or change flags of a file that is open for reading only."""
_PRCTL = {"PR_SET_PDEATHSIG": 1}  # Commands of `prctl` by which a process could outlive its parent
_CLONE3 = 435
_CLONE_THREAD = 0x10000
_X32 = 0x40000000  # from here on, x86-64 numbers its calls a second time

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06  # instructions of the filter's machine
_NUMBER, _ARCHITECTURE = 0, 4  # bytes into struct seccomp_data
_FIRST_ARGUMENT, _SECOND_ARGUMENT = 16, 24  # their lower halves, since both machines are little-endian
_KILL, _ERROR, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2


def refuse_calls() -> bool:
    """Refuse the calls from now on, in this thread and those that it starts; nothing takes this back.

    False where there is no filter for the system, which is then unchanged.
    """
    machine = _MACHINES.get(platform.machine()) if sys.platform == "linux" else None
    if machine is None:
        return False
    program = _program(machine, os.getpid())
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(program, len(program))

    class Fprog(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    filtered = Fprog(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(filtered), 0, 0) == 0)


def _program(machine: _Machine, process: int) -> bytes:
    """The filter: the first rule whose number equals that of the call decides, and what no rule names is allowed."""
    refuse = _step(_RETURN, _ERROR | errno.EPERM)
    rules = [_step(_LOAD, _ARCHITECTURE), _step(_EQUAL, machine.audit, 1, 0), _step(_RETURN, _KILL)]
    rules += [_step(_LOAD, _NUMBER), _step(_AT_LEAST, _X32, 0, 1), _step(_RETURN, _KILL)]
    for number in sorted(machine.refused.values()):
        rules += [_step(_EQUAL, number, 0, 1), refuse]
    # The C library makes threads by clone where clone3, whose arguments no filter sees, is said to be missing.
    rules += [_step(_EQUAL, _CLONE3, 0, 1), _step(_RETURN, _ERROR | errno.ENOSYS)]
    rules += [_step(_EQUAL, machine.clone, 0, 5), _step(_LOAD, _FIRST_ARGUMENT), _step(_AND, _CLONE_THREAD)]
    rules += [_step(_EQUAL, 0, 0, 1), refuse, _step(_RETURN, _ALLOW)]
    for number in machine.signals:
        rules += _choice(number, _FIRST_ARGUMENT, (process,), allow=True)
    for number in machine.settings:
        rules += _choice(number, _FIRST_ARGUMENT, (0, process), allow=True)
    rules += _choice(machine.fcntl, _SECOND_ARGUMENT, tuple(_FCNTL.values()), allow=False)
    rules += _choice(machine.ioctl, _SECOND_ARGUMENT, tuple(_IOCTL.values()), allow=False)
    rules += _choice(machine.prctl, _FIRST_ARGUMENT, tuple(_PRCTL.values()), allow=False)
    return b"".join([*rules, _step(_RETURN, _ALLOW)])


def _choice(number: int, argument: int, values: tuple[int, ...], allow: bool) -> list[bytes]:
    """The rule of a call by an argument: one of the values is allowed and all others are refused, or the opposite."""
    found, other = (_ALLOW, _ERROR | errno.EPERM) if allow else (_ERROR | errno.EPERM, _ALLOW)
    tests = [_step(_EQUAL, value, len(values) - k) for k, value in enumerate(values)]
    body = [_step(_LOAD, argument), *tests, _step(_RETURN, other), _step(_RETURN, found)]
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction; a jump skips that many instructions."""
    return struct.pack("=HBBI", code, if_true, if_false, value)
