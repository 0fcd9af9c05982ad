"""Conversion of inference graphs to training graphs: backward operators, gradients and weight updates."""

from collections import defaultdict
from dataclasses import replace

from hetgym._sums import summed
from hetgym.errors import GraphError, unknown_name
from hetgym.graph.dataflow import DataflowGraph
from hetgym.graph.formats import FORMATS
from hetgym.graph.ops import Attribute, Operator, Tensor

OPTIMIZERS: dict[str, tuple[int, int]] = {"sgd": (0, 2), "momentum": (1, 4), "adam": (2, 12)}
"""Name -> number of state tensors per weight, and FLOPs per element of a weight."""

_WEIGHTED = ("conv", "matmul", "recurrent", "normalise")
_WEIGHTED_KINDS = ("BatchNormalization", "Gather", "PRelu")
_PRODUCTS = ("conv", "matmul", "recurrent")  # backward takes one product for each gradient
_KEEPS_NOTHING = ("view", "move")  # backward needs shapes only
_UPDATE = "Gradient-elementwise"  # kind of the updates, and of the backward operators of elementwise ones


def training(graph: DataflowGraph, optimizer: str = "sgd") -> DataflowGraph:
    """The graph of one training step: forward, loss, backward and update operators.

    A forward operator gets a backward operator if it, or an operator before it, has weights to learn. The backward
    operator reads the gradients of the outputs, and again the forward operator's inputs, which stay in memory until
    then (stashed activations). It returns the gradients of the inputs and weights. The backward operator of a product
    (convolution, matrix product, recurrent cell) costs the forward FLOPs once for the gradient of its input and once
    for that of its weights, or once for each of two inputs. Other backward operators cost the forward FLOPs once for
    the gradient of each input, normalisations twice. Several gradients of one value are summed where they are read.
    Each weight has one update operator, even if several operators share it.

    Args:
        graph: graph of inference; its sinks feed the loss.
        optimizer: one of :data:`OPTIMIZERS`; its state is resident in memory like weights.

    Returns:
        A graph that starts with the forward operators under their own names. Backward operators are called
        ``name/backward``, updates ``name/update``.

    Raises:
        UnknownName: no such optimizer.
        GraphError: the graph writes a cache of keys and values, so it is not a forward pass of training, or its weights
            are quantised.
    """
    if optimizer not in OPTIMIZERS:
        raise unknown_name("optimizer", optimizer, OPTIMIZERS)
    if any(op.kind == "TensorScatter" for op in graph.operators):
        raise GraphError(f"graph {graph.name!r} writes a cache of keys and values; train the phase 'forward' instead")
    packed = next((t for op in graph.operators for t in op.inputs if t.constant and t.dtype in FORMATS), None)
    if packed is not None:
        raise GraphError(f"graph {graph.name!r} has weights in {packed.dtype}, which are not trained; leave quant out")
    step = _Step(graph, optimizer)
    for i in graph.topological_order[::-1].tolist():
        if step.learns[i]:
            step.backward(i)
    step.update()
    return DataflowGraph(step.operators, step.edges, f"{graph.name}-training", graph.notes)


def weights_of(op: Operator) -> list[Tensor]:
    """Constants that training changes, as opposed to folded masks, shapes and scalars."""
    if op.kind == "Attention":
        return []  # its constants are masks and folded biases
    if op.spec.family not in _WEIGHTED and op.kind not in _WEIGHTED_KINDS:
        return []
    learnt = op.inputs[:3] if op.kind == "BatchNormalization" else op.inputs  # not its running statistics
    return [t for t in learnt if t.constant and t.shape and "float" in t.dtype]


def gradient_operator(op: Operator) -> Operator:
    """The backward operator of a single operator, with gradients for all inputs and weights that can have one.

    :func:`training` adds the same backward operator for an operator if exactly one operator reads its result, and there
    are weights to learn before each of its operands.
    """
    family = op.spec.family
    activations = [t for t in op.inputs if not t.constant]
    wanted = [t for t in activations if "float" in t.dtype]
    weights = weights_of(op)
    kept = [] if family in _KEEPS_NOTHING else activations
    inputs = (*op.outputs, *kept, *(weights if wanted else []))
    outputs = (*wanted, *(replace(w, constant=False, name="") for w in weights))
    flops = op.flops * _times(family, len(wanted), len(weights))
    moved = float(summed(t.bytes for t in inputs))
    attributes: dict[str, Attribute] = {"flops": flops, "reads": moved, "forward": op.kind}
    return Operator(f"{op.name}/backward", f"Gradient-{family}", inputs, outputs, attributes)


def backward_operators(op: Operator) -> list[Operator]:
    """The kernels that libraries launch for the backward pass of an operator.

    A matrix product takes one product for the gradient of each operand. Sums pass their gradient on and launch
    nothing. The gradient of a product with a mask reads the mask alone. Any other operator takes one kernel, see
    :func:`gradient_operator`.

    >>> x, w, y = Tensor((8, 3)), Tensor((3, 5), constant=True), Tensor((8, 5))
    >>> for part in backward_operators(Operator("fc", "MatMul", (x, w), (y,))):
    ...     print([tensor.shape for tensor in part.inputs])
    [(8, 5), (5, 3)]
    [(3, 8), (8, 5)]
    """
    if op.kind in ("Add", "Sub"):
        return []
    if op.kind == "Mul" and any(t.dtype == "bool" for t in op.inputs):
        masks = [t for t in op.inputs if t.dtype == "bool"]
        return [Operator(f"{op.name}/backward", "Mul", (*op.outputs, *masks), op.outputs)]
    if op.kind != "MatMul":
        return [gradient_operator(op)]
    (left, right), given = op.inputs[:2], op.outputs[0]

    def turned(tensor: Tensor) -> Tensor:
        return Tensor((*tensor.shape[:-2], tensor.shape[-1], tensor.shape[-2]), tensor.dtype)

    return [
        Operator(f"{op.name}/left", "MatMul", (given, turned(right)), (Tensor(left.shape, left.dtype),)),
        Operator(f"{op.name}/right", "MatMul", (turned(left), given), (Tensor(right.shape, right.dtype),)),
    ]


def updates(graph: DataflowGraph) -> list[int]:
    """Numbers of the operators of a training step that change weights; empty for a graph of inference."""
    return [i for i, op in enumerate(graph.operators) if op.kind == _UPDATE and op.name.endswith("/update")]


def _times(family: str, inputs: int, weights: int) -> int:
    """FLOPs of backward as a multiple of the forward FLOPs, given the number of gradients that are needed."""
    if family in _PRODUCTS:
        return (inputs > 0) + 1 if weights else min(inputs, 2)
    return (2 if family == "normalise" else 1) * max(inputs, 1)


class _Step:
    """A training step under construction."""

    def __init__(self, graph: DataflowGraph, optimizer: str) -> None:
        self.graph = graph
        self.optimizer = optimizer
        self.operators = list(graph.operators)
        self.edges: list[tuple[int, int, int]] = [(e.source, e.slot, e.target) for e in graph.edges]
        self.incoming: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for source, slot, target in graph.edges:
            self.incoming[target].append((source, slot))
        self.learns = [False] * len(graph)
        for i in graph.topological_order.tolist():
            if any("float" in t.dtype for t in graph.operators[i].outputs):  # indices pass no gradients
                self.learns[i] = bool(weights_of(graph.operators[i])) or bool(self.wanted(i))
        self.gradients: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)  # of outputs: operator, slot
        self.weight_gradients: dict[Tensor, list[tuple[int, int]]] = defaultdict(list)
        self._loss()

    def add(
        self,
        name: str,
        family: str,
        inputs: list[Tensor],
        outputs: list[Tensor],
        flops: float,
        in_place: float = 0.0,
        forward: str = "",
    ) -> int:
        """Add an operator that reads every input once; return its number.

        ``in_place`` are bytes that it writes to its inputs; ``forward`` is the kind whose gradients it computes, if
        any.
        """
        moved = float(summed(t.bytes for t in inputs)) + in_place
        attributes: dict[str, Attribute] = {"flops": flops, "reads": moved}
        if forward:
            attributes["forward"] = forward
        self.operators.append(Operator(name, f"Gradient-{family}", tuple(inputs), tuple(outputs), attributes))
        return len(self.operators) - 1

    def wanted(self, i: int) -> list[tuple[int, int]]:
        """Outputs of earlier operators, each with its slot, whose gradients operator ``i`` has to return."""
        return [
            (s, slot)
            for s, slot in self.incoming[i]
            if self.learns[s] and "float" in self.graph.operators[s].outputs[slot].dtype
        ]

    def _loss(self) -> None:
        """Add an operator that reads the results of the graph and returns their gradients."""
        results = [
            (i, slot)
            for i in range(len(self.graph))
            if self.learns[i] and self.graph.out_degree[i] == 0
            for slot in range(len(self.graph.operators[i].outputs))
        ]
        tensors = [self.graph.operators[i].outputs[slot] for i, slot in results]
        if not results:
            return
        loss = self.add("loss", "elementwise", tensors, tensors, float(summed(t.size for t in tensors)))
        for number, (i, slot) in enumerate(results):
            self.edges.append((i, slot, loss))
            self.gradients[i, slot].append((loss, number))

    def backward(self, i: int) -> None:
        """Add the backward operator of operator ``i``, all of whose readers already have theirs."""
        op, family = self.graph.operators[i], self.graph.operators[i].spec.family
        inputs: list[Tensor] = []
        reads: list[tuple[int, int]] = []
        flops = 0.0
        for slot, tensor in enumerate(op.outputs):
            parts = self.gradients[i, slot]
            inputs += [tensor] * len(parts)
            reads += parts
            flops += max(0, len(parts) - 1) * tensor.size
        kept = [] if family in _KEEPS_NOTHING else self.incoming[i]
        inputs += [self.graph.operators[s].outputs[slot] for s, slot in kept]
        reads += kept
        wanted, weights = self.wanted(i), weights_of(op)
        inputs += weights if wanted else []
        flops += op.flops * _times(family, len(wanted), len(weights))
        given = [replace(w, constant=False, name="") for w in weights]
        outputs = [self.graph.operators[s].outputs[slot] for s, slot in wanted] + given
        number = self.add(f"{op.name}/backward", family, inputs, outputs, flops, forward=op.kind)
        self.edges += [(source, slot, number) for source, slot in reads]
        for slot, target in enumerate(wanted):
            self.gradients[target].append((number, slot))
        for slot, weight in enumerate(weights, len(wanted)):
            key = weight if weight.name else replace(weight, name=f"{op.name}#{slot - len(wanted)}")
            self.weight_gradients[key].append((number, slot))

    def update(self) -> None:
        """Add one operator for each weight, which reads its gradients and changes weight and state in place."""
        states, flops = OPTIMIZERS[self.optimizer]
        for weight, parts in self.weight_gradients.items():
            gradient = replace(weight, constant=False, name="")
            held = [weight] + [replace(weight, name=f"{weight.name}/{self.optimizer}{k}") for k in range(states)]
            work = float(weight.size * (flops + len(parts) - 1))
            in_place = float(summed(t.bytes for t in held))
            inputs, done = [gradient] * len(parts) + held, Tensor((0,), weight.dtype)
            number = self.add(f"{weight.name}/update", "elementwise", inputs, [done], work, in_place)
            self.edges += [(source, slot, number) for source, slot in parts]
