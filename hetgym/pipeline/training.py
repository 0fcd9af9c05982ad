"""Training steps of pipelines: backward times, stashed activations and the optimiser's state."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._types import FloatArray, as_numbers, frozen
from hetgym.errors import ProblemError
from hetgym.pipeline.problem import PipelineProblem


class TrainingPipeline:
    """A pipeline for inference, and the time and memory that its training step needs in addition.

    All arrays are read-only.

    Args:
        problem: the forward pass; its sizes are those of the weights.
        backward: [n, k] seconds to compute the gradients of an operator's inputs on each kind of device; or a
            number, as a multiple of the forward pass.
        weight: [n, k] seconds to compute the gradients of an operator's weights, or a number, in the same way.
        stash: [n] bytes that an operator keeps for each micro-batch until its backward pass.
        state: [n] bytes of gradients and of the optimiser's state; or a number, as a multiple of the weights.
        shared_state: bytes of ``state`` for each byte of a weight that operators share; by default that multiple, or 0.

    Raises:
        ProblemError: a table of the wrong shape, or a negative number or NaN.

    >>> from hetgym.pipeline import DeviceKind, PipelineProblem
    >>> chain = PipelineProblem.chain([[1.0], [2.0]], [DeviceKind("gpu", 2)], size=4.0)
    >>> step = TrainingPipeline(chain, stash=3.0)
    >>> step.backward.tolist(), step.state.tolist()
    ([[1.0], [2.0]], [12.0, 12.0])
    """

    def __init__(
        self,
        problem: PipelineProblem,
        backward: npt.ArrayLike = 1.0,
        weight: npt.ArrayLike = 1.0,
        stash: npt.ArrayLike = 0.0,
        state: npt.ArrayLike = 3.0,
        shared_state: float | None = None,
    ) -> None:
        self.problem = problem
        self.backward = self._times("backward", backward)
        self.weight = self._times("weight", weight)
        self.stash = self._column("stash", stash, 1.0)
        self.state = self._column("state", state, problem.size)
        multiple = float(state) if np.ndim(state) == 0 else 0.0  # type: ignore[arg-type]
        self.shared_state = multiple if shared_state is None else shared_state

    def __repr__(self) -> str:
        return f"TrainingPipeline({self.problem!r})"

    def __deepcopy__(self, memo: object) -> TrainingPipeline:
        """Return the pipeline itself: it is immutable."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the constructor's arguments, so that the restored arrays are read-only again."""
        return TrainingPipeline, (self.problem, self.backward, self.weight, self.stash, self.state, self.shared_state)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the problem and of all arrays that training adds."""
        state = hashlib.sha256(self.problem.digest.encode())
        for array in (self.backward, self.weight, self.stash, self.state):
            state.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
        if len(self.problem.shared.size):
            state.update(repr(float(self.shared_state)).encode())
        return state.hexdigest()

    @property
    def id(self) -> str:
        """Name and start of the digest."""
        return f"{self.problem.name}#{self.digest[:8]}"

    def on(self, problem: PipelineProblem) -> TrainingPipeline:
        """The same pipeline with a problem whose devices are the same, in other kinds."""
        first = np.cumsum([0, *(kind.count for kind in problem.kinds)])[:-1]
        origin = self.problem.device_kind[np.minimum(first, problem.num_devices - 1)]
        backward, weight = self.backward[:, origin], self.weight[:, origin]
        return TrainingPipeline(problem, backward, weight, self.stash, self.state, self.shared_state)

    def _times(self, what: str, values: npt.ArrayLike) -> FloatArray:
        cost = self.problem.cost
        array = self._numbers(what, values, cost.shape)
        if array.ndim == 0:
            return frozen(np.where(np.isfinite(cost), cost, 0.0) * array)
        return frozen(np.where(np.isfinite(cost), array, 0.0))

    def _column(self, what: str, values: npt.ArrayLike, unit: FloatArray | float) -> FloatArray:
        array = self._numbers(what, values, (self.problem.num_operators,))
        if array.ndim == 0:
            array = np.full(self.problem.num_operators, array * unit)
        return frozen(array)

    def _numbers(self, what: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> FloatArray:
        name = self.problem.name
        array = as_numbers(values, f"training of {name!r}: {what} is not a table of numbers", ProblemError)
        if array.shape not in ((), shape):
            raise ProblemError(f"training of {name!r}: {what} has shape {array.shape}, expected one number or {shape}")
        used = array[np.isfinite(self.problem.cost)] if array.ndim == 2 else array
        if not ((used >= 0) & (used < np.inf)).all():
            raise ProblemError(f"training of {name!r}: {what} has a value that is negative or not a number")
        return array
