"""The JSON of Microsoft's dnn-partitioning: operators of a network with times on a CPU and an accelerator.

One object: ``maxCPUs``, ``maxFPGAs`` (accelerators of any make), ``maxSizePerFPGA`` (bytes), ``nodes``
and ``edges``. A node has ``id``, ``cpuLatency`` and ``fpgaLatency`` (ms), ``size`` (bytes on its
device), ``supportedOnFpga``, ``isBackwardNode`` and, where it must share a device with others, a
``colorClass``. An edge has ``sourceId``, ``destId`` and ``cost``, the time of its tensor's transfer between a device
and main memory (ms); all transfers go through main memory. Other fields are ignored.

Source: Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators",
NeurIPS 2020; github.com/msr-fiddle/dnn-partitioning.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetgym._sums import summed
from hetgym.errors import ProblemError
from hetgym.problem import Problem
from hetgym.workloads.documents import Row

MILLISECOND = 1e-3
MAX_DEVICES = 256
_MAX_ENTRIES = 50_000_000  # of the cost table


@dataclass(frozen=True)
class Partitioning:
    """A checked document, in seconds and bytes."""

    # cpu, accelerator: run time of each node [s]; inf where the accelerator does not support it
    cpu: list[float]
    accelerator: list[float]
    size: list[float]  # size of each node on its device [byte]
    colour: list[int]  # number of the colour class of each node; -1 = none
    backward: list[bool]  # True for nodes of the backward pass
    names: list[str]  # names of the nodes
    # (source, target, seconds between a device and main memory, bytes); nodes are given by position
    edges: list[tuple[int, int, float, float]]
    # cpus, accelerators: numbers of devices
    cpus: int
    accelerators: int
    memory: float  # capacity of one accelerator [byte]


def is_partitioning(document: Mapping[str, Any]) -> bool:
    """True if a document looks like this format."""
    return "nodes" in document and ("maxFPGAs" in document or "maxCPUs" in document)


def read_partitioning(document: object, where: str) -> Partitioning:
    """Check a parsed document.

    Raises:
        ProblemError: a missing field, a wrong type, a number out of range, a repeated or unknown id, or a repeated
            edge.
    """
    top = Row(document, where)
    cpus, accelerators = top.whole("maxCPUs", MAX_DEVICES), top.whole("maxFPGAs", MAX_DEVICES)
    if cpus + accelerators == 0:
        raise ProblemError(f"{where} has neither CPUs nor accelerators")
    nodes = top.rows("nodes")
    if not nodes:
        raise ProblemError(f"{where} has no nodes")
    if len(nodes) * (cpus + accelerators) > _MAX_ENTRIES:
        raise ProblemError(f"{where} has {len(nodes)} nodes and {cpus + accelerators} devices; that is too many")
    place: dict[int, int] = {}
    colours: dict[int | str, int] = {}
    found = Partitioning([], [], [], [], [], [], [], cpus, accelerators, top.number("maxSizePerFPGA"))
    for row in nodes:
        number = row.whole("id", 2**53)
        if number in place:
            raise row.fail("id", f"is {number}, which another node has too")
        place[number] = len(place)
        supported = row.flag("supportedOnFpga", True)
        found.cpu.append(row.number("cpuLatency") * MILLISECOND)
        found.accelerator.append(row.number("fpgaLatency") * MILLISECOND if supported else np.inf)
        found.size.append(row.number("size", 0))
        found.backward.append(row.flag("isBackwardNode", False))
        found.names.append(row.text("name", f"node{number}"))
        colour = row.raw("colorClass", None)
        if colour is not None and not (isinstance(colour, int | str) and not isinstance(colour, bool)):
            raise row.fail("colorClass", "is neither a whole number nor a string")
        found.colour.append(-1 if colour is None else colours.setdefault(colour, len(colours)))
    seen = set()
    for row in top.rows("edges"):
        ends = []
        for key in ("sourceId", "destId"):
            number = row.whole(key, 2**53)
            if number not in place:
                raise row.fail(key, f"is {number}, which no node has")
            ends.append(place[number])
        if (ends[0], ends[1]) in seen:
            raise ProblemError(f"{row.place}: the edge {row.raw('sourceId')} -> {row.raw('destId')} appears twice")
        seen.add((ends[0], ends[1]))
        found.edges.append((ends[0], ends[1], row.number("cost") * MILLISECOND, row.number("size", 0)))
    return found


def to_problem(found: Partitioning, name: str) -> Problem:
    """The problem of finishing one inference as soon as possible.

    The devices are the CPUs and then the accelerators, all with the file's times. CPUs share main memory: transfers
    between them take no time, those between main memory and an accelerator take the edge's cost, and those between two
    accelerators take twice that cost. An edge's bytes correspond to that cost at a nominal bandwidth, the median
    bandwidth according to the file's own bytes. Sizes become weights, and the accelerators' limit becomes their memory
    capacity. Colour classes cannot be expressed in a scheduling problem: the problem's notes say so where a class has
    several nodes. The direction of backward nodes matters to pipelines only.
    """
    cpus, others = found.cpus, found.accelerators
    rates = [size / seconds for _, _, seconds, size in found.edges if seconds > 0 and size > 0]
    sizes = Counter(colour for colour in found.colour if colour >= 0)
    bound = summed(count for count in sizes.values() if count > 1)
    nominal = float(np.median(rates)) if rates else 1.0
    bandwidth = np.full((cpus + others, cpus + others), nominal)
    bandwidth[:cpus, :cpus] = np.inf
    bandwidth[cpus:, cpus:] = nominal / 2
    return Problem.from_arrays(
        np.array([[cpu] * cpus + [fast] * others for cpu, fast in zip(found.cpu, found.accelerator, strict=True)]),
        [(source, target, seconds * nominal) for source, target, seconds, _ in found.edges],
        bandwidth=bandwidth,
        tensors=[source for source, _, _, _ in found.edges],
        weight_bytes=found.size,
        memory_capacity=[np.inf] * cpus + [found.memory] * others,
        operator_names=found.names,
        device_names=[f"cpu{i}" for i in range(cpus)] + [f"accelerator{i}" for i in range(others)],
        name=name,
        notes=[f"{bound} nodes that must share a device with others (colorClass) are free here"] if bound else [],
    )
