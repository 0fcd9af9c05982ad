"""Decoding of several tokens, unrolled: each token reads the one before it, and the caches that it left."""

from collections.abc import Iterator
from dataclasses import replace

from hetgym.errors import GraphError, shown
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.generators.language_model import language_model
from hetgym.graph.generators.tasks import bounded, wholes
from hetgym.graph.ops import WRITERS, Operator, Tensor

FAMILIES = ("llama", "gpt")  # Families of decoders alone


def decoding(
    tokens: int = 4,
    requests: int = 1,
    prompt: int = 128,
    family: str = "llama",
    layers: int = 2,
    hidden: int = 256,
    heads: int = 8,
    kv_heads: int | None = None,
    intermediate: int | None = None,
    vocabulary: int = 32000,
    dtype: str = "bfloat16",
) -> DataflowGraph:
    """Tokens that a language model decodes one after the other, for several requests that share its weights.

    A token is the ``decode`` phase of :func:`~hetgym.graph.generators.language_model`, and an operator ``sample`` that
    takes the most likely word, which the next token embeds. Caches move with the work: ``cache`` appends the new keys
    and values to those of the token before, and attention reads both from it; those of the prompt are at hand
    everywhere. Names begin with request and token, as in ``0.3.layers.1.self_attn.cache``.

    Args:
        tokens: tokens that are decoded for each request.
        requests: sequences, each with a chain of tokens of its own.
        prompt: tokens of a request before the first that is decoded.
        family, layers, hidden, heads, kv_heads, intermediate, vocabulary, dtype: see
            :func:`~hetgym.graph.generators.language_model`; the family is ``llama`` or ``gpt``.

    Raises:
        GraphError: a parameter out of range, or another family.

    >>> decoding(tokens=3, requests=2, layers=1)
    DataflowGraph('decoding', 150 operators, 192 edges)
    """
    wholes("decoding", tokens=tokens, requests=requests, prompt=prompt, layers=layers)
    if family not in FAMILIES:
        raise GraphError(f"decoding: family is {shown(family)}; it must be one of {', '.join(FAMILIES)}")
    bounded("decoding", requests * tokens * (25 * layers + 5), requests * tokens * (30 * layers + 6))
    operators: list[Operator] = []
    edges: list[tuple[int, int, int]] = []
    starts = [0] * requests  # number of the first operator of each request's latest token
    for token in range(tokens):
        length = prompt + token + 1
        step = language_model(
            family, layers, hidden, heads, kv_heads, intermediate=intermediate, vocabulary=vocabulary,
            positions=prompt + tokens, sequence=length, phase="decode", dtype=dtype,
        )  # fmt: skip
        own = [_unrolled(op, token > 0) for op in step.operators]
        own.append(Operator("sample", "ArgMax", own[-1].outputs, (Tensor((1, 1), "int64"),), {"axis": -1}))
        inside, carried = list(_edges(step)), list(_carried(step))
        for request, before in enumerate(starts):
            starts[request] = first = len(operators)
            operators += [replace(op, name=f"{request}.{token}.{op.name}") for op in own]
            edges += [(source + first, slot, target + first) for source, slot, target in inside]
            if token:
                edges += [(source + before, slot, target + first) for source, slot, target in carried]
    return DataflowGraph(operators, edges, "decoding")


def _unrolled(op: Operator, later: bool) -> Operator:
    """An operator of a token; those of caches return and read them as results, of earlier tokens if it is ``later``."""
    if op.kind in WRITERS:
        held, new = op.inputs[:2], op.inputs[2:]
        before = (replace(t, shape=(*t.shape[:2], t.shape[2] - 1, t.shape[3])) for t in held)
        inputs = tuple(_result(t) if later else t for t in before)
        return replace(op, kind="Concat", inputs=(*inputs, *new), outputs=tuple(map(_result, held)), attributes={})
    if op.kind == "Attention":
        query, keys, values = op.inputs[:3]
        return replace(op, inputs=(query, _result(keys), _result(values)))
    return op


def _result(tensor: Tensor) -> Tensor:
    """A constant as the result of an operator."""
    return Tensor(tensor.shape, tensor.dtype)


def _edges(step: DataflowGraph) -> Iterator[tuple[int, int, int]]:
    """Edges within a token: those of its graph, the second cache, and the scores that are sampled."""
    for edge in step.edges:
        yield edge
        if step.operators[edge.source].kind in WRITERS:
            yield edge.source, 1, edge.target
    yield len(step) - 1, 0, len(step)


def _carried(step: DataflowGraph) -> Iterator[tuple[int, int, int]]:
    """Edges from a token to the next: both caches of each layer, and the word."""
    for i, op in enumerate(step.operators):
        if op.kind in WRITERS:
            yield from ((i, slot, i) for slot in (0, 1))
        if op.kind == "Gather" and any(not t.constant and t.dtype == "int64" for t in op.inputs):
            yield len(step), 0, i
