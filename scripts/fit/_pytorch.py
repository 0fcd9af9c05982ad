"""The kernels that PyTorch runs for a node of a traced transformer, forward and backward; used by ``neusight.py``.

Rules follow PyTorch's sources and documented behaviour, not measurements. Views, indexing by slices, scalars, and
dropout in inference start no kernel. ``contiguous`` and ``reshape`` copy only after a transposition, and the gradient
of a transposed view is copied when the view before it takes its shape back. If several operators read a value, its
gradients are added up. Gradients of parameters are added to the existing ones, since the runs never clear them. The
loss of a language model is a log-softmax over the vocabulary. Not modelled: the runs empty the allocator's cache before
each iteration, so that the forward pass in training allocates its memory anew on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from _neusight import Node, Run, linear, product, repeats, size

from hetgym.costs import CostModel
from hetgym.device import Device
from hetgym.graph import Operator, Tensor

Shape = tuple[int, ...]

KINDS = {"gelu": "Gelu", "relu": "Relu", "tanh": "Tanh", "pow": "Pow", "log": "Log", "abs": "Abs", "rsqrt": "Sqrt",
         "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "truediv": "Div", "max": "Max", "min": "Min",
         "gt": "Greater", "lt": "Less", "le": "LessOrEqual", "ne": "Equal", "where": "Where"}  # fmt: skip
SMALL = ("argmax", "one_hot", "cumsum", "zeros", "ones", "clone", "bool", "float", "sub")
"""Functions that run one kernel that writes their output."""

COPIES = ("contiguous", "reshape")
TURNS = ("transpose", "permute")


def elementwise(kind: str, inputs: Sequence[Shape], output: Shape) -> Operator:
    """One kernel over an output; scalars among the inputs are not read."""
    tensors = tuple(Tensor(shape) for shape in inputs if size(shape) > 1)
    return Operator(kind.lower(), kind, tensors or (Tensor(output),), (Tensor(output),))


def rows(kind: str, shape: Shape) -> Operator:
    """Softmax or layer norm over the last axis."""
    return Operator(kind.lower(), kind, (Tensor(shape),), (Tensor(shape),))


def reduction(source: Shape, result: Shape) -> Operator:
    """A sum over some axes."""
    return Operator("sum", "ReduceSum", (Tensor(source),), (Tensor(result),))


def masked(shape: Shape) -> Operator:
    """Dropout, or its gradient: one tensor, one mask of bytes."""
    return Operator("dropout", "Mul", (Tensor(shape), Tensor(shape, "bool")), (Tensor(shape),))


def filled(shape: Shape) -> Operator:
    """Zeros."""
    return Operator("zeros", "ConstantOfShape", (), (Tensor(shape),))


def stem(node: Node) -> str:
    """A node's function, without the number that tracing appends."""
    head, _, tail = node.name.rpartition("_")
    return head if head and tail.isdigit() else node.name


def batched(node: Node) -> bool:
    """True if both operands of a product have a batch; the traces call some of these products linear."""
    return len(node.inputs) == 2 and all(len(shape) > 2 for shape in node.inputs)


def matrix(node: Node) -> tuple[int, int, int]:
    """Rows, reduction and columns of a product with a matrix of weights."""
    source = node.inputs[0] if len(node.inputs) < 3 else node.inputs[1]
    return size(node.output) // node.output[-1], source[-1], node.output[-1]


def turned(node: Node, before: Sequence[Node]) -> bool:
    """True if a node reads the output of the last node with more than one element, and that is a transposition."""
    previous = [other for other in before if size(other.output) > 1]
    return bool(previous) and stem(previous[-1]).startswith(TURNS) and size(previous[-1].output) == size(node.output)


LAYER_NODES = 80
"""Number of preceding nodes among which a transposition of an operand is searched for."""


def copied(shapes: Sequence[Shape]) -> list[Operator]:
    """One kernel for each shape that copies it."""
    return [Operator("copy", "Transpose", (Tensor(shape),), (Tensor(shape),)) for shape in shapes]


def spread(node: Node, before: Sequence[Node]) -> list[Shape]:
    """Operands of a product that are transposed views with two batch axes."""
    views = [other.output for other in before[-LAYER_NODES:] if stem(other).startswith(TURNS)]
    return [shape for shape in node.inputs[-2:] if len(shape) == 4 and shape in views]


def gathered(node: Node, before: Sequence[Node]) -> list[Operator]:
    """Copies of a product's operands whose two batch axes are not contiguous: ``matmul`` reshapes these axes to one."""
    return copied([shape for shape in spread(node, before) if shape[0] > 1])


def forward(node: Node, before: Sequence[Node], training: bool) -> list[Operator]:
    """The kernels of a node's forward pass.

    Args:
        node: the node.
        before: preceding nodes, in order.
        training: True if dropout is active.
    """
    name, shape = stem(node), node.output
    if node.kind in ("setitem", "count") or (node.kind == "getitem" and waits(node, before)):
        return indexed(node)
    if size(shape) <= 1 or node.kind in ("output", "Weight") or (node.kind == "misc" and not node.inputs):
        return []
    if node.kind == "BMM" or (node.kind == "Linear" and batched(node)):
        left, right = node.inputs[-2:]
        return [*gathered(node, before), product(left[:-2], left[-2], left[-1], right[-1])]
    if node.kind == "Linear":
        return [linear(*matrix(node))]
    if node.kind == "VECln":
        return [rows("LayerNormalization", shape)]
    if node.kind == "VECsoftmax":
        return [rows("Softmax", shape)]
    if node.kind == "dropout" or "dropout" in name or name.endswith("_drop"):
        return [masked(shape)] if training and keeps(node) else []
    if node.kind == "EMBEDDING" or any(word in name for word in ("embedding", "embed_", "_wpe", "_wte")):
        return [elementwise("Gather", [shape], shape)] if len(shape) > 2 else []
    if name.startswith(COPIES):
        return [Operator("copy", "Transpose", (Tensor(shape),), (Tensor(shape),))] if turned(node, before) else []
    if name in SMALL:
        return [elementwise("Copy", [shape], shape)]
    if name == "mean":
        return [reduction(node.inputs[0], shape)]
    short = node.kind.removeprefix("VEC") if node.kind.startswith("VEC") else name
    kind = KINDS.get(short) or KINDS.get(short.removesuffix("u"))
    return [elementwise(kind, node.inputs, shape)] if kind else []


def waits(node: Node, before: Sequence[Node]) -> bool:
    """True if the host must wait for a result: it indexes by a mask, or up to a count that is on the GPU."""
    if node.kind == "setitem":
        return True
    if node.kind != "getitem" or len(node.inputs) < 2:
        return False
    masked_by = size(node.inputs[1]) > 1
    return masked_by or any(other.kind == "count" for other in before[-MEMORY:])


MEMORY = 12
"""Number of preceding nodes among which a count of tokens is searched for."""


def indexed(node: Node) -> list[Operator]:
    """Count, or read or write by a mask: four small kernels find the places of a mask, one more moves the rows."""
    mask = node.inputs[1] if len(node.inputs) > 1 and size(node.inputs[1]) > 1 else ()
    find = [elementwise("Copy", [mask], mask)] * 4 if mask else []
    if node.kind == "count":
        return [reduction(node.inputs[0], ())]
    width = node.inputs[0][-1]
    moved = node.output if node.kind == "getitem" else node.inputs[-1]
    tokens = (max(moved[0] if moved else 0, 1), width)
    return [*find, elementwise("Copy", [tokens], tokens)]


def keeps(node: Node) -> bool:
    """False for dropout with probability 0, which returns its input: OPT's configuration has that in its attention."""
    return not (node.name == "dropout" and len(node.output) == 3)


PROJECTIONS = ("_key", "_value", "_k_proj", "_v_proj")
"""Second and third reader of the same activations: their gradients are added."""


def backward(node: Node, before: Sequence[Node]) -> list[Operator]:
    """The kernels of a node's backward pass, including the sums of gradients that it requires."""
    shape = node.output
    if stem(node) == "split":  # the gradients of the parts are put together
        return copied(node.inputs[:1])
    done = forward(node, before, True)
    if not done:
        return []
    if node.kind == "Linear" and not batched(node):
        m, k, n = matrix(node)
        steps = [linear(m, n, k), linear(n, m, k), reduction((m, n), (n,)), *accumulated((n, k), (n,))]
        return steps + ([elementwise("Add", [(m, k)] * 2, (m, k))] if node.name.endswith(PROJECTIONS) else [])
    if node.kind in ("BMM", "Linear"):
        left, right = node.inputs[-2:]
        batch, m, k, n = left[:-2], left[-2], left[-1], right[-1]
        return [product(batch, m, n, k), product(batch, k, m, n), *copied(spread(node, before))]
    if node.kind == "VECln":
        twice = [elementwise("Mul", [shape, shape], shape), reduction(shape, shape[-1:]), reduction(shape, shape[-1:])]
        return [*twice, *accumulated(shape[-1:], shape[-1:])]
    if node.kind == "VECsoftmax":
        both = (Tensor(shape), Tensor(shape))
        product_with_output = elementwise("Mul", [shape, shape], shape)
        return [product_with_output, Operator("softmax", "Softmax", both, (Tensor(shape),))]
    if node.kind == "EMBEDDING":
        return []
    return GRADIENTS.get(stem(node), GRADIENTS.get(node.kind, lambda n: done))(node)


def _binary(node: Node) -> list[Operator]:
    """The product of the gradient and a value that the forward pass kept."""
    return [elementwise("Mul", [node.output] * 2, node.output)]


def _sum(node: Node) -> list[Operator]:
    """No kernel, except at a residual connection: its operand has another reader, so two gradients are added."""
    joins = sum(shape == node.output for shape in node.inputs) == 2 and len(node.output) < 4
    return [elementwise("Add", [node.output] * 2, node.output)] if joins else []


def _power(node: Node) -> list[Operator]:
    unary = elementwise("Pow", [node.output], node.output)
    return [unary, elementwise("Mul", [node.output], node.output), *_binary(node)]


def _times(node: Node) -> list[Operator]:
    return (
        _binary(node) * 2
        if sum(shape == node.output for shape in node.inputs) == 2
        else [elementwise("Mul", [node.output], node.output)]
    )


def _larger(node: Node) -> list[Operator]:
    """Half of the gradient where both are equal, none where the other is larger: comparisons, a choice, a fill."""
    shape = node.output
    mask, whole = Tensor(shape, "bool"), Tensor(shape)
    compared = Operator("compare", "Less", (whole,), (mask,))
    choice = Operator("where", "Where", (mask, whole, whole), (whole,))
    fill = Operator("masked_fill", "Mul", (whole, mask), (whole,))
    return [compared, elementwise("Div", [shape], shape), choice, compared, fill]


GRADIENTS: dict[str, Callable[[Node], list[Operator]]] = {
    "VECadd": _sum,
    "VECaddu": lambda node: [],
    "VECgelu": _binary,
    "VECrelu": _binary,
    "VECtanh": _binary,
    "VECpowu": _power,
    "VECmul": _times,
    "max": _larger,
    "sub": lambda node: [],
}


def accumulated(*shapes: Shape) -> list[Operator]:
    """Gradients of parameters, added to those of earlier iterations."""
    return [elementwise("Add", [shape, shape], shape) for shape in shapes]


def loss(logits: Shape) -> list[Operator]:
    """Backward pass of the cross entropy, which the runs time with the model's: zeros, and a log-softmax."""
    both = (Tensor(logits), Tensor(logits))
    return [filled(logits), Operator("log-softmax", "LogSoftmax", both, (Tensor(logits),))]


def embeddings(nodes: Sequence[Node], vocabulary: int) -> list[Operator]:
    """Backward pass of the embedding tables: zeros, additions to them, and the sum with earlier gradients."""
    steps = []
    for node in nodes:
        if node.kind == "EMBEDDING":
            table = (vocabulary, node.output[-1])
            steps += [filled(table), elementwise("Add", [node.output], node.output), *accumulated(table)]
    return steps


@dataclass(frozen=True)
class Clocks:
    """What starting kernels costs.

    Args:
        host: host time for a kernel, as the fit finds it for elementwise operators [s].
        view: host time for a view [s].
        scalar: host time for a scalar [s].
        gap: time from the end of a kernel to the end of an empty one that follows it in a full stream [s].
    """

    host: float = 15e-6
    view: float = 4e-6
    scalar: float = 1e-6
    gap: float = 4e-6


@dataclass(frozen=True)
class Step:
    """What a node launches in one pass.

    Args:
        kernels: the operators.
        scalar: True if the node's output has one element.
        stops: True if the host waits for the result.
    """

    kernels: list[Operator]
    scalar: bool
    stops: bool


@dataclass(frozen=True)
class Pass:
    """Forward or backward pass: steps, and the order in which they are executed, repetitions included."""

    steps: list[Step]
    order: list[int]


def passes(run: Run, nodes: Sequence[Node]) -> list[Pass]:
    """The forward pass of a model and, in training, the backward pass after it.

    Args:
        run: the run of a model.
        nodes: its trace.
    """
    times = repeats(run, nodes)
    ahead = []
    for i, node in enumerate(nodes):
        before = nodes[max(i - LAYER_NODES, 0) : i]
        ahead.append(Step(forward(node, before, run.training), size(node.output) <= 1, waits(node, before)))
    result = [Pass(ahead, layered(times))]
    if run.training:
        behind = []
        for i, node in enumerate(nodes):
            kernels = backward(node, nodes[max(i - LAYER_NODES, 0) : i])
            behind.append(Step(kernels, size(node.output) <= 1, False))
        last = next(
            node for node in reversed(nodes) if node.kind == "Linear" and not batched(node) and size(node.output) > 1e6
        )
        logits = (size(last.output) // last.output[-1], last.output[-1])
        behind.append(Step(loss(logits) + embeddings(nodes, logits[-1]), False, False))
        result.append(Pass(behind, [len(nodes), *reversed(layered(times))]))  # the loss first
    return result


def replay(whole: Pass, seconds: Sequence[float], clocks: Clocks) -> float:
    """Time of a pass on two clocks: the host starts kernels ahead of the GPU, but waits if it needs a result [s].

    Args:
        whole: the pass.
        seconds: time of each kernel of its steps, in order, gap included [s].
        clocks: what starting kernels costs.
    """
    priced = iter(seconds)
    times = [[next(priced) for _ in step.kernels] for step in whole.steps]
    host = free = 0.0
    for i in whole.order:
        step = whole.steps[i]
        for time in times[i]:
            host += clocks.host
            free = max(free, host) + time
        if not step.kernels:
            host += clocks.scalar if step.scalar else clocks.view
        if step.stops:
            host = max(host, free)
    return max(host, free)


def simulate(run: Run, nodes: Sequence[Node], costs: CostModel, gpu: Device, clocks: Clocks = Clocks()) -> float:  # noqa: B008
    """Simulate a model.

    Args:
        run: the run of a model.
        nodes: its trace.
        costs: cost model for kernels.
        gpu: the GPU; the gap of ``clocks`` takes the place of its launch overhead.
        clocks: what starting kernels costs.

    Returns:
        Time of the forward pass and, in training, of the backward pass after it [s].
    """
    gpu = replace(gpu, launch_overhead=clocks.gap)
    parts = passes(run, nodes)
    return sum(
        replay(part, costs.predict([op for step in part.steps for op in step.kernels], gpu).tolist(), clocks)
        for part in parts
    )


def layered(times: Sequence[int]) -> list[int]:
    """Order of execution: the nodes of the traced layer, one layer after another."""
    inside = [i for i, count in enumerate(times) if count > 1]
    if not inside:
        return list(range(len(times)))
    first, last = inside[0], inside[-1] + 1
    return [*range(first), *list(range(first, last)) * times[first], *range(last, len(times))]
