"""The nursery: a process that has loaded hetgym, and forks a limited child for every call of an untrusted program.

It is started afresh and gets the program's text and problems, never a score, a best-known value or another program. A
:mod:`child <hetgym.scoring.child>` calls the program once and ends. What it changes, hetgym's own functions included,
ends with it. When the scorer ends, by whatever signal, the nursery ends its child and removes its folder.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hetgym._process import end_with_parent
from hetgym.planning import evaluate, place_by_priority
from hetgym.problem import Problem
from hetgym.scoring.child import live
from hetgym.scoring.confinement import confine, hide
from hetgym.scoring.folders import remove_folder
from hetgym.scoring.limits import THREADS, Limits, answer_limit
from hetgym.sim import simulate
from hetgym.workloads import textbook
from hetgym.workloads.packing import unpack_problem

_PIECE = 1 << 16
_PATIENCE = 0.1  # time for a child to end that has closed its pipe [s]
_LOOK = 0.02  # time between two counts of a child's threads [s]
_PR_SET_CHILD_SUBREAPER = 36


def main(descriptor: int, parent: int) -> None:
    """Serve requests on a socket until the parent closes its end or ends, then remove the working folder."""
    folder = Path.cwd()
    try:
        try:
            _exit_with(parent)
            hide()
            if sys.platform == "linux":
                ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            with contextlib.suppress(EOFError, ConnectionError):
                _serve(descriptor)
        finally:  # what follows is not interrupted
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
    finally:
        _end_orphans()
        with contextlib.suppress(FileNotFoundError):  # the parent may have removed it
            remove_folder(folder)


def _exit_with(parent: int) -> None:
    """Exit when the parent ends, by way of all ``finally`` clauses.

    The kernel's signal comes when the thread that started this process ends, which may be sooner, and is ignored then.
    """
    own = os.getpid()

    def exit_(*_: object) -> None:
        if os.getpid() == own and os.getppid() != parent:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            sys.exit()

    signal.signal(signal.SIGTERM, exit_)
    end_with_parent(parent, signal.SIGTERM)


def _serve(descriptor: int) -> None:
    """Answer requests until EOFError: the parent has closed its end.

    OSError is raised if files that a call left cannot be removed, since the next call must not find them.
    """
    connection: Connection[Any, Any] = Connection(descriptor)
    hello = json.loads(connection.recv_bytes())
    limits, program = Limits(**hello["limits"]), connection.recv_bytes()
    _load_kernels()
    connection.send_bytes(json.dumps({"confined": _measures(limits)}).encode())
    while True:
        request = json.loads(connection.recv_bytes())
        data = connection.recv_bytes()
        problem = unpack_problem(data) if data else None
        room = Path(tempfile.mkdtemp(dir=Path.cwd()))
        status, seconds, answer = _call(program, problem, request["runtime"], limits, room, descriptor)
        connection.send_bytes(json.dumps({"status": status, "seconds": seconds}).encode())
        connection.send_bytes(answer)
        remove_folder(room)


def _measures(limits: Limits) -> list[str]:
    """The measures that hold in children, see :func:`~hetgym.scoring.confinement.confine`; one child reports them."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(confine(limits, Path.cwd())).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as told:
        found = told.read()
    os.waitpid(child, 0)
    return list(json.loads(found)) if found else []


def _load_kernels() -> None:
    """Load the kernels that most programs use, so that no call is charged for it."""
    problem = textbook("topcuoglu")
    schedule = place_by_priority(problem, problem.mean_cost)
    simulate(problem, schedule, "links")
    evaluate(problem, schedule.assignment[None, :])


def _call(
    program: bytes, problem: Problem | None, runtime: str, limits: Limits, folder: Path, parent: int
) -> tuple[str, float, bytes]:
    """``ok`` or a sentence, the wall time [s] and the answer of one call in a child of its own in an empty folder.

    Without a problem the child only loads the program. ``parent`` is a descriptor that can be read once the parent has
    closed its end, which raises EOFError. The answer is empty unless the status is ``ok``.
    """
    reading, writing = os.pipe()
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        live(program, problem, runtime, limits, folder, writing)
    os.close(writing)
    most = answer_limit(problem.num_operators, problem.num_devices) if problem else _PIECE
    answer, stopped = b"", "parent"
    try:
        answer, stopped = _collect(child, reading, parent, began + limits.seconds, most)
    finally:
        os.close(reading)
        seconds = time.perf_counter() - began
        code = _end(child, 0.0 if stopped else _PATIENCE)
    return _status(stopped, code, answer, limits, most), seconds, answer


def _status(stopped: str, code: int, answer: bytes, limits: Limits, most: int) -> str:
    """``ok`` or the sentence that says how a call ended."""
    if stopped:
        return {
            "time": f"gave no schedule within {limits.seconds:g} s",
            "length": f"gave an answer longer than {most} bytes",
            "threads": f"had more than {THREADS} threads",
        }[stopped]
    if code == -signal.SIGXCPU:
        return f"used more than {limits.cpu_seconds} s of processor time"
    if code < 0 and not answer:
        return f"was killed by {signal.Signals(-code).name}"
    return "ok" if answer else f"ended with code {code} and gave no schedule"


def _collect(child: int, reading: int, parent: int, deadline: float, most: int) -> tuple[bytes, str]:
    """What the child writes until it closes its end, and ``time``, ``length`` or ``threads`` if it was cut off."""
    pieces, size, look = list[bytes](), 0, 0.0
    while (now := time.perf_counter()) < deadline:
        if now >= look:
            look = now + _LOOK
            if _threads(child) > THREADS:
                return b"", "threads"
        ready = select.select([reading, parent], [], [], min(deadline, look) - now)[0]
        if parent in ready:
            raise EOFError
        if reading not in ready:
            continue
        piece = os.read(reading, _PIECE)
        if not piece:
            return b"".join(pieces), ""
        pieces.append(piece)
        size += len(piece)
        if size > most:
            return b"", "length"
    return b"", "time"


def _threads(process: int) -> int:
    """Number of threads of a process; 0 where the system does not tell."""
    try:
        return int(Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[17])
    except (OSError, IndexError):
        return 0


def _end(child: int, patience: float) -> int:
    """Kill the child and what it left behind; returns its exit code, or minus the signal that ended it.

    A child that has closed its end may be on its way out, and gets a moment. It has no children where system calls are
    refused; elsewhere they are in its process group or fall to this process, and both are emptied.
    """
    status = None
    until = time.perf_counter() + patience
    while status is None and time.perf_counter() < until:
        done, found = os.waitpid(child, os.WNOHANG)
        if done:
            status = found
        else:
            time.sleep(0.001)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    if status is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    _end_orphans()
    return os.waitstatus_to_exitcode(status)


def _end_orphans() -> None:
    """Kill the processes that fell to this one when their parent ended, those included that they leave in turn."""
    while orphans := _children():
        for orphan in orphans:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(orphan, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan, 0)


def _children() -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:
        return []
