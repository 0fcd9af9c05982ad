"""The JSON of WfCommons: executed scientific workflows, in the versions 1.3 to 1.6 of its format.

The reader uses the tasks with their run times, parents, children and files, and the machines; it ignores everything
else. Up to version 1.4 a task holds all of this itself and refers to others by name; from 1.5 on the graph is under
``specification`` and the times are under ``execution``.

Source: Coleman et al., "WfCommons: A Framework for Enabling Scientific Workflow Research and
Development", FGCS 128, 2022; github.com/wfcommons/WfFormat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hetgym.errors import ProblemError
from hetgym.problem import Problem
from hetgym.workloads.documents import Row

NETWORK = 125e6
"""Assumed bandwidth between machines, which the files do not state: 1 Gbit/s [byte/s]."""
CORES_PER_MACHINE = 8
MAX_DEVICES = 64
_VERSIONS = ("1.3", "1.4", "1.5", "1.6")


@dataclass
class _Task:
    name: str
    kind: str
    seconds: float = -1.0
    machine: str | None = None
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)


def is_workflow(document: Mapping[str, Any]) -> bool:
    """True if a document looks like this format."""
    return "workflow" in document


def to_problem(document: object, where: str, name: str) -> Problem:
    """The problem of running a workflow again, as fast as possible, on the machines that ran it.

    Each machine gives one device for each of its cores, at most 8, and there are at most 64 devices in all. Transfers
    of files take no time within a machine and run at 1 Gbit/s between machines. A task takes its measured run time,
    scaled by the ratio of the clock rates of the machine that ran it and of the other machine, if all rates are known.
    A task without a machine is assumed to have run on the first one. A task that used several cores takes one device.
    From each parent, a child reads the files that the parent writes and the child reads, each as one tensor. A child
    that lists no parents depends on the tasks that write its files.

    Args:
        document: parsed JSON.
        where: the file, for messages.
        name: name of the problem.

    Raises:
        ProblemError: a missing field, a wrong type, a number out of range, a repeated or unknown name, or a cycle.
    """
    top = Row(document, where)
    version = top.raw("schemaVersion", "1.5")
    if version not in _VERSIONS:
        raise ProblemError(f"{where}: schemaVersion is {version!r}; known: {', '.join(_VERSIONS)}")
    workflow = top.row("workflow")
    old = "tasks" in workflow.fields
    tasks, sizes = _old_tasks(workflow) if old else _tasks(workflow)
    machines = _machines(workflow if old else workflow.row("execution"))
    speeds = {machine: speed for machine, _, speed in machines}
    first = machines[0][0]
    cores = max(1, min(CORES_PER_MACHINE, MAX_DEVICES // len(machines)))
    devices = [machine for machine, count, _ in machines[:MAX_DEVICES] for _ in range(max(1, min(count, cores)))]
    ran = np.array([speeds[task.machine if task.machine in speeds else first] for task in tasks.values()])
    cost = np.array([task.seconds for task in tasks.values()])[:, None] * ran[:, None]
    apart = np.array([[a != b for b in devices] for a in devices])
    edges, tensors = _edges(tasks, sizes, where)
    return Problem.from_arrays(
        cost / np.array([speeds[machine] for machine in devices]),
        edges,
        bandwidth=np.where(apart, NETWORK, np.inf),
        tensors=tensors,
        operator_names=[task.name for task in tasks.values()],
        operator_kinds=[task.kind for task in tasks.values()],
        device_names=[f"{machine}#{i}" for i, machine in enumerate(devices)],
        name=name,
    )


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
            raise row.fail("id", f"is {name!r}, which stands twice")
        tasks[name].seconds = row.number("runtimeInSeconds")
        machines = row.texts("machines", [])
        tasks[name].machine = machines[0] if machines else None
    for name, task in tasks.items():
        if task.seconds < 0:
            raise ProblemError(f"{execution.place} has no run time of task {name!r}")
    return tasks, sizes


def _enter(tasks: dict[str, _Task], name: str, task: _Task, row: Row) -> None:
    if name in tasks:
        raise ProblemError(f"{row.place}: task {name!r} stands twice")
    tasks[name] = task


def _machines(holder: Row) -> list[tuple[str, int, float]]:
    """Name, cores and relative speed of each machine; one machine if none is named."""
    found: dict[str, tuple[int, float]] = {}
    for row in holder.rows("machines", []):
        cpu = row.row("cpu", {})
        count = cpu.whole("coreCount" if "coreCount" in cpu.fields else "count", 1 << 20, 1)
        speed = cpu.number("speedInMHz" if "speedInMHz" in cpu.fields else "speed", 0)
        name = row.text("nodeName")
        if name in found:
            raise row.fail("nodeName", f"is {name!r}, which stands twice")
        found[name] = count, speed
    if not found:
        return [("machine", 1, 1.0)]
    known = all(speed > 0 for _, speed in found.values())
    return [(name, count, speed if known else 1.0) for name, (count, speed) in found.items()]


def _edges(
    tasks: dict[str, _Task], sizes: dict[str, float], where: str
) -> tuple[list[tuple[int, int, float]], list[int]]:
    """Edges with their bytes, and the tensor of each: a file, or one of its own where none is shared."""
    number = {name: i for i, name in enumerate(tasks)}
    writers: dict[str, list[int]] = {}
    for i, task in enumerate(tasks.values()):
        for path in dict.fromkeys(task.writes):
            writers.setdefault(path, []).append(i)
    parents: list[set[int]] = [set() for _ in tasks]
    for i, task in enumerate(tasks.values()):
        for name in (*task.parents, *task.children):
            if name not in number:
                raise ProblemError(f"{where}: task {task.name!r} names {name!r}, which is no task")
        parents[i] |= {number[name] for name in task.parents}
        for name in task.children:
            parents[number[name]].add(i)
    tensor = {path: k for k, path in enumerate(writers)}
    edges, tensors = [], []
    for j, task in enumerate(tasks.values()):
        written = [(i, path) for path in dict.fromkeys(task.reads) for i in writers.get(path, [])]
        before = parents[j] or {i for i, _ in written if i != j}
        fed = set()
        for i, path in written:
            if i in before:
                edges.append((i, j, sizes.get(path, 0.0)))
                tensors.append(tensor[path])
                fed.add(i)
        for i in sorted(before - fed):
            edges.append((i, j, 0.0))
            tensors.append(len(tensor) + len(tensors))
    return edges, tensors
