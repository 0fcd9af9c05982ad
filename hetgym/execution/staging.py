"""Access of devices to the shared slots: a CPU reads in place, a GPU through pinned copies."""

import ctypes
from typing import Any

from hetgym.errors import ExecutionError, require
from hetgym.execution.slots import SharedMemory, Slot
from hetgym.profiling.kernels import dtype_of


class InPlace:
    """Access of a CPU, which reads the slots in place."""

    staged = False

    def __init__(self, memory: SharedMemory) -> None:
        torch = require("torch", "torch", "running operators")
        self.slots = [view_slot(torch, memory, slot) for slot in memory.layout.slots]

    def fetch(self, tensor: int) -> Any:
        """The tensor, for operators of this device."""
        return self.slots[tensor]

    def publish(self, tensor: int, value: Any) -> None:
        """Write a tensor to its slot."""
        self.slots[tensor].copy_(value)

    def settle(self) -> None:
        """Wait until all requested work is done; a CPU has nothing to wait for."""


class Staged(InPlace):
    """Access of a GPU: tensors that it reads are copied to it once, tensors that others read are copied back.

    The shared memory is registered with CUDA, so that copies run at the speed of pinned memory (else ExecutionError).
    """

    staged = True

    def __init__(self, memory: SharedMemory, processor: str) -> None:
        super().__init__(memory)
        self._torch = require("torch", "torch", "running operators")
        self._processor = processor
        self._cuda = processor.startswith("cuda")
        if self._cuda:
            base = ctypes.addressof(ctypes.c_char.from_buffer(memory.data))
            code = self._torch.cuda.cudart().cudaHostRegister(base, memory.layout.size, 0)
            if int(code) != 0:
                raise ExecutionError(f"{processor}: CUDA cannot pin {memory.layout.size} bytes (error {int(code)})")

    def fetch(self, tensor: int) -> Any:
        """Copy a tensor to the device."""
        return self.slots[tensor].to(self._processor, non_blocking=True, copy=True)

    def publish(self, tensor: int, value: Any) -> None:
        """Copy a tensor to its slot; the copy is complete on return."""
        self.slots[tensor].copy_(value, non_blocking=True)
        self.settle()

    def settle(self) -> None:
        """Wait for the device."""
        if self._cuda:
            self._torch.cuda.synchronize(self._processor)


def view_slot(torch: Any, memory: SharedMemory, slot: Slot) -> Any:
    """A torch tensor that is a view of a slot."""
    tensor = slot.tensor
    if tensor.size == 0:
        return torch.empty(tensor.shape, dtype=dtype_of(tensor))
    flat = torch.frombuffer(memory.data, dtype=dtype_of(tensor), count=tensor.size, offset=slot.offset)
    return flat.view(tensor.shape)
