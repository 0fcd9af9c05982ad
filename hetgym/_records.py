"""Records: tuples of arrays that a kernel finds by address.

A kernel that serves many problems at once cannot take them as arguments: unpacking some fifty arrays
for each from Python takes longer than a step of work, and lists of tuples are no faster. So Python
writes where the arrays lie, and how large they are, into a row of integers once; the kernel makes the
same tuple of that row, without copying or counting anything.

Whoever fills a row must keep the arrays alive, at the same place, for as long as kernels read it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from hetgym._types import IntArray


def width(record: Any) -> int:
    """Numbers that a row needs for such a record: an address and the shape, for each array."""
    return sum(width(field) if isinstance(field, tuple) else 1 + field.ndim for field in record)


def fill(row: IntArray, record: Any) -> None:
    """Write where the arrays of a record lie.

    Args:
        row: [width] of int64.
        record: a named tuple of C-contiguous arrays, or of further such tuples.
    """
    numbers: list[int] = []
    _collect(record, numbers)
    row[:] = numbers


def _collect(record: Any, numbers: list[int]) -> None:
    for field in record:
        if isinstance(field, tuple):
            _collect(field, numbers)
        else:
            assert field.flags.c_contiguous
            numbers += [field.ctypes.data, *field.shape]


def reader(example: Any) -> Callable[[IntArray], Any]:
    """A function for kernels that makes a record of a row.

    Args:
        example: a record of the kind that rows will describe: its dtypes, dimensions and whether arrays
            are read-only decide the type.

    Returns:
        What a kernel calls with a row, [width] of int64; it has no meaning outside of kernels.
    """
    kind = numba.typeof(example)

    @intrinsic  # type: ignore[untyped-decorator]
    def read(typing: Any, row: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array = make_array(signature.args[0])(context, builder, arguments[0])
            value, _ = _record(context, builder, kind, array.data, 0)
            return value

        return kind(row), generate

    return read  # type: ignore[no-any-return]


def _record(context: Any, builder: Any, kind: Any, row: Any, at: int) -> tuple[Any, int]:
    """The value of one record, and where the row goes on."""
    fields = []
    for field in kind.types:
        if isinstance(field, types.BaseTuple):
            value, at = _record(context, builder, field, row, at)
        else:
            value, at = _array(context, builder, field, row, at), at + 1 + field.ndim
        fields.append(value)
    return context.make_tuple(builder, kind, fields), at


def _array(context: Any, builder: Any, kind: Any, row: Any, at: int) -> Any:
    numbers = [builder.load(cgutils.gep_inbounds(builder, row, at + k)) for k in range(1 + kind.ndim)]
    item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides, stride = [], item
    for length in reversed(numbers[1:]):
        strides.append(stride)
        stride = builder.mul(stride, length)
    array = make_array(kind)(context, builder)
    data = builder.inttoptr(numbers[0], array.data.type)
    populate_array(array, data, numbers[1:], strides[::-1], item, None)
    return array._getvalue()


class Rows:
    """Rows of records of one kind, and the records, which it keeps alive.

    Copies and pickles hold copies of the records, and addresses of their own.

    Args:
        count: number of rows; all are empty.
        example: see :func:`reader`.

    Attributes:
        table: [count, width] of int64, for kernels.
    """

    def __init__(self, count: int, example: Any) -> None:
        self.table: IntArray = np.zeros((count, width(example)), np.int64)
        self._records: list[Any] = [None] * count

    def __getitem__(self, row: int) -> Any:
        """The record of a row, or None."""
        return self._records[row]

    def __setitem__(self, row: int, record: Any) -> None:
        """Let a row describe a record."""
        fill(self.table[row], record)
        self._records[row] = record

    def __getstate__(self) -> tuple[int, list[Any]]:
        return self.table.shape[1], self._records

    def __setstate__(self, state: tuple[int, list[Any]]) -> None:
        columns, self._records = state
        self.table = np.zeros((len(self._records), columns), np.int64)
        for row, record in enumerate(self._records):
            if record is not None:
                fill(self.table[row], record)
