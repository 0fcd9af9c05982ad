"""Child: a measuring process with its own cores and environment that gives one answer or is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager
from typing import Any

from hetgym._process import end_with_parent
from hetgym.errors import ProfilingError
from hetgym.profiling.host import HostSettings


class Child(AbstractContextManager["Child"]):
    """Runs a module of the package as a program, ``python -m module REQUEST``, and reads the JSON it prints.

    The request is a JSON object. Cores and instruction-set caps are set before the process imports anything. It is
    killed when the ``with`` block is left, and when this process ends. ProfilingError is raised if it cannot start.
    """

    def __init__(
        self, module: str, request: dict[str, Any], settings: HostSettings, descriptors: tuple[int, ...] = ()
    ) -> None:
        self._module = module
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        asked = json.dumps({"host": settings.to_dict(), "parent": os.getpid(), **request})
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, asked],
                env={**os.environ, **settings.environment(), "PYTHONHASHSEED": "0"},
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise ProfilingError(f"{module} cannot be started: {error.strerror}") from error

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def answer(self, limit: float) -> dict[str, Any]:
        """The JSON object that the process prints; ProfilingError if it fails, or has none within ``limit`` [s]."""
        try:
            text, _ = self._process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise ProfilingError(f"{self._module} did not answer within {limit:g} s") from None
        if self._process.returncode:
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            raise ProfilingError(f"{self._module} failed: {lines[-1] if lines else self._process.returncode}")
        try:
            found = json.loads(text.strip().splitlines()[-1])
        except (ValueError, IndexError):
            found = None
        if not isinstance(found, dict):
            raise ProfilingError(f"{self._module} printed no answer")
        return found


def request() -> tuple[dict[str, Any], HostSettings]:
    """The parent's request, and the settings that came with it."""
    found = json.loads(sys.argv[1])
    end_with_parent(found.pop("parent"))
    host = found.pop("host")
    return found, HostSettings(tuple(host["cores"]), host["isa"])
