"""The nursery: a process that has loaded hetgym, and forks a limited child for every call of an untrusted program.

It is started afresh and gets the program's text and problems, never a score, a best-known value or another program. A
child calls the program once, writes one JSON answer to a pipe and ends. What it changes, hetgym's own functions
included, ends with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import io
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import types
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from hetgym._process import end_with_parent
from hetgym.errors import sentence
from hetgym.planning import evaluate, place_by_priority
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.scoring.confinement import confine
from hetgym.scoring.limits import Limits, answer_limit
from hetgym.sim import simulate
from hetgym.workloads import textbook

FUNCTION = "schedule"
"""Name of the function that a program defines."""

_PIECE = 1 << 16
_PATIENCE = 0.1  # time for a child to end that has closed its pipe [s]
_PR_SET_CHILD_SUBREAPER = 36


def main(descriptor: int, parent: int) -> None:
    """Serve requests until the parent closes its end.

    Args:
        descriptor: of the socket to the parent.
        parent: process id of the parent.
    """
    end_with_parent(parent)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    connection: Connection[Any, Any] = Connection(descriptor)
    hello = json.loads(connection.recv_bytes())
    limits, program = Limits.from_dict(hello["limits"]), connection.recv_bytes()
    _load_kernels()
    connection.send_bytes(json.dumps({"confined": _measures(limits)}).encode())
    while True:
        try:
            request = json.loads(connection.recv_bytes())
        except (EOFError, OSError):
            return
        problem = Problem.load(io.BytesIO(connection.recv_bytes()))
        status, seconds, answer = _call(program, problem, request["runtime"], limits)
        connection.send_bytes(json.dumps({"status": status, "seconds": seconds}).encode())
        connection.send_bytes(answer)


def _measures(limits: Limits) -> list[str]:
    """The measures that hold in children, see :func:`~hetgym.scoring.confinement.confine`: told by one that ends."""
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
    """Load the kernels that most programs use, so that their time does not count."""
    problem = textbook("topcuoglu")
    schedule = place_by_priority(problem, problem.mean_cost)
    simulate(problem, schedule, "links")
    evaluate(problem, schedule.assignment[None, :])


def _call(program: bytes, problem: Problem, runtime: str, limits: Limits) -> tuple[str, float, bytes]:
    """One call in a child of its own.

    Returns:
        ``ok`` or a sentence, the wall time [s], and the answer, empty unless the status is ``ok``.
    """
    folder = tempfile.mkdtemp(dir=os.getcwd())
    reading, writing = os.pipe()
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        _child(program, problem, runtime, limits, Path(folder), writing)
    os.close(writing)
    most = answer_limit(problem.num_operators, problem.num_devices)
    try:
        answer, stopped = _collect(reading, began + limits.seconds, most)
    finally:
        os.close(reading)
        seconds = time.perf_counter() - began
        code = _end(child)
        shutil.rmtree(folder, ignore_errors=True)
    if stopped == "time":
        return f"gave no schedule within {limits.seconds:g} s", seconds, b""
    if stopped == "length":
        return f"gave an answer longer than {most} bytes", seconds, b""
    if code == -signal.SIGXCPU:
        return f"used more than {limits.cpu_seconds} s of processor time", seconds, b""
    if code < 0 and not answer:
        return f"was killed by {signal.Signals(-code).name}", seconds, b""
    if not answer:
        return f"ended with code {code} and gave no schedule", seconds, b""
    return "ok", seconds, answer


def _collect(reading: int, deadline: float, most: int) -> tuple[bytes, str]:
    """What the child writes until it closes its end, and ``time`` or ``length`` if it was cut off."""
    pieces, size = list[bytes](), 0
    while True:
        left = deadline - time.perf_counter()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            return b"", "time"
        piece = os.read(reading, _PIECE)
        if not piece:
            return b"".join(pieces), ""
        pieces.append(piece)
        size += len(piece)
        if size > most:
            return b"", "length"


def _end(child: int) -> int:
    """Kill the child and what it left behind; returns its exit code, or minus the signal that ended it.

    A child that has closed its end may be on its way out, and gets a moment. It has no children where system calls are
    refused; elsewhere they are in its process group or fall to this process, and both are emptied.
    """
    status = None
    patience = time.perf_counter() + _PATIENCE
    while status is None and time.perf_counter() < patience:
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
    for orphan in _orphans():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(orphan, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(orphan, 0)
    return os.waitstatus_to_exitcode(status)


def _orphans() -> list[int]:
    """Processes that fell to this one when their parent ended, those included that they leave in turn."""
    path = f"/proc/self/task/{os.getpid()}/children"
    try:
        return [int(word) for word in Path(path).read_text().split()]
    except OSError:
        return []


def _child(program: bytes, problem: Problem, runtime: str, limits: Limits, folder: Path, writing: int) -> NoReturn:
    """The life of a child: confined, it calls the program and writes its answer."""
    code = 1
    try:
        end_with_parent(os.getppid())
        os.setsid()
        os.chdir(folder)
        (folder / "program.py").write_bytes(program)
        _leave_behind(writing, folder)
        os.environ.clear()
        os.environ |= {"HOME": str(folder), "TMPDIR": str(folder), "PATH": os.defpath, "LANG": "C.UTF-8"}
        tempfile.tempdir = None
        confine(limits, folder)
        text = json.dumps(_answer(program, problem, runtime)).encode()
        while text:
            text = text[os.write(writing, text) :]
        code = 0
    except BaseException as error:
        with contextlib.suppress(BaseException):
            os.write(writing, json.dumps({"error": _said(error)}).encode())
    finally:
        os._exit(code)


def _leave_behind(writing: int, folder: Path) -> None:
    """Close all files but the pipe; input is empty, and what is printed is dropped."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    for name in os.listdir("/dev/fd"):
        if name.isdigit() and int(name) > 2 and int(name) != writing:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _answer(program: bytes, problem: Problem, runtime: str) -> dict[str, Any]:
    """Run the program's text, and its function on the problem."""
    module = types.ModuleType("program")
    module.__file__ = os.path.abspath("program.py")
    sys.modules["program"] = module
    try:
        exec(compile(program, module.__file__, "exec"), module.__dict__)  # the one thing that this process is for
        function = getattr(module, FUNCTION, None)
        if not callable(function):
            return {"error": f"defines no function {FUNCTION}(problem)"}
        made = function(problem, runtime=runtime) if _takes_runtime(function) else function(problem)
        if not isinstance(made, Schedule):
            return {"error": f"{FUNCTION}(problem) returned {type(made).__name__}, not a hetgym.Schedule"}
        return {"schedule": made.to_dict()}
    except MemoryError:
        return {"error": "MemoryError: it needs more memory than it may have"}
    except BaseException as error:  # SystemExit and KeyboardInterrupt, too, are the program's failures
        return {"error": _said(error)}


def _takes_runtime(function: Callable[..., Any]) -> bool:
    try:
        return "runtime" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _said(error: BaseException) -> str:
    """An exception on one line."""
    try:
        text = sentence(str(error))
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
