"""Small traces, made by hand, whose replay can be computed on paper; times in microseconds."""

from __future__ import annotations

import struct
from typing import Any


def event(category: str, name: str, thread: int | str, start: float, length: float, **args: Any) -> dict[str, Any]:
    """A complete event of process 1."""
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": length, "args": args}


def launch(
    start: float, length: float, correlation: int, name: str = "cudaLaunchKernel", thread: int = 1
) -> dict[str, Any]:
    """A call of the CUDA runtime."""
    return event("cuda_runtime", name, thread, start, length, correlation=correlation)


def kernel(
    start: float, length: float, correlation: int, stream: int = 7, name: str = "gemm", **args: Any
) -> dict[str, Any]:
    """A kernel of device 0."""
    return event("kernel", name, stream, start, length, correlation=correlation, device=0, stream=stream, **args)


def kineto(*events: dict[str, Any]) -> dict[str, Any]:
    """A document of Kineto, with the parts that a reader skips."""
    window = {
        "ph": "X",
        "cat": "Trace",
        "name": "PyTorch Profiler (0)",
        "pid": "Spans",
        "tid": "x",
        "ts": -500,
        "dur": 9000,
    }
    marks = [{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}}, window]
    return {"schemaVersion": 1, "traceEvents": [*marks, *events, {"ph": "s", "id": 1, "cat": "ac2g"}]}


QUEUE = kineto(
    event("cpu_op", "aten::mm", 1, 0, 100),
    launch(10, 5, 1),
    launch(30, 5, 2),
    launch(50, 45, 3, "cudaDeviceSynchronize"),
    kernel(20, 50, 1),
    kernel(70, 20, 2, name="relu"),
)
"""Two kernels in a queue, the second issued while the first runs, and a wait for both.

The first starts 10 us after its launch, the usual latency therefore; the second when the first is done. The wait ends
5 us after it."""

BACKWARD = kineto(
    event("user_annotation", "step", 1, 0, 1000),
    event("cpu_op", "aten::mm", 1, 0, 100),
    event("cpu_op", "MmBackward0", 2, 150, 600),
    event("cpu_op", "aten::add_", 1, 800, 200),
)
"""A caller that waits, within its annotation, while a second thread runs the backward pass."""


def rank(compute: float, arrives: float) -> dict[str, Any]:
    """One rank of two: computes, then all-reduces until 100; clocks differ by the start of the trace."""
    return kineto(
        event("cpu_op", "step", 1, 0, 30),
        launch(0, 5, 1),
        launch(5, 5, 2),
        kernel(10, compute, 1),
        kernel(arrives, 100 - arrives, 2, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
    )


NODES: list[dict[str, Any]] = [
    {"Id": 1, "Name": "a", "NodeType": 4, "data_deps": [], "runtime": 7, "is_cpu_op": True},
    {
        "Id": 2,
        "Name": "ncclDevKernel_AllReduce",
        "NodeType": 7,
        "data_deps": [1, 77],
        "ctrlDeps": [1],
        "runtime": 8,
        "is_cpu_op": False,
    },
]
"""The JSON form of Chakra; node 77 does not exist."""


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def field(number: int, value: int | bytes | float) -> bytes:
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    return varint(number << 3) + varint(value)


def chakra_node(number: int, duration: int, after: list[int], host: bool, **fields: int) -> bytes:
    body = field(1, number) + field(2, f"node{number}".encode()) + field(3, fields.get("type", 4))
    body += field(5, b"".join(map(varint, after))) + field(7, duration) + field(4, 999)
    body += field(10, field(1, b"is_cpu_op") + field(27, int(host))) + field(10, field(1, b"x") + field(3, 2.5))
    body += field(10, field(1, b"comm_type") + field(13, 0)) + field(10, field(1, b"tid") + field(9, 3))
    return body


def chakra(*nodes: bytes) -> bytes:
    return b"".join(varint(len(item)) + item for item in (field(1, b"0.0.4"), *nodes))


CHAKRA = chakra(
    chakra_node(1, 10, [], True),
    chakra_node(2, 40, [1], False),
    chakra_node(3, 20, [1], True),
    chakra_node(4, 5, [2, 3], False, type=7),
)
