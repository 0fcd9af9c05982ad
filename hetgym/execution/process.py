"""WorkerProcess: a child process as its parent sees it, from its start to its certain end."""

from __future__ import annotations

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

_GRACE = 5.0
"""Time that a worker has to leave by itself [s]."""


class WorkerProcess:
    """Starts a worker and talks to it.

    Its environment and cores are set before it imports anything. It is in a session of its own, so an
    interrupt from the terminal reaches the parent alone, which then ends it; when the parent is gone
    the worker finds its socket closed and leaves.

    Args:
        device: what it is.
        memory: descriptor of the shared memory, which it inherits.
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
        """Its process id."""
        return self._process.pid

    def send(self, message: dict[str, Any]) -> None:
        """Tell it something; a worker that is gone is noticed by :meth:`receive`."""
        with contextlib.suppress(OSError):
            self.connection.send_bytes(json.dumps(message).encode())

    def receive(self) -> dict[str, Any] | None:
        """Its answer; None if it is gone."""
        try:
            answer = json.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            return None
        return answer if isinstance(answer, dict) else None

    def end(self) -> str:
        """Wait a moment for a worker that is leaving, and say how it went."""
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
        """End it now and for certain; more than once does no harm."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self.connection.close()
        self._errors.close()

    def stop(self) -> None:
        """Let it leave by itself, or end it if it does not."""
        if self._process.poll() is None:
            self.send({"do": "stop"})
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE)
        self.kill()
