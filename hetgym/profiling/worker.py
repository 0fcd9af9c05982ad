"""The measuring process: bound to its cores, capped in its instruction set, and replaced if it hangs.

It reads requests from standard input, one JSON object per line, and answers each with one line on standard output. A
request is ``{"row": [...]}``, an operator as a row of the table, or ``{"graph": {...}, "rounds": k}``. A parent that
gets no answer in time kills the process and starts another. The process ends with its parent.
"""

import json
import os
import sys
from functools import cache
from importlib import import_module
from typing import IO, Any

import numpy as np

from hetgym._process import end_with_parent
from hetgym._text import csv_text
from hetgym.errors import UnsupportedOperator
from hetgym.graph.ops import Operator, Tensor
from hetgym.graph.serialization import from_json
from hetgym.measurements.table import COLUMNS, read_rows
from hetgym.profiling.child import request
from hetgym.profiling.host import HostSettings
from hetgym.profiling.ingraph import GraphRunner
from hetgym.profiling.isolated import Bench
from hetgym.profiling.kernels import activations, make_kernel


def serve(
    settings: HostSettings, memory_limit: float, requests: IO[str], answers: IO[str], device: str = "cpu"
) -> None:
    """Answer requests until their stream ends."""
    settings.settle()
    _limit_memory(int(memory_limit), device)
    _warm_up(device)
    print(json.dumps({"ready": os.getpid()}), file=answers, flush=True)
    for line in requests:
        print((_apart if device == "cpu" else _answer)(json.loads(line), device), file=answers, flush=True)


def _warm_up(device: str) -> None:
    """Run a small computation, so that torch loads its libraries before a fork; it is too small to start threads.

    On CUDA gradients are computed as well, by whose thread the device must have been used before a product runs there.
    """
    image, weight, row = Tensor((1, 1, 3, 3)), Tensor((1, 1, 3, 3), constant=True), Tensor((2, 2))
    for op in (
        Operator("conv", "Conv", (image, weight), (Tensor((1, 1, 1, 1)),)),
        Operator("product", "MatMul", (row, row), (row,)),
        Operator("sum", "Add", (row, row), (row,)),
    ):
        make_kernel(op, device)(*activations(op, device))
    if device != "cpu":
        torch: Any = import_module("torch")
        with torch.enable_grad():
            x = torch.ones(1, device=device, requires_grad=True)
            torch.autograd.grad(x * x, x)


def _apart(request: dict[str, Any], device: str) -> str:
    """Answer a request in a fork of this process.

    Run times depend on the places of tensors in memory: in a process that has allocated and freed other tensors, the
    results of an operator are put into cold parts of its heap. A fresh fork is always in the same state.
    CUDA does not survive a fork, and its allocator does not need one.
    """
    if not hasattr(os, "fork"):
        return _answer(request, device)
    source, target = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if not child:
        try:
            end_with_parent(parent)
            os.close(source)
            with os.fdopen(target, "w") as file:
                file.write(_answer(request, device))
        finally:
            os._exit(0)
    os.close(target)
    with os.fdopen(source) as file:
        text = file.read()
    os.waitpid(child, 0)
    return text or json.dumps({"status": "unsupported", "why": "the process that ran it died"})


def _answer(request: dict[str, Any], device: str) -> str:
    try:
        answer = _operator(request["row"], device) if "row" in request else _graph(request, device)
    except UnsupportedOperator as error:
        answer = {"status": "unsupported", "why": str(error)}
    except (MemoryError, RuntimeError) as error:  # torch raises either if it gets no memory
        refused = isinstance(error, MemoryError) or "memory" in str(error).lower()
        answer = {"status": "memory" if refused else "unsupported", "why": str(error).partition("\n")[0]}
        answer["lost"] = "CUDA error" in str(error)  # after one, every call of this process fails
    return json.dumps(answer)


def _operator(row: list[str], device: str) -> dict[str, Any]:
    (wanted,) = read_rows(csv_text([COLUMNS, row]), "request")
    bench = _bench(device)
    timing = (bench.backward if wanted.direction == "backward" else bench.forward)(wanted.operator)
    return {
        "status": "ok",
        "seconds": timing.seconds,
        "p10": timing.p10,
        "p90": timing.p90,
        "repetitions": timing.repetitions,
    }


@cache
def _bench(device: str) -> Bench:
    """The bench of this process; a fork of the process makes its own."""
    return Bench(device)


def _graph(request: dict[str, Any], device: str) -> dict[str, Any]:
    timing = GraphRunner(from_json(request["graph"]), device).time(int(request["rounds"]))
    p10, median, p90 = np.quantile(timing.seconds, (0.1, 0.5, 0.9), axis=1)
    wall = np.quantile(timing.wall, (0.1, 0.5, 0.9))
    return {
        "status": "ok",
        "seconds": median.tolist(),
        "p10": p10.tolist(),
        "p90": p90.tolist(),
        "wall": wall.tolist(),
        "repetitions": int(request["rounds"]),
    }


def _limit_memory(limit: int, device: str) -> None:
    """Limit the memory of this process.

    Libraries of CUDA reserve much more of the address space than they use, so on a GPU only its own memory is limited.
    """
    if device != "cpu":
        cuda: Any = import_module("torch").cuda
        cuda.set_per_process_memory_fraction(min(1.0, limit / cuda.get_device_properties(device).total_memory), device)
        return
    try:
        import resource
    except ImportError:  # not on this system; only the parent's estimate limits memory
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def main() -> None:
    """Serve on the standard streams; output of libraries is redirected to standard error."""
    asked, host = request()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(host, float(asked["memory_limit"]), sys.stdin, answers, asked["device"])


if __name__ == "__main__":
    main()
