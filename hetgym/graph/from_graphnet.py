"""Import of the models of GraphNet (Li et al., arXiv 2510.24035, 2025), which are PyTorch graphs as Python text.

A folder holds ``model.py``, a class whose ``forward`` is a list of calls, and ``weight_meta.py``, the types of its
arguments. Both are read as text. Nothing of them is executed, and PyTorch is not needed.
"""

import os
import re
from pathlib import Path
from typing import Any

from hetgym._input.files import as_path, decoded, is_folder, read_bytes
from hetgym._input.notes import left_out
from hetgym._text import plain
from hetgym.errors import GraphError, shown
from hetgym.graph.assembly import assemble
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.graphnet_graph import Nodes
from hetgym.graph.graphnet_nodes import Tracer
from hetgym.graph.graphnet_text import Argument, Meta, forward_of, metas_of
from hetgym.graph.pt2_nodes import Node, SavedTensor
from hetgym.graph.torch_layouts import tensor
from hetgym.graph.torch_shapes import MISFITS, UNKNOWN
from hetgym.graph.torch_types import Walker

MODEL, TYPES = "model.py", ("weight_meta.py", "input_meta.py")  # Files of a model

TEXT_LIMIT = 8 << 20
"""Longest ``model.py``; the longest of GraphNet has 3 MiB [byte]."""

TYPES_LIMIT = 16 << 20  # Longest file of types, which holds some numbers, too [byte]

_HELD = re.compile(r"[LG]_(self|instance|fn|cls)_|\w*_(parameters|buffers)_")
_PART = re.compile(r"_(?:modules|parameters|buffers)_")


def from_graphnet(path: str | os.PathLike[str], name: str | None = None, *, strict: bool = False) -> DataflowGraph:
    """Import a PyTorch model of GraphNet as it runs in inference.

    Operators are those of :func:`~hetgym.graph.from_torch`. Arguments that belong to the module, and everything
    computed from these alone, are weights. An operator is named by the module whose weight it reads; any other by the
    module around the last such one.

    Args:
        path: a folder of GraphNet, or the ``model.py`` in it; ``weight_meta.py`` must lie beside it.
        name: name of the graph; that of the folder by default.
        strict: refuse operators of unknown kind.

    Raises:
        GraphError: a file is missing or is not one of GraphNet, a function is unknown, arguments do not fit, a shape
            depends on data, or the model is of Paddle.

    Warns:
        HetgymWarning: one warning for each model, which names all operators of unknown kind.
    """
    file = as_path(path, "a GraphNet model", GraphError)
    file = file / MODEL if is_folder(file) else file
    where = str(file)
    arguments, statements = forward_of(decoded(read_bytes(file, TEXT_LIMIT, GraphError), where, GraphError), where)
    inputs, values, weights = _inputs(arguments, _types_beside(file), where)
    modules = {node: weight.rpartition(".")[0] for node, weight in weights.items()}
    walker = Walker(SavedTensor, Tracer(where, Nodes(inputs, values, modules)).follow(statements), weights)
    title = name or plain(file.absolute().parent.name if file.name == MODEL else file.stem)
    try:
        walker.walk()
        graph = assemble(title, walker.values, walker.steps, walker.results)
    except GraphError as error:
        raise GraphError(f"{where}: {error}") from error.__cause__
    except MISFITS as cause:
        raise GraphError(f"{where}: an operator has arguments that PyTorch's does not take ({cause})") from cause
    left_out(where, graph.notes, strict, GraphError)
    return graph


def is_graphnet(source: str) -> bool:
    """Whether a source is a GraphNet model by its name: a ``.py`` file, or a folder with both files of a model."""
    return source.endswith(".py") or (
        is_folder(Path(source)) and all((Path(source) / name).is_file() for name in (MODEL, TYPES[0]))
    )


def _types_beside(file: Path) -> dict[str, Meta]:
    """The types of all arguments, from the files beside a model."""
    found: dict[str, Meta] = {}
    for name in TYPES:
        other = file.with_name(name)
        if name == TYPES[0] or other.exists():
            text = decoded(read_bytes(other, TYPES_LIMIT, GraphError), str(other), GraphError)
            found |= metas_of(text, str(other))
    return found


def _inputs(
    arguments: list[Argument], metas: dict[str, Meta], where: str
) -> tuple[list[Node], dict[str, Any], dict[str, str]]:
    """The nodes of the arguments, the value of each, and the names of those that are weights."""
    nodes: list[Node] = []
    values: dict[str, Any] = {}
    weights: dict[str, str] = {}
    taken: set[str] = set()
    for name, kind in arguments:
        meta = metas.get(name)
        if meta is None:
            raise GraphError(f"{where}: {TYPES[0]} does not state the type of the argument {shown(name)}")
        number = UNKNOWN if meta.number is None else meta.number
        if kind == "torch.SymInt":
            values[name] = number
            continue
        try:
            held = tensor(meta.shape, "float8" if meta.dtype.startswith("float8") else meta.dtype)
        except ValueError as cause:
            raise GraphError(f"{where}: argument {shown(name)}: {cause}") from cause
        nodes.append(Node("placeholder", name, meta={"val": held, "number": number}))
        values[name] = nodes[-1]
        if kind.endswith("Parameter") or _HELD.match(name):
            path = readable(name)
            weights[name] = name if path in taken else path
            taken.add(path)
    return nodes, values, weights


def readable(name: str) -> str:
    """The path of a weight in its module.

    >>> readable("L_self_modules_layer1_modules_0_modules_bn1_parameters_weight_")
    'layer1.0.bn1.weight'
    """
    return _PART.sub(".", "_" + name.removeprefix("L_").partition("_")[2]).strip("._") or name
