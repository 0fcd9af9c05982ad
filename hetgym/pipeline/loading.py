"""Pipelines from files."""

import os
from pathlib import Path

import numpy as np

from hetgym._text import plain
from hetgym.errors import ProblemError
from hetgym.pipeline.problem import DeviceKind, PipelineProblem
from hetgym.workloads.dnn_partitioning import is_partitioning, read_partitioning
from hetgym.workloads.documents import read_document


def load(path: str | os.PathLike[str]) -> PipelineProblem:
    """Read the throughput form of a file of Microsoft's dnn-partitioning.

    The kinds of devices are the file's CPUs, which have unlimited memory and do not pay for transfers, and its
    accelerators. The transfer time of a tensor is the largest among the edges of its producer. Colour classes and
    backward flags are kept. See :mod:`hetgym.workloads.dnn_partitioning` for the format, and
    :func:`hetgym.load_problem` for the problem of finishing a single request as soon as possible.

    Raises:
        ProblemError: the file is missing, damaged, of another format, or holds a cycle.
    """
    if not isinstance(path, str | os.PathLike):
        raise ProblemError(f"a pipeline is loaded from a path, not from {type(path).__name__}")
    file = Path(path)
    document = read_document(file)
    if not is_partitioning(document):
        raise ProblemError(f"{path}: not a file of dnn-partitioning, which has 'nodes', 'maxCPUs' and 'maxFPGAs'")
    found = read_partitioning(document, str(path))
    transfer = np.zeros(len(found.names))
    for source, _, seconds, _ in found.edges:
        transfer[source] = max(transfer[source], seconds)
    return PipelineProblem(
        np.stack([found.cpu, found.accelerator], axis=1),
        [(source, target) for source, target, _, _ in found.edges],
        [DeviceKind("cpu", found.cpus, transfers=False), DeviceKind("accelerator", found.accelerators, found.memory)],
        transfer=transfer,
        size=found.size,
        colour=found.colour,
        backward=found.backward,
        operator_names=found.names,
        name=plain(file.name.removesuffix(".gz").removesuffix(".json")),
    )
