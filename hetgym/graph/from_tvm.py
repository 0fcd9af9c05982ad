"""Import of the operator groups that TVM's FuseOps pass finds in an ONNX model."""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetgym.errors import GraphError, HetgymWarning, require
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.from_onnx import from_onnx
from hetgym.graph.transforms.fusion import Fusion, apply_groups

if TYPE_CHECKING:
    import onnx

_PURPOSE = "importing TVM's groups"
_MARK = re.compile(r"hetgym_(\d+)_")


@dataclass(frozen=True, eq=False)
class TvmFusion:
    """The groups that TVM fuses, in terms of the operators of hetgym's graph of the same file."""

    fusion: Fusion  # the graph fused by TVM's groups, with the membership
    groups: tuple[tuple[str, ...], ...]  # for each group of `fusion.members`, the names of its operators
    kernels: int  # number of functions that TVM's graph calls after fusion; an operator may take several
    # operator -> TVM's op_pattern of each of its calls (0 elementwise to 4 out-fusable, 8 opaque)
    patterns: dict[str, tuple[int, ...]]
    split: tuple[str, ...]  # operators whose calls TVM put into several kernels; they are in the group of the last call
    # operators that TVM does not call at all, such as Dropout; they are in the group that they read from
    elided: tuple[str, ...]


def from_tvm(model: str | os.PathLike[str] | onnx.ModelProto, module: Any = None) -> TvmFusion:
    """Fuse an ONNX model as TVM does.

    The passes are those of relax's ``zero`` pipeline: LegalizeOps, AnnotateTIROpPattern, FoldConstant, FuseOps.
    Every node's result is bound to a marked variable. A call belongs to the node whose result it contributes to.
    Before FuseOps each call gets a function of its own, whose name tells afterwards which group it went into.

    An operator is in the group that computes its result, so dependencies between groups have no cycle.

    Args:
        model: path of an ``.onnx`` file, or the model itself, which is not changed; all shapes must be static.
        module: the module that :func:`relax_module` made from the same model, after the caller's own passes.

    Raises:
        GraphError: the model cannot be read, TVM refuses it, or the module is not from :func:`relax_module`.
        MissingExtra: tvm or onnx is not installed.
    """
    relax = require("tvm.relax", "tvm", _PURPOSE)
    proto, marked = _marked(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HetgymWarning)  # the import below warns, too
        numbers = [int(operator.name.removeprefix("node:")) for operator in from_onnx(marked).operators]
    graph = from_onnx(model) if isinstance(model, str | os.PathLike) else from_onnx(proto)
    return _imported(relax, graph, numbers, relax_module(proto) if module is None else module)


def relax_module(model: str | os.PathLike[str] | onnx.ModelProto) -> Any:
    """A ``tvm.IRModule`` by TVM's ONNX frontend, in which the variable of each node's result has the node's number.

    Passes of one's own can be run on it before :func:`from_tvm` groups its calls; see there for the model and errors.
    """
    relax = require("tvm.relax", "tvm", _PURPOSE)
    frontend = require("tvm.relax.frontend.onnx.onnx_frontend", "tvm", _PURPOSE)
    proto, marked = _marked(model)
    numbers = {output: i for i, node in enumerate(proto.graph.node) for output in node.output}

    importer: Any = frontend.ONNXGraphImporter

    class Marking(importer):  # type: ignore[misc]
        def _construct_nodes(self, graph: Any) -> None:
            self.marks = iter(range(len(graph.node)))
            super()._construct_nodes(graph)

        def _convert_operator(self, *args: Any) -> Any:
            number, before = next(self.marks), set(self._nodes.values())

            def mark(value: Any) -> Any:
                if isinstance(value, relax.Var) and value not in before:  # bound by the converter: bind it again
                    bound = self.bb.lookup_binding(value)
                    value = value if bound is None else bound
                if isinstance(value, relax.Call | relax.TupleGetItem):
                    return self.bb.emit(value, name_hint=f"hetgym_{number}_")
                return value

            result = super()._convert_operator(*args)
            if isinstance(result, relax.Tuple):
                return relax.Tuple([mark(field) for field in result.fields])
            return mark(result)

    if any(node.op_type == "If" for node in proto.graph.node) or not numbers:
        raise GraphError(f"{_title(model)}: TVM's groups cannot be imported for a model with If or without operators")
    opset = max((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), default=1)
    try:
        return relax.transform.DeadCodeElimination()(Marking({}, "float32").from_onnx(marked.graph, opset))
    except Exception as cause:  # TVM raises many types
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        raise GraphError(f"{_title(model)}: TVM cannot import it ({lines[-1]})") from cause


def _title(model: object) -> str:
    return str(model) if isinstance(model, str | os.PathLike) else "ONNX model"


def _marked(model: str | os.PathLike[str] | onnx.ModelProto) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The model, and a copy of it in which the name of each node is its number."""
    onnx = require("onnx", "onnx", "importing an ONNX model")
    if isinstance(model, onnx.ModelProto):
        proto = model
    else:
        try:
            proto = onnx.load(Path(model))
        except Exception as cause:  # of no fixed type
            raise GraphError(f"{model}: cannot be read ({cause})") from cause
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for i, node in enumerate(copy.graph.node):
        node.name = f"node:{i}"
    return proto, copy


def _imported(relax: Any, graph: DataflowGraph, numbers: list[int], module: Any) -> TvmFusion:
    """Run the passes and read off the groups."""
    passes = relax.transform
    for step in (passes.LegalizeOps(), passes.AnnotateTIROpPattern(), passes.FoldConstant()):
        module = step(module)
    module, names = _numbered(relax, module)
    owner = _owners(relax, module["main"], set(numbers))
    if not owner:
        raise GraphError("no variable of the relax module is marked; make the module with hetgym.graph.relax_module")
    module = passes.FuseOps()(module)
    kernel = _kernels(relax, module, names)
    at = {number: i for i, number in enumerate(numbers)}
    calls: list[list[str]] = [[] for _ in numbers]  # in the order of the program
    for name in names:
        if name in owner and name in kernel:
            calls[at[owner[name]]].append(name)
    group: list[int] = [-1] * len(numbers)
    for i in graph.topological_order.tolist():
        if calls[i]:
            group[i] = kernel[calls[i][-1]]
        else:
            before = graph.predecessors.node[graph.predecessors.pointer[i] : graph.predecessors.pointer[i + 1]]
            group[i] = group[before[0]] if len(before) else -1 - i
    rows: dict[int, list[int]] = {}
    for i, g in enumerate(group):
        rows.setdefault(g, []).append(i)
    fusion = apply_groups(graph, list(rows.values()))
    operators = graph.operators
    patterns = {operators[i].name: tuple(names[name] for name in row) for i, row in enumerate(calls)}
    return TvmFusion(
        fusion,
        tuple(tuple(operators[i].name for i in row) for row in fusion.members),
        len(set(kernel.values())),
        patterns,
        tuple(operators[i].name for i, row in enumerate(calls) if len({kernel[name] for name in row}) > 1),
        tuple(operators[i].name for i, row in enumerate(calls) if not row),
    )


def _numbered(relax: Any, module: Any) -> tuple[Any, dict[str, int]]:
    """Give every call a function of its own; return the module, and function -> op_pattern in the order of calls."""
    tvm = require("tvm", "tvm", _PURPOSE)
    names: dict[str, int] = {}
    functions = dict(module.functions.items())
    call_tir = tvm.ir.Op.get("relax.call_tir")

    @relax.expr_functor.mutator
    class Numbering(relax.PyExprMutator):  # type: ignore[misc]
        def visit_call_(self, call: Any) -> Any:
            if not call.op.same_as(call_tir):
                return call
            function = functions[call.args[0]]
            name = f"hetgym_call_{len(names)}"
            pattern = (function.attrs or {}).get("op_pattern", 8)
            names[name] = int(pattern)
            own = self.builder_.add_func(function.with_attr("hetgym_call", name), name)
            return relax.Call(call.op, [own, *call.args[1:]], call.attrs, call.ty_args)

    mutator = Numbering(module)
    (main,) = (var for var in functions if var.name_hint == "main")
    mutator.builder_.update_func(main, mutator.visit_expr(module["main"]))
    return mutator.builder_.get(), names


def _bindings(function: Any) -> list[Any]:
    return [binding for block in function.body.blocks for binding in block.bindings]


def _callee(relax: Any, value: Any) -> str | None:
    """The function that a call calls."""
    if not isinstance(value, relax.Call):
        return None
    target = value.args[0] if getattr(value.op, "name", "") == "relax.call_tir" else value.op
    return str(target.name_hint) if hasattr(target, "name_hint") else None


def _owners(relax: Any, main: Any, known: set[int]) -> dict[str, int]:
    """Function -> node whose result it feeds: the first marked variable on the way forward."""
    owner_of: dict[Any, int] = {}  # by variable
    owner: dict[str, int] = {}
    for binding in reversed(_bindings(main)):
        mark = _MARK.match(binding.var.name)
        node = int(mark.group(1)) if mark else owner_of.get(binding.var)
        if node is None or node not in known:
            continue
        name = _callee(relax, binding.value)
        if name is not None:
            owner[name] = node
        for var in relax.analysis.free_vars(binding.value):
            owner_of[var] = node
    return owner


def _kernels(relax: Any, module: Any, names: dict[str, int]) -> dict[str, int]:
    """Function -> number of the fused function that it is in, or of its own call if it was not fused."""
    kernel: dict[str, int] = {}
    for number, binding in enumerate(_bindings(module["main"])):
        name = _callee(relax, binding.value)
        if name in names:
            kernel[name] = number
        elif name is not None:
            for inner in _bindings(module[name]):
                called = _callee(relax, inner.value)
                if called in names:
                    kernel[called] = number
    return kernel
