"""Loading of a graph by name or from a file of any supported format."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetgym._input.files import as_path
from hetgym._input.notes import left_out
from hetgym.errors import GraphError, shown, unknown_name
from hetgym.graph import zoo
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.from_graphnet import from_graphnet, is_graphnet
from hetgym.graph.from_onnx import from_onnx
from hetgym.graph.from_pt2 import from_pt2
from hetgym.graph.model_names import model_names
from hetgym.graph.passes import OPTIONS, is_language_model, load_pass
from hetgym.graph.serialization import from_json


def load_graph(
    source: str | os.PathLike[str], batch: int | None = None, *, strict: bool = False, **options: Any
) -> DataflowGraph:
    """Load a graph by name, or from a file.

    Args:
        source: a name of :func:`hetgym.graph.zoo.names` or of ``hetgym list llms``; or a path that ends in ``.onnx``,
            ``.pt2`` (see :func:`~hetgym.graph.from_pt2`), ``.json`` or ``.json.gz``; or a ``model.py`` of GraphNet (see
            :func:`~hetgym.graph.from_graphnet`), or a language model's ``config.json``, ``.gguf`` or ``.safetensors``
            file, or the folder that holds one of these.
        batch: size of the batch, see the importers. By default that of an ONNX model that fixes one, else 1. A
            ``.pt2`` program or a ``model.py`` always keeps the batch that it was made with, and no other than None or 1
            may be given.
        strict: refuse a model if an omission can change a run time.
        **options: further arguments of :func:`~hetgym.graph.from_onnx`: ``dims``, ``name``; of a language model
            ``sequence``, ``phase`` and ``dtype``, see :func:`~hetgym.graph.generators.language_model`, and
            ``dims={"sequence": 4096}``, too. Language models of ``hetgym list llms`` and of files also take ``quant``,
            the format of the weights, such as ``Q4_K_M``, and ``cache``, that of cached keys and values, such as
            ``q8_0``.

    Raises:
        UnknownName: no model has this name; the message suggests the nearest names.
        GraphError: the file is missing or malformed, or does not support the options.

    >>> load_graph("alexnet")
    DataflowGraph('alexnet', 24 operators, 23 edges)
    >>> load_graph("llama-3-8b", batch=4, sequence=1024, phase="prefill")
    DataflowGraph('llama-3-8b-prefill', 676 operators, 867 edges)
    >>> load_graph("qwen3-8b", phase="decode", sequence=4096, quant="Q4_K_M")
    DataflowGraph('qwen3-8b-decode', 831 operators, 1010 edges)
    """
    as_path(source, "a graph", GraphError)
    text = os.fspath(source)
    if text.endswith(".onnx"):
        odd = sorted(options.keys() - {"dims", "name"})
        if odd:
            raise GraphError(f"{text}: an ONNX model takes the options dims and name, not {odd[0]!r}")
        return from_onnx(text, batch, strict=strict, **options)
    size = 1 if batch is None else batch
    if is_graphnet(text):
        if options:
            raise GraphError(f"{text}: a GraphNet model takes no options, but {sorted(options)[0]!r} is given")
        _check_kept(size, text)
        return from_graphnet(text, strict=strict)
    if is_language_model(text, options):
        return _whole(load_pass(text, size, **_with_dims(text, options)), text, strict)
    if text in zoo.LANGUAGE_MODELS:
        return zoo.load(text, size, **_with_dims(text, options))
    if "dims" not in options and text in zoo.MODELS:
        return zoo.load(text, size, **options)
    if text not in zoo.MODELS and not text.endswith((".pt2", ".json", ".json.gz")):
        raise _unknown(text)
    if options:
        raise GraphError(
            f"{text}: unknown option {sorted(options)[0]!r}; ONNX models take dims and name, language models dims, "
            f"{', '.join(OPTIONS)}"
        )
    if text.endswith(".pt2"):
        _check_kept(size, text)
        return from_pt2(text, strict=strict)
    return _whole(from_json(Path(text), size), text, strict)


def _check_kept(size: int, text: str) -> None:
    """Refuse a batch for a file that has its own."""
    if size != 1:
        raise GraphError(f"{text}: a saved program keeps the batch that it was exported with; leave batch out")


def _unknown(text: str) -> Exception:
    """The error about a source that is neither a name nor a file of a known format."""
    if os.sep in text or re.fullmatch(r"\.[A-Za-z]\w*", Path(text).suffix):
        return GraphError(
            f"{text}: neither a name of the zoo nor a file that ends in .onnx, .pt2, .json, .json.gz, .gguf, "
            ".safetensors or .py"
        )
    return unknown_name("graph", text, {*zoo.names(), *zoo.language_models(), *model_names()})


def _with_dims(text: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a language model, with the sequence that ``dims`` may hold."""
    rest = dict(options)
    dims = rest.pop("dims", {})
    if not isinstance(dims, Mapping):
        raise GraphError(f"{text}: dims is {shown(dims)}, not a mapping from names to sizes")
    odd = sorted(dims.keys() - {"sequence"})
    if odd:
        raise GraphError(f"{text}: unknown dimension {odd[0]!r}; language models have the dimension 'sequence'")
    if dims and "sequence" in options:
        raise GraphError(f"{text}: sequence is given twice, as an option and in dims")
    return {**rest, **dims}


def _whole(graph: DataflowGraph, text: str, strict: bool) -> DataflowGraph:
    """The graph; refused if it must be complete and is not."""
    if strict:
        left_out(text, graph.notes, strict, GraphError)
    return graph
