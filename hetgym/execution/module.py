"""PlannedModule: a PyTorch module whose operators run on the devices of a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from hetgym.errors import ExecutionError, require
from hetgym.execution.cluster import Cluster, executable_order
from hetgym.execution.devices import ExecutionDevice
from hetgym.execution.recipes import recipes_of
from hetgym.execution.staging import view_slot
from hetgym.execution.work import bare_problem
from hetgym.graph.from_torch import traced
from hetgym.schedule import Schedule


class PlannedModule(AbstractContextManager["PlannedModule"]):
    """Runs a module's operators on several devices by a schedule; it is called like the module and returns the same.

    It is for inference only: there are no gradients, and buffers keep their initial values. Input shapes must be those
    of the example. Shared memory holds the weights once for all workers.

    Args:
        module: the module to execute, whose weights must have values.
        args: example positional arguments.
        schedule: schedule of the graph that :func:`hetgym.graph.from_torch` makes from the module and the arguments.
        devices: the devices; device d of the schedule is ``devices[d]``.
        kwargs: example keyword arguments.
        patience: see :class:`Cluster`.

    Raises:
        GraphError: the module cannot be exported.
        InvalidSchedule: the schedule is not legal for the module's graph.
        ExecutionError: an operator cannot be sent to a worker, or a worker failed.

    >>> with PlannedModule(model, (x,), schedule, devices) as planned:  # doctest: +SKIP
    ...     y = planned(x)
    """

    def __init__(
        self,
        module: Any,
        args: Sequence[Any],
        schedule: Schedule,
        devices: Sequence[ExecutionDevice],
        *,
        kwargs: Mapping[str, Any] | None = None,
        patience: float = 30.0,
    ) -> None:
        self._torch = require("torch", "torch", "executing a module")
        trace = traced(module, args, kwargs)
        self._spec = trace.program.call_spec
        self._recipes = recipes_of(trace)
        names = tuple(device.name for device in devices)
        executable_order(bare_problem(self._recipes.work.graph, names), schedule)  # before workers start
        self.cluster = Cluster(self._recipes.work, devices, patience=patience)
        try:
            memory = self.cluster.memory
            self._slots = [view_slot(self._torch, memory, slot) for slot in memory.layout.slots]
            for tensor, value in self._recipes.constants.items():
                self._slots[tensor].copy_(value.detach())
            self._loaded = self.cluster.load(schedule)
        except BaseException:
            self.close()
            raise

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module once.

        Args:
            args: positional arguments with the shapes and dtypes of the example.
            kwargs: keyword arguments with the shapes and dtypes of the example.

        Returns:
            The module's result, in new tensors.

        Raises:
            ExecutionError: the arguments do not match the example, or a worker failed.
        """
        pytree = self._torch.utils._pytree
        values, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._spec.in_spec:
            raise ExecutionError("the arguments are not structured like those of the example")
        for number, (tensor, value) in enumerate(zip(self._recipes.inputs, values, strict=True)):
            if tensor >= 0:
                self._write(number, tensor, value)
        self.cluster.run(self._loaded)
        results = [self._slots[t].clone() if isinstance(t, int) else t[0] for t in self._recipes.outputs]
        return pytree.tree_unflatten(results, self._spec.out_spec)

    def _write(self, number: int, tensor: int, value: Any) -> None:
        slot = self._slots[tensor]
        if value.shape != slot.shape or value.dtype != slot.dtype:
            raise ExecutionError(
                f"argument {number} is {value.dtype} of shape {tuple(value.shape)}; the plan was made for "
                f"{slot.dtype} of shape {tuple(slot.shape)}"
            )
        slot.copy_(value.detach())

    def close(self) -> None:
        """End the workers; further calls have no effect."""
        self._slots = []
        self.cluster.close()

    def __exit__(self, *_: object) -> None:
        self.close()
