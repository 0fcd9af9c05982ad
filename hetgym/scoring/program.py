"""Program: untrusted code that schedules problems in a process of its own, one confined child for every call."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetgym._input.files import as_path, read_bytes
from hetgym._process import connected
from hetgym.errors import ConfigError, HetgymError, sentence
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.scoring.answers import read_answer, read_schedule
from hetgym.scoring.confinement import hide
from hetgym.scoring.folders import make_folder, remove_folder
from hetgym.scoring.limits import PROGRAM, Limits, answer_limit
from hetgym.workloads.packing import pack_problem

START = 300.0  # Longest start of a nursery, which compiles kernels once after an installation [s]
_GRACE = 30.0  # Time beyond a call's limit after which its nursery is given up [s]
_END = 5.0  # Longest time in which a nursery ends by itself [s]
_PLAIN = 1 << 16  # Longest reply of a nursery but for schedules [byte]

_KEPT = ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "SYSTEMROOT")
_SINGLE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Answer:
    """The outcome of one call."""

    schedule: Schedule | None  # the schedule, not yet validated; None if there is none
    status: str  # `ok`, or the sentence that says why there is none
    seconds: float  # wall time of the call [s]


class Program(AbstractContextManager["Program"]):
    """A Python file that defines ``schedule(problem)`` or ``schedule(problem, runtime)``, run outside this process.

    The file is never imported here. Problems go out as ``.npz`` bytes; answers come back as JSON of bounded length and
    are read by the strict parser. A context manager: its process ends with the block. Where the system cannot keep a
    program from the memory of other processes of its user, the first call hides that of this process, which then writes
    no core dumps and takes no debugger.

    Each call runs in a new child of a process that has loaded hetgym and nothing else, with the problem and the
    program's text. Standard input is empty, output is dropped, and the environment holds four variables. What the
    program changes in hetgym ends with the child, and child and folder end with the scorer. These measures hold where
    the system has them:

    - ``limits``: wall time, processor time of one second more, address space (not on macOS), length of files, 64 open
      files. 64 threads on Linux.
    - ``files``: no file is made, written or removed outside an empty folder that is deleted after the call (Linux 5.13
      with Landlock; before Linux 6.2 a file can be emptied).
    - ``processes``: memory, environment and open files of other processes can neither be read nor written (Linux with
      Landlock or user namespaces).
    - ``capabilities``: a root user's privileges are given up.
    - ``calls``: no new processes, programs or sockets, no signals to other processes, no changed limits, permissions,
      owners or times (Linux on x86-64, where it is tested, and AArch64). Without it a program may use the network, and
      only users other than root are kept from new processes.

    This is not a sandbox against a determined attacker: a program may read every file that its user may read, use most
    of the kernel, write many files within its time, and slow down what runs beside it, which distorts times but no
    score.

    Args:
        path: the file.
        limits: what each call may use.

    Attributes:
        text: the file's content.
        confined: measures that hold in each call, see :func:`hetgym.scoring.confinement.confine`; empty before the
            first.

    Raises:
        ConfigError: the file is missing, longer than :data:`~hetgym.scoring.limits.PROGRAM` or not text, or the system
            cannot fork processes.
    """

    def __init__(self, path: str | Path, limits: Limits | None = None) -> None:
        if not hasattr(os, "fork"):
            raise ConfigError("programs are run in forks of a process, which this system does not have")
        self.path, self.limits = as_path(path, "a program", ConfigError), limits or Limits()
        self.text = read_bytes(self.path, PROGRAM, ConfigError)
        self.confined: tuple[str, ...] = ()
        self._nursery: _Nursery | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; the next call starts another."""
        if self._nursery is not None:
            self._nursery.kill()
            self._nursery = None

    def load(self) -> str:
        """Run the program's text, not its function; ``ok``, or the sentence that says what went wrong."""
        status, _, data = self._ask(None, "")
        if status != "ok":
            return status
        try:
            read_answer(data)
        except HetgymError as error:
            return str(error)
        return "ok"

    def schedule(self, problem: Problem, runtime: str = "classic") -> Answer:
        """Call the program's function once, for a problem whose schedule runs under a runtime preset."""
        status, seconds, data = self._ask(problem, runtime)
        if status != "ok":
            return Answer(None, status, seconds)
        try:
            return Answer(read_schedule(data, problem), "ok", seconds)
        except HetgymError as error:
            return Answer(None, str(error), seconds)

    def _ask(self, problem: Problem | None, runtime: str) -> tuple[str, float, bytes]:
        """One call: ``ok`` or a sentence, its wall time [s], and the answer."""
        if self._nursery is None:
            self._nursery = _Nursery(self.text, self.limits)
            self.confined = self._nursery.confined
            if "processes" not in self.confined:
                hide()
        began = time.perf_counter()
        try:
            reply, data = self._nursery.ask(problem, runtime, self.limits.seconds + _GRACE)
        except (OSError, EOFError, ValueError) as cause:
            self.close()
            why = sentence(str(cause)) or type(cause).__name__
            return f"ended the process that runs it ({why})", time.perf_counter() - began, b""
        return str(reply["status"]), float(reply["seconds"]), data


class _Nursery:
    """The process of :mod:`hetgym.scoring.nursery`, in a session and an empty folder of its own."""

    def __init__(self, text: bytes, limits: Limits) -> None:
        self._folder, self._lock = make_folder()
        code = f"from hetgym.scoring.nursery import main; main(END, {os.getpid()})"
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "TMPDIR": str(self._folder)}
        environment |= dict.fromkeys(_SINGLE, "1")
        try:
            self._process, self._connection = connected(code, environment, self._lock, folder=self._folder)
        except OSError as error:
            self._remove()
            raise ConfigError(f"the process that runs programs cannot be started ({error.strerror})") from error
        try:
            self._connection.send_bytes(json.dumps({"limits": limits.to_dict()}).encode())
            self._connection.send_bytes(text)
            self._wait(START)
            self.confined = tuple(json.loads(self._connection.recv_bytes(_PLAIN))["confined"])
        except (OSError, EOFError) as error:
            self.kill()
            raise ConfigError("the process that runs programs ended before it was ready") from error
        except BaseException:
            self.kill()
            raise

    def ask(self, problem: Problem | None, runtime: str, limit: float) -> tuple[dict[str, Any], bytes]:
        """Send a problem, or none to load the program only; the reply, and the program's answer.

        If the process has ended, or does not reply within ``limit`` [s], OSError or EOFError is raised.
        """
        self._connection.send_bytes(json.dumps({"runtime": runtime}).encode())
        self._connection.send_bytes(pack_problem(problem) if problem else b"")
        self._wait(limit)
        reply = json.loads(self._connection.recv_bytes(_PLAIN))
        self._wait(limit)
        most = answer_limit(problem.num_operators, problem.num_devices) if problem else _PLAIN
        return reply, self._connection.recv_bytes(most)

    def _wait(self, limit: float) -> None:
        if not self._connection.poll(limit):
            raise TimeoutError(f"no reply within {limit:g} s")

    def kill(self) -> None:
        """End the process and its children, and remove its folder."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as end:
            end.shutdown(socket.SHUT_RDWR)  # whereupon it ends its child and itself
        self._connection.close()
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._remove()

    def _remove(self) -> None:
        """Remove the folder; one that stays is tried again when a later process makes its own."""
        with contextlib.suppress(OSError):
            remove_folder(self._folder)
        os.close(self._lock)
