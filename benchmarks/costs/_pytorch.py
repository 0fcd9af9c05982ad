"""The kernels that PyTorch runs for a node of a traced transformer, forward and backward; used by ``neusight.py``.

Rules follow PyTorch's documented behaviour, not measurements. Views, indexing by slices, scalars, and dropout in
inference start no kernel. ``contiguous`` and ``reshape`` copy only after a transposition. If several operators read a
value, its gradients are added up. Gradients of parameters are added to the existing ones, since the runs never clear
them. The loss of a language model is a log-softmax over the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


def gathered(node: Node, before: Sequence[Node]) -> list[Operator]:
    """Copies of a product's operands whose two batch axes are not contiguous: ``matmul`` reshapes these axes to one.

    The gradient of such an operand is copied back.
    """
    views = [other.output for other in before[-LAYER_NODES:] if stem(other).startswith(TURNS)]
    spread = [shape for shape in node.inputs[-2:] if len(shape) == 4 and shape[0] > 1 and shape in views]
    return [Operator("copy", "Transpose", (Tensor(shape),), (Tensor(shape),)) for shape in spread]


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
        return [product(batch, m, n, k), product(batch, k, m, n), *gathered(node, before)]
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


HOST, VIEW, SCALAR = 15e-6, 4e-6, 1e-6
"""Host time for a kernel (the launch that the fit finds in elementwise operators), a view, and a scalar [s]."""


def simulate(run: Run, nodes: Sequence[Node], costs: CostModel, gpu: Device) -> float:
    """Simulate a model on two clocks: the host starts kernels ahead of the GPU, but waits if it needs a result.

    Args:
        run: the run of a model.
        nodes: its trace.
        costs: cost model for kernels.
        gpu: the GPU, with the gap between two kernels as its launch overhead.

    Returns:
        Time of the forward pass and, in training, of the backward pass after it [s].
    """
    times = repeats(run, nodes)
    ahead = [forward(node, nodes[:i], run.training) for i, node in enumerate(nodes)]
    parts = [[(node, ops, waits(node, nodes[:i])) for i, (node, ops) in enumerate(zip(nodes, ahead, strict=True))]]
    orders = [layered(times)]
    if run.training:
        behind = [(node, backward(node, nodes[:i]), False) for i, node in enumerate(nodes)]
        last = next(
            node for node in reversed(nodes) if node.kind == "Linear" and not batched(node) and size(node.output) > 1e6
        )
        logits = (size(last.output) // last.output[-1], last.output[-1])
        behind.append((last, loss(logits) + embeddings(nodes, logits[-1]), False))
        parts.append(behind)
        orders.append([len(nodes), *reversed(layered(times))])  # the loss first
    total = 0.0
    for part, order in zip(parts, orders, strict=True):
        flat = [op for _, ops, _ in part for op in ops]
        priced = iter(costs.predict(flat, gpu))
        seconds = [[next(priced) for _ in ops] for _, ops, _ in part]
        host = free = 0.0
        for i in order:
            node, ops, stop = part[i]
            for time in seconds[i]:
                host += HOST
                free = max(free, host) + time
            if not ops:
                host += VIEW if size(node.output) > 1 else SCALAR
            if stop:
                host = max(host, free)
        total += max(host, free)
    return total


def layered(times: Sequence[int]) -> list[int]:
    """Order of execution: the nodes of the traced layer, one layer after another."""
    inside = [i for i, count in enumerate(times) if count > 1]
    if not inside:
        return list(range(len(times)))
    first, last = inside[0], inside[-1] + 1
    return [*range(first), *list(range(first, last)) * times[first], *range(last, len(times))]
