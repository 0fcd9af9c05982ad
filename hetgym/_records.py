"""Records: named tuples of arrays that a kernel reads by address.

A kernel that serves many problems at once cannot take their arrays as arguments: unpacking some fifty arrays a problem
from Python takes longer than a step of work, and lists of tuples are no faster. Instead Python writes the address and
the shape of every array into a row of integers once. The kernel reads the row, without copies or reference counts.

In a kernel a record is a single pointer to its row. A field is an array view that is built from the row at each access.
A function may therefore take a record of forty arrays and compiles as if it took one number.

Invariants: the arrays stay alive, at the same addresses, for as long as kernels read the row, which :class:`Rows` takes
care of; and the row does not change while a kernel runs, since the compiler treats it as constant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, models, register_model
from numba.np.arrayobj import make_array, populate_array

from hetgym._types import Int64Array


def width(record: Any) -> int:
    """Number of integers in the row of a record: for each array an address and its shape."""
    return sum(width(field) if isinstance(field, tuple) else 1 + field.ndim for field in record)


def fill(row: Int64Array, record: Any) -> None:
    """Write the addresses and shapes of a record's arrays into a row.

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


class Record(types.Type):  # type: ignore[misc]
    """Numba type of a record.

    Args:
        kind: Numba's type of the named tuple that rows describe.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        digest = hashlib.sha256(str(kind).encode()).hexdigest()[:8]
        super().__init__(name=f"Record({kind.instance_class.__name__}:{digest})")


@register_model(Record)
class _RecordModel(models.PrimitiveModel):  # type: ignore[misc]
    """Data model of a record: a pointer to its row."""

    def __init__(self, manager: Any, record: Any) -> None:
        super().__init__(manager, record, ir.IntType(64).as_pointer())


@infer_getattr
class _RecordFields(AttributeTemplate):  # type: ignore[misc]
    """Typing of a record's fields: arrays, or records within the record."""

    key = Record

    def generic_resolve(self, record: Any, field: str) -> Any:
        """The type of a field; None if the record has no such field."""
        if field not in record.kind.fields:
            return None
        found = record.kind.types[record.kind.fields.index(field)]
        return Record(found) if isinstance(found, types.BaseTuple) else found


@lower_getattr_generic(Record)  # type: ignore[untyped-decorator]
def _field(context: Any, builder: Any, record: Any, row: Any, field: str) -> Any:
    """Lower an access to a field: an array built from the row, or a pointer to where an inner record begins."""
    number = record.kind.fields.index(field)
    at = sum(_width(kind) for kind in record.kind.types[:number])
    kind = record.kind.types[number]
    if isinstance(kind, types.BaseTuple):
        return cgutils.gep_inbounds(builder, row, at)
    return _array(context, builder, kind, row, at)


def _width(kind: Any) -> int:
    """As :func:`width`, from the Numba type."""
    return sum(_width(field) for field in kind.types) if isinstance(kind, types.BaseTuple) else 1 + kind.ndim


def reader(example: Any) -> Callable[[Int64Array], Any]:
    """Make a function with which kernels view a row as a record.

    Args:
        example: a record of the kind that rows will describe: its dtypes and dimensions, and the writability of its
            arrays, determine the type.

    Returns:
        A function that a kernel calls with a row, [width] of int64; it has no meaning outside of kernels.
    """
    kind = Record(numba.typeof(example))
    return _intrinsic(kind, lambda context, builder, row: row)


def tuple_reader(example: Any) -> Callable[[Int64Array], Any]:
    """As :func:`reader`, but the kernel gets the named tuple itself.

    Functions that Python calls with named tuples are compiled for these anyway. With this reader they need not be
    compiled once more for records.
    """
    kind = numba.typeof(example)
    return _intrinsic(kind, lambda context, builder, row: _tuple(context, builder, kind, row, 0)[0])


def _intrinsic(kind: Any, value: Callable[[Any, Any, Any], Any]) -> Callable[[Int64Array], Any]:
    """Make a function for kernels that turns a row into a value of a type."""

    @intrinsic  # type: ignore[untyped-decorator]
    def read(typing: Any, row: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return value(context, builder, make_array(signature.args[0])(context, builder, arguments[0]).data)

        return kind(row), generate

    return read  # type: ignore[no-any-return]


def _tuple(context: Any, builder: Any, kind: Any, row: Any, at: int) -> tuple[Any, int]:
    """The value of a named tuple that starts at a position, and the position after it."""
    fields = []
    for field in kind.types:
        if isinstance(field, types.BaseTuple):
            value, at = _tuple(context, builder, field, row, at)
        else:
            value, at = _array(context, builder, field, row, at), at + 1 + field.ndim
        fields.append(value)
    return context.make_tuple(builder, kind, fields), at


def _array(context: Any, builder: Any, kind: Any, row: Any, at: int) -> Any:
    """The array whose address and shape start at a position of the row."""
    constant = builder.module.add_metadata([])

    def number(k: int) -> Any:
        load = builder.load(cgutils.gep_inbounds(builder, row, at + k))
        load.set_metadata("invariant.load", constant)
        return load

    numbers = [number(k) for k in range(1 + kind.ndim)]
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
    """A table of rows for records of one kind, which also keeps the records alive.

    Copies and unpickled tables hold copies of the records, and rows with the addresses of these copies.

    Args:
        count: number of rows, all of them empty at first.
        example: see :func:`reader`.

    Attributes:
        table: [count, width] of int64, for kernels.
    """

    def __init__(self, count: int, example: Any) -> None:
        self.table: Int64Array = np.zeros((count, width(example)), np.int64)
        self._records: list[Any] = [None] * count

    def __getitem__(self, row: int) -> Any:
        """The record of a row; None if the row is empty."""
        return self._records[row]

    def __setitem__(self, row: int, record: Any) -> None:
        """Store a record and write its addresses into the row."""
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
