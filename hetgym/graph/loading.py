"""Loading of a graph by its name in the zoo or from a file of any supported format."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetgym._input.files import as_path
from hetgym._input.notes import left_out
from hetgym.errors import GraphError, shown, unknown_name
from hetgym.graph import zoo
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.from_onnx import from_onnx
from hetgym.graph.from_pt2 import from_pt2
from hetgym.graph.serialization import from_json


def load_graph(
    source: str | os.PathLike[str], batch: int | None = None, *, strict: bool = False, **options: Any
) -> DataflowGraph:
    """Load a graph by its name in the zoo, or from a file.

    Args:
        source: a name of :func:`hetgym.graph.zoo.names`, or a path that ends in ``.onnx``,
            ``.pt2`` (see :func:`~hetgym.graph.from_pt2`), ``.json`` or ``.json.gz``.
        batch: size of the batch, see the importers. By default that of an ONNX model that fixes one, else 1. A
            ``.pt2`` program always keeps the batch that it was exported with, and no other than None or 1 may be given.
        strict: refuse a model if an omission can change a run time.
        **options: further arguments of :func:`~hetgym.graph.from_onnx`: ``dims``, ``name``; of a language model of the
            zoo ``sequence``, ``phase`` and ``dtype``, see :func:`~hetgym.graph.generators.language_model`. A language
            model takes ``dims={"sequence": 4096}``, too.

    Raises:
        UnknownName: no model has this name; the message suggests the nearest names.
        GraphError: the file is missing or malformed, or does not support the options.

    >>> load_graph("alexnet")
    DataflowGraph('alexnet', 24 operators, 23 edges)
    >>> load_graph("llama-3-8b", batch=4, sequence=1024, phase="prefill")
    DataflowGraph('llama-3-8b-prefill', 676 operators, 867 edges)
    """
    as_path(source, "a graph", GraphError)
    text = os.fspath(source)
    if text.endswith(".onnx"):
        odd = sorted(options.keys() - {"dims", "name"})
        if odd:
            raise GraphError(f"{text}: an ONNX model takes the options dims and name, not {odd[0]!r}")
        return from_onnx(text, batch, strict=strict, **options)
    size = 1 if batch is None else batch
    if text in zoo.LANGUAGE_MODELS:
        dims = options.pop("dims", {})
        if not isinstance(dims, Mapping):
            raise GraphError(f"{text}: dims is {shown(dims)}, not a mapping from names to sizes")
        odd = sorted(dims.keys() - {"sequence"})
        if odd:
            raise GraphError(f"{text}: unknown dimension {odd[0]!r}; language models have the dimension 'sequence'")
        if dims and "sequence" in options:
            raise GraphError(f"{text}: sequence is given twice, as an option and in dims")
        return zoo.load(text, size, **options, **dims)
    if "dims" not in options and text in zoo.MODELS:
        return zoo.load(text, size, **options)
    if options:
        raise GraphError(
            f"{text}: unknown option {sorted(options)[0]!r}; ONNX models take dims and name, language models dims, "
            "sequence and phase"
        )
    if text.endswith(".pt2"):
        if size != 1:
            raise GraphError(f"{text}: a saved program keeps the batch that it was exported with; leave batch out")
        return from_pt2(text, strict=strict)
    if text.endswith((".json", ".json.gz")):
        graph = from_json(Path(text), size)
        if strict:
            left_out(text, graph.notes, strict, GraphError)
        return graph
    if os.sep in text or Path(text).suffix:
        raise GraphError(f"{text}: neither a name of the zoo nor a file that ends in .onnx, .pt2, .json or .json.gz")
    raise unknown_name("graph", text, [*zoo.names(), *zoo.language_models()])
