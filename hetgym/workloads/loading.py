"""Loading of files that hold a whole problem, of any supported format."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hetgym._input.files import as_path
from hetgym._input.notes import left_out
from hetgym._text import plain
from hetgym.errors import ConfigError, GraphError, ProblemError
from hetgym.graph.from_trace import from_trace, is_trace
from hetgym.graph.traces.chakra import is_protobuf
from hetgym.problem import Problem
from hetgym.workloads import dnn_partitioning, wfcommons
from hetgym.workloads.documents import as_document, read_json
from hetgym.workloads.dot import read_dot
from hetgym.workloads.job_shops import read_flexible_job_shop, read_job_shop
from hetgym.workloads.recorded import replay
from hetgym.workloads.stg import read_stg

_WITHOUT_DEVICES: dict[str, Callable[[Path, str, int | None], Problem]] = {
    ".stg": read_stg,
    ".dot": read_dot,
    ".gv": read_dot,
}
"""Suffix -> reader of files that may leave the number of devices open."""

_WITH_DEVICES: dict[str, Callable[[Path, str], Problem]] = {
    ".jsp": read_job_shop,
    ".txt": read_job_shop,
    ".fjs": read_flexible_job_shop,
}
"""Suffix -> reader of files that give their devices."""

_KNOWN = (
    ".npz, .json or .json.gz of dnn-partitioning, WfCommons or a profiler, .et of Chakra, task graphs in .stg, .dot "
    "and .gv, and job shops in .jsp, .txt, .fjs and files of JSPLIB without a suffix"
)


def load_problem(path: str | os.PathLike[str], devices: int | None = None, *, strict: bool = False) -> Problem:
    """Read a file that holds a whole problem, costs included.

    ==========================  ==========================================================================
    suffix                      what is read; the module explains how fields become a problem
    ==========================  ==========================================================================
    ``.npz``                    what :meth:`hetgym.Problem.save` wrote
    ``.json``, ``.json.gz``     :mod:`~hetgym.workloads.dnn_partitioning` of Microsoft,
                                :mod:`~hetgym.workloads.wfcommons`, or a trace of :func:`hetgym.graph.from_trace`
    ``.et``, ``.et.gz``         a trace of Chakra, see :func:`hetgym.graph.from_trace`
    ``.stg``                    :mod:`~hetgym.workloads.stg`: the Standard Task Graph Set
    ``.jsp``, ``.txt``          :mod:`~hetgym.workloads.job_shops`: job shops, in the standard or Taillard's form
    none                        a job shop in either form whose jobs visit every machine once, as those of JSPLIB do
    ``.fjs``                    :mod:`~hetgym.workloads.job_shops`: flexible job shops, in Brandimarte's form
    ``.dot``, ``.gv``           :mod:`~hetgym.workloads.dot`: Graphviz, with costs of nodes
    ==========================  ==========================================================================

    The problem of a trace is that of :func:`~hetgym.workloads.replay`, which also returns the schedule that ran.

    Args:
        path: the file.
        devices: number of identical devices, for task graphs (STG, DOT) that do not give it. All other formats have
            devices of their own.
        strict: refuse a file if an omission can change a makespan.

    Raises:
        ProblemError: the file is missing, damaged or of an unknown format; ``devices`` is given although the file has
            devices of its own, or is missing for one without; or, with ``strict``, the problem would have notes.

    Warns:
        HetgymWarning: the problem has notes; one warning lists them all. Files of :meth:`hetgym.Problem.save` keep
            their notes without a warning.
    """
    file = as_path(path, "a problem", ProblemError)
    try:
        problem, said = _loaded(file, devices, strict)
    except ProblemError as error:
        if type(error) is not ProblemError or str(path) in str(error):
            raise
        raise ProblemError(f"{path}: {error}") from error.__cause__
    if strict or not said:
        left_out(str(path), problem.notes, strict, ProblemError)
    return problem


def as_problem(source: Any) -> Problem:
    """Return a Problem unchanged, or load it from a file.

    Raises:
        ConfigError: neither a problem nor a path.
        ProblemError: see :func:`load_problem`.
    """
    if isinstance(source, Problem):
        return source
    if isinstance(source, str | Path):
        return load_problem(source)
    raise ConfigError(f"expected a hetgym.Problem or a path, got {type(source).__name__}")


def _loaded(file: Path, devices: int | None, strict: bool) -> tuple[Problem, bool]:
    """Load a problem, and whether its notes were said before; messages about its content need not name the file."""
    if file.suffix in _WITHOUT_DEVICES:
        return _WITHOUT_DEVICES[file.suffix](file, plain(file.stem), devices), False
    if devices is not None:
        raise ProblemError(f"{file}: only task graphs (.stg, .dot, .gv) take a number of devices")
    if file.suffix in _WITH_DEVICES:
        return _WITH_DEVICES[file.suffix](file, plain(file.stem)), False
    if file.suffix == ".npz":
        return Problem.load(file), True
    if is_protobuf(file):
        return _recorded(file, strict), True
    if not file.name.endswith((".json", ".json.gz")):
        if not os.path.exists(file):  # unlike Path.exists it takes names of any length
            raise ProblemError(f"{file}: no such file")
        if not file.suffix and (shop := _job_shop(file)) is not None:
            return shop, False
        raise ProblemError(f"{file}: unknown problem format {file.suffix!r}; known: {_KNOWN}")
    parsed = read_json(file)
    if is_trace(parsed):
        return _recorded(file, strict), True
    document = as_document(parsed, file)
    name = plain(file.name.removesuffix(".gz").removesuffix(".json"))
    if dnn_partitioning.is_partitioning(document):
        return dnn_partitioning.to_problem(dnn_partitioning.read_partitioning(document, str(file)), name), False
    if wfcommons.is_workflow(document):
        return wfcommons.to_problem(document, str(file), name), False
    if document.get("format") == "hetgym-graph":
        raise ProblemError(f"{file} holds a graph without costs: load it with hetgym.load_graph, then Problem.build")
    raise ProblemError(f"{file}: unknown problem format; known: {_KNOWN}")


def _job_shop(file: Path) -> Problem | None:
    """The job shop of a file without a suffix; None unless each job visits every machine once."""
    try:
        shop = read_job_shop(file, plain(file.name))
    except ProblemError:
        return None
    n, d = shop.cost.shape
    jobs = n - shop.num_edges
    machines = np.isfinite(shop.cost).argmax(axis=1)
    whole = n == jobs * d and (np.sort(machines.reshape(jobs, d), axis=1) == np.arange(d)).all()
    chains = n == jobs * d and (shop.edge_source % d < d - 1).all()
    return shop if whole and chains else None


def _recorded(file: Path, strict: bool) -> Problem:
    try:
        return replay(from_trace(file, strict=strict))[0]
    except GraphError as error:
        raise ProblemError(str(error)) from None
