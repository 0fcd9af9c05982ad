"""KernelProgram: the operators of a dataflow graph as torch kernels, with random weights and inputs."""

from hetgym.errors import require
from hetgym.execution.binding import OWN, bind
from hetgym.execution.steps import Task
from hetgym.graph.dataflow import DataflowGraph
from hetgym.profiling.kernels import Weights, activations, make_kernel


class KernelProgram:
    """Runs each operator of a graph with the torch call of its kind, on a device of torch.

    Weights are made when a device first needs them. They depend only on the seed and their names, so an operator
    computes the same result on every device.
    """

    def __init__(self, graph: DataflowGraph, processor: str, seed: int) -> None:
        self._torch = require("torch", "torch", "running operators")
        self._graph = graph
        self._processor = processor
        self._seed = seed
        self._bindings = bind(graph)
        self._tasks: dict[int, Task] = {}
        self._weights = Weights(seed)
        self._torch.relu(self._torch.empty(1, device="meta"))  # loads torch's shape checks, which takes a second

    def task(self, operator: int) -> Task:
        """The kernel of an operator, with its operands that no other operator feeds (UnsupportedOperator if none)."""
        if operator not in self._tasks:
            node = self._graph.operators[operator]
            rng = self._torch.Generator().manual_seed(self._seed * 1_000_003 + operator)
            kernel = make_kernel(node, self._processor, rng, self._weights)
            bound, tokens = self._bindings[operator]
            own = activations(node, self._processor, rng) if OWN in bound else [None] * len(bound)
            operands = tuple(value if tensor == OWN else tensor for tensor, value in zip(bound, own, strict=True))
            self._tasks[operator] = Task(kernel, operands, tokens)
        return self._tasks[operator]
