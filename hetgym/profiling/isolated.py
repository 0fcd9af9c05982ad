"""Timing of single operators, with caches in the state in which a running graph would leave them.

In back-to-back repetitions everything is in the first-level caches, and times are several times too short. Before each
repetition, a sweep over a buffer larger than the second-level cache therefore evicts operands, weights and code. Then
the activations are written again, as their producer would do in a graph.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from hetgym.errors import UnsupportedOperator, require
from hetgym.graph.ops import Operator
from hetgym.profiling.cuda import CudaTimer, device_number
from hetgym.profiling.kernels import activations, dtype_of, make_kernel
from hetgym.profiling.timing import Timing, repeat

SWEEP_BYTES = 8 << 20  # Size of the buffer that is swept before each repetition [byte]

_POSITIVE = ("MaxPool", "GlobalMaxPool")  # usually follow a Relu; branches on random signs would take longer


class Bench:
    """Times operators on one device (``cpu`` or a CUDA device such as ``cuda:0``), one after another.

    On CUDA the sweep fills the second-level cache, and times are measured on the device, see
    :mod:`~hetgym.profiling.cuda`, also for errors. ``seed`` is that of weights and activations.
    """

    def __init__(self, device: str = "cpu", seed: int = 0) -> None:
        self._torch = require("torch", "torch", "measuring operators")
        self._device = device
        self._cuda = CudaTimer(device_number(device), flush=True) if device != "cpu" else None
        self._sweep = self._torch.zeros(SWEEP_BYTES // 4)
        self._seed = seed

    def forward(self, operator: Operator) -> Timing:
        """Time an operator; UnsupportedOperator if torch cannot run it."""
        rng = self._torch.Generator(self._device).manual_seed(self._seed)
        kernel, operands = make_kernel(operator, self._device, rng), activations(operator, self._device, rng)
        if operator.kind in _POSITIVE:
            operands = tuple(x.relu_() for x in operands)
        return self._time(lambda: kernel(*operands), operands)

    def backward(self, operator: Operator) -> Timing:
        """Time the gradients of an operator's operands and weights alone; UnsupportedOperator if there are none."""
        torch = self._torch
        rng = torch.Generator(self._device).manual_seed(self._seed)
        kernel, operands = make_kernel(operator, self._device, rng), activations(operator, self._device, rng)
        learnt = kernel.constants[: 2 if operator.kind == "BatchNormalization" else None]  # not its statistics
        leaves = [x for x in (*operands, *learnt) if x.is_floating_point() and _learns(operator)]
        if not leaves or not any(dtype_of(t).is_floating_point for t in operator.outputs):
            raise UnsupportedOperator(f"operator {operator.name!r} ({operator.kind}) has no gradient")
        for x in leaves:
            x.requires_grad_(True)
        with torch.enable_grad(), self._cuda.stream() if self._cuda is not None else nullcontext():
            results = kernel(*operands)
        given = [
            (y, torch.randn(y.shape, generator=rng, device=self._device).to(y)) for y in results if y.requires_grad
        ]
        if not given:
            raise UnsupportedOperator(f"operator {operator.name!r} ({operator.kind}) has no gradient")
        outputs, slopes = [y for y, _ in given], [g for _, g in given]
        return self._time(
            lambda: torch.autograd.grad(outputs, leaves, slopes, retain_graph=True, allow_unused=True), slopes
        )

    def _time(self, work: Callable[[], Any], written: Sequence[Any]) -> Timing:
        """Time some work; ``written`` are the tensors that a preceding operator would have just written."""
        if self._cuda is not None:
            return self._cuda.time(work).timing
        fresh = [x.clone() for x in written]
        clock = time.perf_counter_ns

        def run() -> float:
            self._sweep.add_(1.0)
            for x, source in zip(written, fresh, strict=True):
                x.copy_(source)
            start = clock()
            result = work()
            elapsed = clock() - start
            del result
            return elapsed * 1e-9

        return repeat(run)


def _learns(operator: Operator) -> bool:
    return operator.spec.family not in ("view", "generic")
