"""Import of ONNX models: every dimension is bound, and constants are folded into weights."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hetgym._input.files import as_path, read_bytes
from hetgym._input.notes import left_out
from hetgym._text import plain
from hetgym.errors import GraphError, require, shown
from hetgym.graph.assembly import assemble, living
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.onnx_binding import Shape, bind

if TYPE_CHECKING:
    import onnx

    from hetgym.graph.onnx_types import Walker


def from_onnx(
    model: str | os.PathLike[str] | onnx.ModelProto,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    name: str | None = None,
    *,
    strict: bool = False,
) -> DataflowGraph:
    """Import an ONNX model; the operators of the graph are in the order of the file.

    Initializers, ``Constant`` nodes and everything computed from these alone become weights. Weights are never
    allocated, and external data files are not opened. Nodes that no output depends on are dropped. Operators of a kind
    that is not in :data:`~hetgym.graph.KINDS` are kept and priced by the bytes they move. ``If``, ``Loop`` and ``Scan``
    stay one operator each, priced by the work of their dearest body times its rounds, or once if these depend on data.
    Their results have the types that the body states for them; otherwise a state of a loop has the type that it starts
    with, and results that a Loop stacks round by round have as many as it allows, or one if that depends on data. The
    graph's notes name what is assumed.

    Args:
        model: path of an ``.onnx`` file, or the model itself, which is not changed.
        batch: size of the leading axis of every input whose leading axis is dynamic or 1. A fixed leading 1 is rebound:
            constant ``Reshape`` targets are rewritten, and the shapes of the whole graph are inferred again. By default
            fixed axes keep their sizes, and dynamic ones have size 1.
        dims: sizes of named dynamic axes, ``{"sequence": 128}``; an axis without a name is ``"input:axis"``, such as
            ``{"x:1": 128}``. Takes precedence over ``batch``.
        name: name of the graph; that of the file or the model by default.
        strict: refuse what is otherwise a warning.

    Raises:
        GraphError: the file is missing or damaged, a dimension is unbound, or shapes do not fit.
        MissingExtra: onnx is not installed.

    Warns:
        HetgymWarning: one warning for each model, which names all operators of unknown kind, and those whose results
            have an assumed shape.
    """
    graph, _, _, where = _assembled(model, batch, dims, name)
    left_out(where, graph.notes, strict, GraphError)
    return graph


def onnx_results(
    model: str | os.PathLike[str] | onnx.ModelProto, batch: int | None = None, dims: Mapping[str, int] | None = None
) -> dict[str, str]:
    """Name of each operator of :func:`from_onnx`, which has the same errors -> the first value that its node writes.

    An operator's name may differ from its node's, which may be empty or used twice; the values of a model are unique.
    """
    graph, walker, results, _ = _assembled(model, batch, dims, None)
    steps, _ = living(walker.steps, results)
    return {op.name: step.outputs[0] for op, step in zip(graph.operators, steps, strict=True)}


def _assembled(
    model: str | os.PathLike[str] | onnx.ModelProto, batch: int | None, dims: Mapping[str, int] | None, name: str | None
) -> tuple[DataflowGraph, Walker, list[str], str]:
    """The graph, the walk that it was made from, the values that the model returns, and its name in messages."""
    require("onnx", "onnx", "importing an ONNX model")
    proto, label, where = _read(model)
    if dims is not None and not isinstance(dims, Mapping):
        raise GraphError(f"{where}: dims is {shown(dims)}, not a mapping from names to sizes")
    try:
        walker, results = _import(proto, batch, dict(dims or {}))
        graph = assemble(name or label, walker.values, walker.steps, results, list(walker.notes()))
        return graph, walker, results, where
    except GraphError as error:
        raise GraphError(f"{where}: {error}") from error.__cause__


def _read(model: object) -> tuple[onnx.ModelProto, str, str]:
    """The model, a name for its graph, and its name in error messages."""
    import onnx

    from hetgym.graph.onnx_checks import FILE_LIMIT

    if isinstance(model, onnx.ModelProto):
        title = model.graph.name or "onnx"
        return model, title, f"ONNX model {title!r}"
    path = as_path(model, "an ONNX model", GraphError)
    data = read_bytes(path, FILE_LIMIT, GraphError)
    try:
        return onnx.ModelProto.FromString(data), plain(path.stem), str(path)
    except Exception as cause:  # protobuf's DecodeError, whose module differs between versions
        raise GraphError(f"{path}: not an ONNX model, or damaged ({cause})") from cause


def _import(model: onnx.ModelProto, batch: int | None, dims: dict[str, int]) -> tuple[Walker, list[str]]:
    """Walk the model; twice if a fixed batch of 1 is to be rebound."""
    from hetgym.graph.onnx_checks import check_model

    check_model(model)
    nodes = _inlined(model)
    weights = _weight_names(model)
    binding = bind([value for value in model.graph.input if value.name not in weights], batch, dims)
    walker = _walk(model, nodes, binding.shapes, _declared(model, nodes, binding.symbols))
    if binding.rebound and batch is not None:
        try:
            walker = _walk(model, nodes, binding.at(batch), {}, smaller=walker)
        except GraphError as error:
            raise GraphError(
                f"its batch is fixed at 1 and cannot become {batch}: {error}; export it with a dynamic batch axis"
            ) from error
    results = [output.name for output in model.graph.output]
    for result in results:
        walker.check(result, "the model's output")
    return walker, results


def _inlined(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes of the model, with calls of its own functions replaced by the functions' bodies."""
    import onnx.inliner

    from hetgym.graph.onnx_checks import check_calls

    if not model.functions:
        return list(model.graph.node)
    check_calls(model)
    skeleton = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    skeleton.graph.name = model.graph.name
    skeleton.graph.node.extend(model.graph.node)  # no weights: they may exceed the limit of a serialised message
    try:
        return list(onnx.inliner.inline_local_functions(skeleton).graph.node)
    except Exception as cause:  # a C++ exception of no fixed type
        raise GraphError(f"its functions cannot be inlined ({cause})") from cause


def _weight_names(model: onnx.ModelProto) -> set[str]:
    sparse = {tensor.values.name for tensor in model.graph.sparse_initializer}
    return {tensor.name for tensor in model.graph.initializer} | sparse


def _walk(
    model: onnx.ModelProto,
    nodes: list[onnx.NodeProto],
    shapes: Mapping[str, Shape],
    declared: Mapping[str, onnx.TypeProto],
    smaller: Walker | None = None,
) -> Walker:
    """Infer the types of all values of the nodes, whose functions are inlined.

    ``declared`` are types that the model states and that still hold. ``smaller`` is the walk of the same model at batch
    1, from which Reshape targets are rewritten.
    """
    from onnx import helper

    from hetgym.graph.onnx_nodes import small_value
    from hetgym.graph.onnx_types import SMALL, Walker

    opsets = {entry.domain: entry.version for entry in model.opset_import}

    def rewrite(node: onnx.NodeProto, target: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return target if smaller is None else _rescaled(node, target, smaller, walker)

    walker = Walker(opsets, declared, rewrite)
    for value in model.graph.input:
        if value.name in shapes:
            elem_type = value.type.tensor_type.elem_type
            walker.define(value.name, helper.make_tensor_type_proto(elem_type, shapes[value.name]))
    for tensor in model.graph.initializer:
        data = small_value(tensor, f"initializer {tensor.name!r}") if math.prod(tensor.dims) <= SMALL else None
        if data is None:
            walker.define(
                tensor.name, helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims)), constant=True
            )
        else:
            walker.literal(tensor.name, data, tensor.data_type)
    for sparse in model.graph.sparse_initializer:
        dense = helper.make_tensor_type_proto(sparse.values.data_type, list(sparse.dims))
        walker.define(sparse.values.name, dense, constant=True)
    walker.walk(nodes)
    return walker


def _declared(
    model: onnx.ModelProto, nodes: list[onnx.NodeProto], symbols: Mapping[str, int]
) -> dict[str, onnx.TypeProto]:
    """Types that the model declares for its values, with named dimensions bound; those of a node's body come first."""
    import onnx

    from hetgym.graph.onnx_nodes import stated_by_body

    found = {}
    for value in (*(v for node in nodes for v in stated_by_body(node)), *model.graph.value_info, *model.graph.output):
        proto = onnx.TypeProto()
        proto.CopyFrom(value.type)
        for dim in proto.tensor_type.shape.dim if proto.HasField("tensor_type") else ():
            if dim.dim_param in symbols:
                dim.dim_value = symbols[dim.dim_param]
        found[value.name] = proto
    return found


def _rescaled(
    node: onnx.NodeProto, target: np.ndarray[Any, Any], smaller: Walker, larger: Walker
) -> np.ndarray[Any, Any]:
    """The literal target of a Reshape, with batch 1 replaced by the new batch.

    The batch axis of the data is the one that grew between the two walks. In the target it is the axis with as many
    elements before it as in the data. That axis must be 1 or the first one.
    """
    before, after = smaller.values[node.input[0]].shape, larger.values[node.input[0]].shape
    grown = [axis for axis, (small, large) in enumerate(zip(before, after, strict=True)) if small != large]
    if not grown:
        return target
    outcome = smaller.values[node.output[0]].shape
    ahead = math.prod(before[: grown[0]])
    places = [i for i in range(len(outcome)) if math.prod(outcome[:i]) == ahead]
    ones = [i for i in places if outcome[i] == 1]
    place = 0 if ahead == 1 and places else ones[0] if ones else None
    if len(grown) > 1 or place is None:
        raise GraphError(
            f"the target {target.tolist()} of a Reshape of {list(before)} does not show which axis is the batch"
        )
    scaled = target.copy()
    if scaled[place] > 0:
        scaled[place] *= after[grown[0]] // before[grown[0]]
    return scaled
