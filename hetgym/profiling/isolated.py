"""One operator timed alone, in the state that a running graph would leave the caches in.

Back-to-back repetitions find everything in the first-level caches and understate what an operator
takes within a graph several times. So a sweep over a buffer larger than the second-level cache pushes
out operands, weights and code before each repetition, then the activations are written anew, as
their producer would have.
"""

from __future__ import annotations

import time
from typing import Any

from hetgym.errors import UnsupportedOperator, require
from hetgym.graph.ops import Operator
from hetgym.profiling.kernels import activations, dtype_of, make_kernel
from hetgym.profiling.timing import Timing, repeat

SWEEP_BYTES = 8 << 20
"""Size of the buffer that is swept before each repetition [byte]."""

_POSITIVE = ("MaxPool", "GlobalMaxPool")  # behind a Relu; branches on random signs would cost more than they do


class Bench:
    """Times operators on the CPU, one after another.

    Args:
        seed: of weights and activations.
    """

    def __init__(self, seed: int = 0) -> None:
        self._torch = require("torch", "torch", "measuring operators")
        self._sweep = self._torch.zeros(SWEEP_BYTES // 4)
        self._seed = seed

    def forward(self, operator: Operator) -> Timing:
        """Time an operator.

        Raises:
            UnsupportedOperator: torch cannot run it.
        """
        rng = self._torch.Generator().manual_seed(self._seed)
        kernel, operands = make_kernel(operator, rng=rng), activations(operator, rng=rng)
        if operator.kind in _POSITIVE:
            operands = tuple(x.relu_() for x in operands)
        fresh = [x.clone() for x in operands]
        clock = time.perf_counter_ns

        def run() -> float:
            self._cool(operands, fresh)
            start = clock()
            result = kernel(*operands)
            elapsed = clock() - start
            del result
            return elapsed * 1e-9

        return repeat(run)

    def backward(self, operator: Operator) -> Timing:
        """Time the gradients of an operator's floating-point operands and weights, its results being kept.

        Raises:
            UnsupportedOperator: torch cannot run it, or nothing in it has a gradient.
        """
        torch = self._torch
        rng = torch.Generator().manual_seed(self._seed)
        kernel, operands = make_kernel(operator, rng=rng), activations(operator, rng=rng)
        learnt = kernel.constants[: 2 if operator.kind == "BatchNormalization" else None]  # not its statistics
        leaves = [x for x in (*operands, *learnt) if x.is_floating_point() and _learns(operator)]
        if not leaves or not any(dtype_of(t).is_floating_point for t in operator.outputs):
            raise UnsupportedOperator(f"operator {operator.name!r} ({operator.kind}) has no gradient")
        for x in leaves:
            x.requires_grad_(True)
        with torch.enable_grad():
            results = kernel(*operands)
        given = [(y, torch.randn(y.shape, generator=rng).to(y.dtype)) for y in results if y.requires_grad]
        if not given:
            raise UnsupportedOperator(f"operator {operator.name!r} ({operator.kind}) has no gradient")
        outputs, slopes = [y for y, _ in given], [g for _, g in given]
        fresh = [g.clone() for g in slopes]
        clock = time.perf_counter_ns

        def run() -> float:
            self._cool(slopes, fresh)
            start = clock()
            found = torch.autograd.grad(outputs, leaves, slopes, retain_graph=True, allow_unused=True)
            elapsed = clock() - start
            del found
            return elapsed * 1e-9

        return repeat(run)

    def _cool(self, written: Any, fresh: Any) -> None:
        self._sweep.add_(1.0)
        for x, source in zip(written, fresh, strict=True):
            x.copy_(source)


def _learns(operator: Operator) -> bool:
    return operator.spec.family not in ("view", "generic")
