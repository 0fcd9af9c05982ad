"""Import of PyTorch modules through ``torch.export``; weights may be on the meta device."""

import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from hetgym._input.notes import left_out
from hetgym.errors import GraphError, require
from hetgym.graph.assembly import assemble
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.torch_caches import register_caches
from hetgym.graph.torch_types import Walker, unchanged, weight_names

_THEIR_WARNINGS = (
    (FutureWarning, r".*isinstance\(treespec, LeafSpec\)"),  # torch's own use of its deprecated class
    (UserWarning, r".*_flat_weights"),  # modules with recurrent layers; export handles them
)


def from_torch(
    module: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    *,
    strict: bool = False,
) -> DataflowGraph:
    """Import a module as it runs in inference.

    The module is traced by ``torch.export`` in evaluation mode, without executing it: with the module and the arguments
    on the meta device nothing is allocated. Parameters, buffers and everything computed from these alone are weights;
    tied weights share one name. Operators that change nothing in inference (dropout, a cast to the same dtype) are left
    out. Transposes, slices and the like become ``View``, which moves no data, as in PyTorch. A copy that becomes
    necessary later because of strides is ``Copy``. Key-value caches of transformers (``DynamicCache``,
    ``EncoderDecoderCache``) may be arguments and results. Operators of unknown kind are priced by the bytes they move.
    Operators are named by the submodule that they belong to.

    Args:
        module: a ``torch.nn.Module``; its training flags are restored afterwards.
        args: example positional arguments; they determine the shapes in the graph.
        kwargs: example keyword arguments.
        name: name of the graph; that of the module's class by default.
        strict: refuse operators of unknown kind.

    Raises:
        GraphError: the module cannot be exported, or a shape depends on data.
        MissingExtra: torch is not installed.

    Warns:
        HetgymWarning: one warning for each module, which names all operators of unknown kind.
    """
    return traced(module, args, kwargs, name, strict).graph


class Traced(NamedTuple):
    """A traced module."""

    program: Any  # the exported program, whose nodes include the operators of the graph
    walker: Walker  # the walker, which maps nodes to operators
    graph: DataflowGraph  # the graph


def traced(
    module: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    strict: bool = False,
) -> Traced:
    """As :func:`from_torch`, but also return the program that the graph was made from."""
    torch = require("torch", "torch", "importing a PyTorch module")
    if not isinstance(module, torch.nn.Module):
        raise GraphError(f"from_torch imports a torch.nn.Module, not {type(module).__name__}")
    title = name or type(module).__name__
    if not isinstance(args, Iterable) or not isinstance(kwargs, Mapping | None):
        raise GraphError(f"module {title!r}: args must be a sequence and kwargs a mapping of example arguments")
    arguments = (args,) if isinstance(args, torch.Tensor) else tuple(args)
    with _inference(torch, module), _quiet():
        program = _export(torch, module, arguments, dict(kwargs or {}), title)
    try:
        walker = Walker(torch.Tensor, program.graph.nodes, weight_names(program, module), program.graph_module)
        walker.walk()
        graph = assemble(title, walker.values, walker.steps, walker.results)
    except GraphError as error:
        raise GraphError(f"module {title!r}: {error}") from error.__cause__
    left_out(f"module {title!r}", graph.notes, strict, GraphError)
    return Traced(program, walker, graph)


@contextmanager
def _inference(torch: Any, module: Any) -> Iterator[None]:
    training = [part for part in module.modules() if part.training]
    try:
        module.eval()
        with torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        for category, message in _THEIR_WARNINGS:
            warnings.filterwarnings("ignore", message=message, category=category)
        yield


def _export(torch: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], title: str) -> Any:
    """Trace the module and make mutations functional, so that data flows along edges only."""
    try:
        register_caches(torch)
        place = {name: k for k, name in enumerate(inspect.signature(module.forward).parameters)}
        ordered = dict(sorted(kwargs.items(), key=lambda item: place.get(item[0], len(place))))
        # Export checks the arguments in the order of the names.
        program = torch.export.export(module, args, ordered, strict=False)
        for node in list(program.graph.nodes):
            if node.op == "call_function" and unchanged(node):
                node.replace_all_uses_with(node.args[0], lambda user: bool(user.op != "output"))
                if not node.users:  # "detach_" counts as a mutation, but changes nothing
                    program.graph.erase_node(node)
        if any(getattr(getattr(node.target, "_schema", None), "is_mutable", False) for node in program.graph.nodes):
            program = program.run_decompositions({})
        return program
    except Exception as cause:  # torch.export passes on any exception of the module or the tracer
        reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
        raise GraphError(f"module {title!r}: torch.export cannot trace it ({reason})") from cause
