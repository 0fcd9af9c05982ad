"""WorkerProcess: the parent's handle of a worker process, from its start to its guaranteed end."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from typing import Any

from hetgym._process import connected
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
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        code = (
            f"import os; os.sched_setaffinity(0, {set(device.host.cores)!r}); "
            f"from hetgym.execution.worker import main; main(END, {memory})"
        )
        environment = {**os.environ, **device.host.environment()}
        try:
            self._process, self.connection = connected(code, environment, memory, self._errors)
        except BaseException:
            self._errors.close()
            raise

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
