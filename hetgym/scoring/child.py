"""The child of a nursery: confined for good, it runs an untrusted program once and writes one JSON answer to a pipe."""

import contextlib
import inspect
import json
import os
import signal
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from hetgym._process import end_with_parent
from hetgym.errors import sentence
from hetgym.problem import Problem
from hetgym.schedule import Schedule
from hetgym.scoring.confinement import confine
from hetgym.scoring.limits import Limits

FUNCTION = "schedule"  # Name of the function that a program defines


def live(program: bytes, problem: Problem | None, runtime: str, limits: Limits, folder: Path, writing: int) -> NoReturn:
    """Run a program in this process, which has just been forked, and end.

    The program's function gets the problem; None only loads the program. The folder is empty; ``writing`` is the
    descriptor of the pipe for the answer.
    """
    code = 1
    try:
        end_with_parent(os.getppid())
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        os.chdir(folder)
        (folder / "program.py").write_bytes(program)
        _leave_behind(writing)
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


def _leave_behind(writing: int) -> None:
    """Close all files but the pipe; input is empty, and what is printed is dropped."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    for name in os.listdir("/dev/fd"):
        if name.isdigit() and int(name) > 2 and int(name) != writing:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _answer(program: bytes, problem: Problem | None, runtime: str) -> dict[str, Any]:
    """Run the program's text, and its function on the problem if there is one."""
    module = types.ModuleType("program")
    module.__file__ = os.path.abspath("program.py")
    sys.modules["program"] = module
    try:
        exec(compile(program, module.__file__, "exec"), module.__dict__)  # the one thing that this process is for
        function = getattr(module, FUNCTION, None)
        if not callable(function):
            return {"error": f"defines no function {FUNCTION}(problem)"}
        if problem is None:
            return {}
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
