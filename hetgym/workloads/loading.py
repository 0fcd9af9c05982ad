"""Loading of files that hold a whole problem, of any supported format."""

from __future__ import annotations

import os

from hetgym._files import as_path
from hetgym.errors import ProblemError
from hetgym.problem import Problem
from hetgym.workloads import dnn_partitioning, wfcommons
from hetgym.workloads.documents import read_document

_KNOWN = ".npz, and .json or .json.gz of dnn-partitioning or WfCommons"


def load_problem(path: str | os.PathLike[str]) -> Problem:
    """Read a file that holds a whole problem, costs included.

    Args:
        path: an ``.npz`` file that :meth:`hetgym.Problem.save` wrote, or a ``.json`` or ``.json.gz``
            file of Microsoft's dnn-partitioning (:mod:`hetgym.workloads.dnn_partitioning`) or of
            WfCommons (:mod:`hetgym.workloads.wfcommons`); these modules explain how fields become a problem.

    Raises:
        ProblemError: the file is missing, damaged or of an unknown format.
    """
    file = as_path(path, "a problem", ProblemError)
    if file.suffix == ".npz":
        return Problem.load(file)
    if not file.name.endswith((".json", ".json.gz")):
        raise ProblemError(f"{path}: unknown problem format {file.suffix!r}; known: {_KNOWN}")
    document = read_document(file)
    name = file.name.removesuffix(".gz").removesuffix(".json")
    if dnn_partitioning.is_partitioning(document):
        return dnn_partitioning.to_problem(dnn_partitioning.read_partitioning(document, str(path)), name)
    if wfcommons.is_workflow(document):
        return wfcommons.to_problem(document, str(path), name)
    if document.get("format") == "hetgym-graph":
        raise ProblemError(f"{path} holds a graph without costs: load it with hetgym.load_graph, then Problem.build")
    raise ProblemError(f"{path}: unknown problem format; known: {_KNOWN}")
