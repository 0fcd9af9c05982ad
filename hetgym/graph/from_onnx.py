"""Import ONNX models: bind every dimension, fold constants into weights, keep what is computed."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hetgym.errors import GraphError, HetgymWarning, require, suggestion
from hetgym.graph.assembly import MAX_ELEMENTS, assemble, check_batch, unknown_kinds_sentence
from hetgym.graph.dataflow import DataflowGraph

if TYPE_CHECKING:
    import onnx

    from hetgym.graph.onnx_types import Walker

Shape = tuple[int, ...]


def from_onnx(
    model: str | os.PathLike[str] | onnx.ModelProto,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    name: str | None = None,
) -> DataflowGraph:
    """Import an ONNX model.

    Initializers, ``Constant`` nodes and everything computed from them alone become weights; weights
    are never allocated, and external data files are not opened. Nodes that no output depends on are
    dropped. Operators whose kind :data:`~hetgym.graph.KINDS` does not know are kept and priced by
    the bytes they move; so are ``If``, ``Loop`` and ``Scan``, whose bodies are not looked into.

    Args:
        model: path of an ``.onnx`` file, or the model itself, which is not changed.
        batch: size of the leading axis of every input that is dynamic there or 1. A leading 1 that
            is written into the model is rebound: constant ``Reshape`` targets are rewritten, and
            the shapes of the whole graph are inferred again.
        dims: sizes of named dynamic axes, ``{"sequence": 128}``; an axis without a name is
            ``"input:axis"``, such as ``{"x:1": 128}``. Takes precedence over ``batch``.
        name: of the graph; the file's or the model's by default.

    Returns:
        The graph; operators are in the file's order.

    Raises:
        GraphError: the file is missing or damaged, a dimension is unbound, shapes do not fit.
        MissingExtra: onnx is not installed.

    Warns:
        HetgymWarning: once a model, naming all operators of unknown kind.
    """
    require("onnx", "onnx", "importing an ONNX model")
    proto, label = _read(model)
    title = name or label
    where = f"ONNX model {title!r}"
    try:
        walker, results = _import(proto, batch, dict(dims or {}))
        graph = assemble(title, walker.values, walker.steps, results)
    except GraphError as error:
        raise GraphError(f"{where}: {error}") from error.__cause__
    sentence = unknown_kinds_sentence(graph)
    if walker.assumed:
        sentence += f"; outputs assumed as large as the first input: {', '.join(sorted(walker.assumed))}"
    if sentence:
        warnings.warn(sentence.removeprefix("; "), HetgymWarning, stacklevel=2)
    return graph


def _read(model: object) -> tuple[onnx.ModelProto, str]:
    """The model and what to call it."""
    import onnx

    if isinstance(model, onnx.ModelProto):
        return model, model.graph.name or "onnx"
    if not isinstance(model, str | os.PathLike):
        raise GraphError(f"an ONNX model is a path or a ModelProto, not {type(model).__name__}")
    path = Path(model)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise GraphError(f"{path}: no such file") from None
    except OSError as cause:
        raise GraphError(f"{path}: cannot be read ({cause.strerror})") from cause
    try:
        return onnx.ModelProto.FromString(data), path.stem
    except Exception as cause:  # DecodeError lives in protobuf, whose module layout varies
        raise GraphError(f"{path}: not an ONNX model, or damaged ({cause})") from cause


def _import(model: onnx.ModelProto, batch: int | None, dims: dict[str, int]) -> tuple[Walker, list[str]]:
    """Walk the model, twice if a batch of 1 that is written into it is rebound."""
    if not model.graph.output:
        raise GraphError("has no outputs; it is empty or not an ONNX model")
    nodes = _inlined(model)
    shapes, rebound = _bind(model, batch, dims)
    walker = _walk(model, nodes, shapes, dims, declared=True)
    if rebound:
        assert batch is not None
        larger = {key: (batch, *shape[1:]) if key in rebound else shape for key, shape in shapes.items()}
        try:
            walker = _walk(model, nodes, larger, dims, declared=False, smaller=walker)
        except GraphError as error:
            raise GraphError(
                f"its batch is fixed at 1 and cannot become {batch}: {error}; export it with a dynamic batch axis"
            ) from error
    results = [output.name for output in model.graph.output]
    for result in results:
        walker.check(result, "the model's output")
    return walker, results


def _inlined(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes, calls of the model's own functions replaced by their bodies."""
    import onnx.inliner

    if not model.functions:
        return list(model.graph.node)
    skeleton = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    skeleton.graph.name = model.graph.name
    skeleton.graph.node.extend(model.graph.node)  # without weights, which may not fit a serialised copy
    try:
        return list(onnx.inliner.inline_local_functions(skeleton).graph.node)
    except Exception as cause:  # a C++ exception of no fixed type
        raise GraphError(f"its functions cannot be inlined ({cause})") from cause


def _bind(model: onnx.ModelProto, batch: int | None, dims: dict[str, int]) -> tuple[dict[str, Shape], set[str]]:
    """Shapes of the inputs with every axis a number, and the inputs whose leading 1 is to become the batch."""
    size = None if batch is None else check_batch(batch)
    weights = _weight_names(model)
    inputs = [value for value in model.graph.input if value.name not in weights]
    known = set(_axis_names(inputs))
    for key, value in dims.items():
        if key not in known:
            raise GraphError(f"no dynamic axis is called {key!r}; {suggestion(key, known) if known else 'it has none'}")
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_ELEMENTS:
            raise GraphError(f"dims[{key!r}] must be a positive whole number, not {value!r}")
    shapes: dict[str, Shape] = {}
    rebound: set[str] = set()
    fixed: dict[str, int] = {}
    taken = False
    for value in inputs:
        proto = value.type
        if not proto.HasField("tensor_type") or not proto.tensor_type.HasField("shape"):
            raise GraphError(f"input {value.name!r} is no tensor of known rank")
        shape = []
        for axis, dim in enumerate(proto.tensor_type.shape.dim):
            keys = (dim.dim_param, f"{value.name}:{axis}")
            named = next((dims[key] for key in keys if key in dims), None)
            if dim.dim_value > 0:
                shape.append(dim.dim_value)
                if axis == 0:
                    fixed[value.name] = dim.dim_value
            elif named is not None:
                shape.append(named)
            elif axis == 0 and size is not None:
                shape.append(size)
                taken = True
            else:
                raise GraphError(_unbound(value.name, axis, dim.dim_param))
        shapes[value.name] = tuple(shape)
    if size is not None and not taken and fixed and size not in fixed.values():
        rebound = {key for key, leading in fixed.items() if leading == 1}
        if not rebound:
            key, leading = next(iter(fixed.items()))
            raise GraphError(f"input {key!r} has its leading axis fixed at {leading}; pass batch={leading} or no batch")
    return shapes, rebound


def _unbound(value: str, axis: int, param: str) -> str:
    key = param or f"{value}:{axis}"
    called = f" ({param!r})" if param else ""
    by_batch = "batch=… or " if axis == 0 else ""
    return f"axis {axis}{called} of input {value!r} is dynamic; pass {by_batch}dims={{{key!r}: …}}"


def _axis_names(inputs: list[onnx.ValueInfoProto]) -> Iterator[str]:
    for value in inputs:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_value <= 0:
                yield dim.dim_param or f"{value.name}:{axis}"


def _weight_names(model: onnx.ModelProto) -> set[str]:
    sparse = {tensor.values.name for tensor in model.graph.sparse_initializer}
    return {tensor.name for tensor in model.graph.initializer} | sparse


def _walk(
    model: onnx.ModelProto,
    nodes: list[onnx.NodeProto],
    shapes: Mapping[str, Shape],
    dims: Mapping[str, int],
    declared: bool,
    smaller: Walker | None = None,
) -> Walker:
    """Infer all types.

    Args:
        model: for its weights, opsets and declared types.
        nodes: its nodes, functions inlined.
        shapes: of its inputs.
        dims: sizes of named dimensions, for declared types.
        declared: whether the types that the model states still hold.
        smaller: the walk of the same model at batch 1, to rewrite Reshape targets.
    """
    from onnx import helper

    from hetgym.graph.onnx_types import SMALL, Walker, small_value

    stated = _declared(model, dims) if declared else {}
    opsets = {entry.domain: entry.version for entry in model.opset_import}

    def rewrite(node: onnx.NodeProto, target: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return target if smaller is None else _rescaled(node, target, smaller, walker)

    walker = Walker(opsets, stated, rewrite)
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


def _declared(model: onnx.ModelProto, dims: Mapping[str, int]) -> dict[str, onnx.TypeProto]:
    """Types that the model states for its values, named dimensions bound."""
    import onnx

    found = {}
    for value in (*model.graph.value_info, *model.graph.output):
        proto = onnx.TypeProto()
        proto.CopyFrom(value.type)
        for dim in proto.tensor_type.shape.dim if proto.HasField("tensor_type") else ():
            if dim.dim_param in dims:
                dim.dim_value = dims[dim.dim_param]
        found[value.name] = proto
    return found


def _rescaled(
    node: onnx.NodeProto, target: np.ndarray[Any, Any], smaller: Walker, larger: Walker
) -> np.ndarray[Any, Any]:
    """The literal target of a Reshape with the batch put where batch 1 stood.

    The batch is the axis of the data that grew. In the target it is the axis with as many elements
    before it; that axis must be 1, or lead.
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
            f"the target {target.tolist()} of a Reshape of {list(before)} does not show where the batch is"
        )
    scaled = target.copy()
    if scaled[place] > 0:
        scaled[place] *= after[grown[0]] // before[grown[0]]
    return scaled
