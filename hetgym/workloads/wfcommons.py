"""The JSON of WfCommons: executed scientific workflows, in the versions 1.3 to 1.6 of its format.

The reader uses the tasks with their run times, cores, parents, children and files, and the machines. What else limits
a run (tasks on several machines, memory) becomes a note of the problem; everything else is ignored. Up to version 1.4 a
task holds all of this itself and refers to others by name; from 1.5 on the graph is under ``specification`` and the
times are under ``execution``.

Source: Coleman et al., "WfCommons: A Framework for Enabling Scientific Workflow Research and
Development", FGCS 128, 2022; github.com/wfcommons/WfFormat.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hetgym._sums import summed
from hetgym._types import FloatArray, Int64Array
from hetgym.errors import ProblemError, shown
from hetgym.problem import Problem
from hetgym.workloads.documents import Row
from hetgym.workloads.lines import MOST_COSTS, MOST_DEVICES, MOST_EDGES

NETWORK = 125e6  # Assumed bandwidth between machines, which the files do not state: 1 Gbit/s [byte/s]
_VERSIONS = ("1.3", "1.4", "1.5", "1.6")


@dataclass
class _Task:
    name: str
    kind: str
    seconds: float = -1.0
    cores: int = 1
    memory: float = 0.0
    machine: str | None = None
    machines: int = 1
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)


def is_workflow(document: Mapping[str, Any]) -> bool:
    """True if a document looks like this format."""
    return "workflow" in document


def to_problem(document: object, where: str, name: str) -> Problem:
    """The problem of running a workflow again, as fast as possible, on the machines that ran it.

    A device is as many cores of a machine as divide the cores of every task: one core, or all that a task needs where
    all need equally many. A machine has no more devices than there are tasks, and there are at most
    :data:`~hetgym.workloads.lines.MOST_DEVICES` in all. Transfers of files take no time within a machine and run at
    1 Gbit/s between machines. A task takes its measured run time, scaled by the ratio of the clock rates of the machine
    that ran it and of the other machine, if all rates are known. A task without a machine is assumed to have run on the
    first one. From each parent, a child reads the files that the parent writes and the child reads, each as one tensor.
    A child that lists no parents depends on the tasks that write its files.

    Raises:
        ProblemError: a missing field, a wrong type, a number out of range, a repeated or unknown name, a cycle, or more
            than :data:`~hetgym.workloads.lines.MOST_EDGES` pairs of a task that writes a file and one that reads it.
    """
    top = Row(document, where)
    version = top.raw("schemaVersion", "1.5")
    if version not in _VERSIONS:
        raise ProblemError(f"{where}: schemaVersion is {version!r}; known: {', '.join(_VERSIONS)}")
    workflow = top.row("workflow")
    old = "tasks" in workflow.fields
    tasks, sizes = _old_tasks(workflow) if old else _tasks(workflow)
    machines = _machines(workflow if old else workflow.row("execution"))
    speeds = {machine.name: machine.speed for machine in machines}
    first = machines[0].name
    devices, notes = _devices(list(tasks.values()), machines)
    ran = np.array([speeds[task.machine if task.machine in speeds else first] for task in tasks.values()])
    cost = np.array([task.seconds for task in tasks.values()])[:, None] * ran[:, None]
    apart = np.array([[a != b for b in devices] for a in devices])
    edges, tensors = _edges(tasks, sizes, where)
    return Problem.from_arrays(
        cost / np.array([speeds[machine] for machine in devices]),
        edges,
        bandwidth=np.where(apart, NETWORK, np.inf),
        tensors=tensors.tolist(),
        operator_names=[task.name for task in tasks.values()],
        operator_kinds=[task.kind for task in tasks.values()],
        device_names=[f"{machine}#{i}" for i, machine in enumerate(devices)],
        name=name,
        notes=notes,
    )


def _devices(tasks: list[_Task], machines: list[_Machine]) -> tuple[list[str], list[str]]:
    """The machine of each device, and what of cores and memory is left out."""
    notes = []
    unit = math.gcd(*(task.cores for task in tasks)) or 1
    if unit > max(machine.cores for machine in machines):
        notes.append(f"tasks need {unit} cores or more, which no machine has; a machine runs one of them at a time")
    elif wide := [task.cores for task in tasks if task.cores > unit]:
        notes.append(f"{len(wide)} of {len(tasks)} tasks need up to {max(wide)} cores, and take {unit} here")
    if several := sum(task.machines > 1 for task in tasks):
        notes.append(f"{several} of {len(tasks)} tasks ran on several machines, and take one device here")
    counts = [min(machine.cores // unit, len(tasks)) for machine in machines]
    counts = counts if any(counts) else [1] * len(machines)
    most = max(1, min(MOST_DEVICES, MOST_COSTS // max(1, len(tasks))))
    share = most if summed(counts) <= most else max(1, most // len(machines))
    largest = sorted((task.memory for task in tasks), reverse=True)
    for machine, count in zip(machines, counts, strict=True):
        if 0 < machine.memory < math.fsum(largest[:count]):
            notes.append(f"memory is left out: tasks side by side may need more than machine {shown(machine.name)} has")
            break
    devices = [machine.name for machine, count in zip(machines, counts, strict=True) for _ in range(min(count, share))]
    if len(devices[:most]) < summed(counts):
        notes.append(f"{summed(counts) - len(devices[:most])} of {summed(counts)} devices are left out")
    return devices[:most], notes


def _old_tasks(workflow: Row) -> tuple[dict[str, _Task], dict[str, float]]:
    """Tasks by name, and bytes of files: up to version 1.4."""
    tasks: dict[str, _Task] = {}
    sizes: dict[str, float] = {}
    for row in workflow.rows("tasks"):
        name = row.text("name")
        task = _Task(name, row.text("category", "Task"))
        task.seconds = row.number("runtimeInSeconds" if "runtimeInSeconds" in row.fields else "runtime")
        task.parents, task.children = row.texts("parents", []), row.texts("children", [])
        task.machine = row.text("machine") if "machine" in row.fields else None
        task.cores = _cores(row, "cores")
        task.memory = row.number("memoryInBytes", 0)
        for file in row.rows("files", []):
            path = file.text("path", "") + file.text("name")
            size = file.number("sizeInBytes" if "sizeInBytes" in file.fields else "size", 0)
            sizes[path] = max(size, sizes.get(path, 0.0))
            (task.reads if file.text("link").lower() == "input" else task.writes).append(path)
        _enter(tasks, name, task, row)
    return tasks, sizes


def _tasks(workflow: Row) -> tuple[dict[str, _Task], dict[str, float]]:
    """Tasks by id, and bytes of files: from version 1.5 on."""
    specification, execution = workflow.row("specification"), workflow.row("execution")
    tasks: dict[str, _Task] = {}
    for row in specification.rows("tasks"):
        task = _Task(row.text("id"), row.text("name", "Task"))
        task.parents, task.children = row.texts("parents", []), row.texts("children", [])
        task.reads, task.writes = row.texts("inputFiles", []), row.texts("outputFiles", [])
        _enter(tasks, task.name, task, row)
    sizes = {file.text("id"): file.number("sizeInBytes", 0) for file in specification.rows("files", [])}
    for row in execution.rows("tasks"):
        name = row.text("id")
        if name not in tasks:
            raise row.fail("id", f"is {name!r}, which no task of the specification has")
        if tasks[name].seconds >= 0:
            raise row.fail("id", f"is {name!r}, which appears twice")
        tasks[name].seconds = row.number("runtimeInSeconds")
        machines = row.texts("machines", [])
        tasks[name].machine = machines[0] if machines else None
        tasks[name].machines = len(set(machines))
        tasks[name].cores = _cores(row, "coreCount")
        tasks[name].memory = row.number("memoryInBytes", 0)
    for name, task in tasks.items():
        if task.seconds < 0:
            raise ProblemError(f"{execution.place} has no run time of task {name!r}")
    return tasks, sizes


def _cores(row: Row, key: str) -> int:
    """Cores that a task needs; the field may hold a fraction."""
    return max(1, math.ceil(row.number(key, 1)))


def _enter(tasks: dict[str, _Task], name: str, task: _Task, row: Row) -> None:
    if name in tasks:
        raise ProblemError(f"{row.place}: task {name!r} appears twice")
    tasks[name] = task


class _Machine(NamedTuple):
    """A machine; ``speed`` is relative, and ``memory`` 0 if it is unknown [byte]."""

    name: str
    cores: int = 1
    speed: float = 1.0
    memory: float = 0.0


def _machines(holder: Row) -> list[_Machine]:
    """The machines; one if none is named."""
    found: dict[str, _Machine] = {}
    for row in holder.rows("machines", []):
        cpu = row.row("cpu", {})
        count = cpu.whole("coreCount" if "coreCount" in cpu.fields else "count", 1 << 20, 1)
        speed = cpu.number("speedInMHz" if "speedInMHz" in cpu.fields else "speed", 0)
        name = row.text("nodeName")
        if name in found:
            raise row.fail("nodeName", f"is {name!r}, which appears twice")
        found[name] = _Machine(name, max(1, count), speed, row.number("memoryInBytes", 0))
    known = all(machine.speed > 0 for machine in found.values())
    return [machine if known else machine._replace(speed=1.0) for machine in found.values()] or [_Machine("machine")]


def _edges(tasks: dict[str, _Task], sizes: dict[str, float], where: str) -> tuple[FloatArray, Int64Array]:
    """Edges with their bytes, [e, 3], and the tensor of each: a file, or one of its own where none is shared."""
    number = {name: i for i, name in enumerate(tasks)}
    writers: dict[str, list[int]] = {}
    for i, task in enumerate(tasks.values()):
        for path in dict.fromkeys(task.writes):
            writers.setdefault(path, []).append(i)
    pairs = sum(len(writers.get(path, ())) for task in tasks.values() for path in dict.fromkeys(task.reads))
    if pairs > MOST_EDGES:  # a few bytes of a file can state any number of these
        raise ProblemError(
            f"{where}: {pairs} pairs of a task that writes a file and one that reads it; at most {MOST_EDGES} are read"
        )
    parents: list[set[int]] = [set() for _ in tasks]
    for i, task in enumerate(tasks.values()):
        for name in (*task.parents, *task.children):
            if name not in number:
                raise ProblemError(f"{where}: task {task.name!r} names {name!r}, which is not a task")
        parents[i] |= {number[name] for name in task.parents}
        for name in task.children:
            parents[number[name]].add(i)
    tensor = {path: k for k, path in enumerate(writers)}
    edges, tensors = array("d"), array("q")
    for j, task in enumerate(tasks.values()):
        written = [(i, path) for path in dict.fromkeys(task.reads) for i in writers.get(path, [])]
        before = parents[j] or {i for i, _ in written if i != j}
        fed = set()
        for i, path in written:
            if i in before:
                edges.extend((i, j, sizes.get(path, 0.0)))
                tensors.append(tensor[path])
                fed.add(i)
        for i in sorted(before - fed):
            edges.extend((i, j, 0.0))
            tensors.append(len(tensor) + len(tensors))
    return np.array(edges).reshape(-1, 3), np.array(tensors)
