"""WorkerProcess: the parent's handle of a worker process, from its start to its guaranteed end."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection
from typing import Any

from hetgym.execution.devices import ExecutionDevice

_GRACE = 5.0  # Time for a worker to end by itself before it is killed [s]


class WorkerProcess:
    """Starts a worker and communicates with it.

    The worker's environment and cores are set before it imports anything. It has a session of its own, so that an
    interrupt from the terminal reaches only the parent, which then ends the worker. If the parent dies, the worker
    finds its socket closed and ends.
    """

    def __init__(self, device: ExecutionDevice, memory: int) -> None:
        self.device = device
        ours, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        code = (
            f"import os, sys; sys.path[:] = {sys.path!r}; os.sched_setaffinity(0, {set(device.host.cores)!r}); "
            f"from hetgym.execution.worker import main; main({theirs.fileno()}, {memory})"
        )
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                env={**os.environ, **device.host.environment()},
                pass_fds=(theirs.fileno(), memory),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            self._errors.close()
            raise
        finally:
            theirs.close()
        self.connection: Connection[Any, Any] = Connection(ours.detach())

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._process.pid

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; if the worker has ended, only :meth:`receive` notices it."""
        with contextlib.suppress(OSError):
            self.connection.send_bytes(json.dumps(message).encode())

    def receive(self) -> dict[str, Any] | None:
        """Wait for the worker's answer; None if it has ended."""
        try:
            answer = json.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            return None
        return answer if isinstance(answer, dict) else None

    def end(self) -> str:
        """Wait shortly for a worker that is ending, and return in words how it ended."""
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"ended with code {code}" + (f" ({lines[-1]})" if lines else "")

    def kill(self) -> None:
        """Kill the worker and wait for its end; further calls have no effect."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self.connection.close()
        self._errors.close()

    def stop(self) -> None:
        """Let the worker end by itself; kill it if it does not."""
        if self._process.poll() is None:
            self.send({"do": "stop"})
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE)
        self.kill()
