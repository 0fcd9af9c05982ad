"""Records: named tuples of arrays that a kernel reads by address.

In a kernel a record is a single pointer to a row of integers, which holds the address and the shape of every array. A
field is an array that is made of the row when it is named. So a function may take a record of forty arrays and compiles
as if it took one number. Numba itself would pass every word of every array: that compiles far more slowly.

A named tuple that is declared a :func:`record` becomes one whenever Python passes it to a kernel. A field of a record,
or an argument of a kernel, may be None in place of a record: kernels are then compiled without what they would do with
it. A kernel that serves many problems at once cannot take them as arguments. For these, :class:`Rows` writes the rows
once, and the kernel reads them with a :func:`reader`.

Invariants: the arrays stay alive, at the same addresses, for as long as kernels read the row, which :class:`Rows` takes
care of; and the row does not change while a kernel runs, since the compiler treats it as constant.
"""

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox
from numba.np.arrayobj import make_array

from hetgym._kernels.interpreted import interpreted
from hetgym._kernels.jit import lean
from hetgym._sums import summed
from hetgym._types import Int64Array

R = TypeVar("R", bound=type)


def record(kind: R) -> R:
    """Declare a named tuple of C-contiguous arrays, of further such tuples or None: to kernels it is a record."""

    @typeof_impl.register(kind)  # type: ignore[untyped-decorator]
    def record_type(value: Any, c: Any) -> Record:
        fields = [typeof_impl(field, c) for field in value]
        for field in fields:
            contiguous = isinstance(field, types.Array) and field.layout == "C" and field.ndim <= _MOST_DIMENSIONS
            if not contiguous and not isinstance(field, Record | types.NoneType):
                raise TypeError(f"a field of a {kind.__name__} is not a C-contiguous array")
        return Record(types.BaseTuple.from_types(fields, kind))

    return kind


def width(record: Any) -> int:
    """Number of integers in the row of a record: for each array an address and its shape."""
    if record is None:
        return 0
    return sum(int(1 + field.ndim if isinstance(field, np.ndarray) else width(field)) for field in record)


class Entry(NamedTuple):
    """A record with its row, for records that are stored again and again: to collect the addresses takes longest."""

    record: Any  # a named tuple of C-contiguous arrays, or of further such tuples
    row: Int64Array  # [width] addresses and shapes of its arrays

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the record alone: copies of its arrays are elsewhere."""
        return entry, (self.record,)


def entry(record: Any) -> Entry:
    """A record with its row; None has an empty one."""
    row = np.empty(_WIDEST, np.int64)
    if record is None:
        return Entry(None, row[:0])
    return Entry(record, row[: _copy_row(record, row)].copy())


_WIDEST = 512  # Most integers of a row


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
        return found


@lower_getattr_generic(Record)  # type: ignore[untyped-decorator]
def _field(context: Any, builder: Any, record: Any, row: Any, field: str) -> Any:
    """Lower an access to a field: an array built from the row, or a pointer to where an inner record begins."""
    number = record.kind.fields.index(field)
    at = summed(_width(kind) for kind in record.kind.types[:number])
    kind = record.kind.types[number]
    if isinstance(kind, Record):
        return cgutils.gep_inbounds(builder, row, at)
    return _array(context, builder, kind, row, at) if isinstance(kind, types.Array) else context.get_dummy_value()


def _width(kind: Any) -> int:
    """As :func:`width`, of a type."""
    if isinstance(kind, types.Array):
        return int(1 + kind.ndim)
    return summed(_width(field) for field in kind.kind.types) if isinstance(kind, Record) else 0


@unbox(Record)  # type: ignore[untyped-decorator]
def _row_of_tuple(record: Any, value: Any, c: Any) -> NativeValue:
    """A row on the stack of the function that Python calls, filled from a named tuple."""
    word = ir.IntType(64)
    row = cgutils.alloca_once(c.builder, word, size=_width(record))
    scratch = cgutils.alloca_once(c.builder, word, size=_ARRAY + 2 * _MOST_DIMENSIONS)
    signature = ir.FunctionType(ir.IntType(32), [c.pyapi.pyobj, c.pyapi.voidptr])
    adapt = cgutils.get_or_insert_function(c.builder.module, signature, "numba_adapt_ndarray")
    wrong = _write_row(record, value, c, (row, scratch, adapt), 0)[1]
    # The compiler must not take what is read for what was in the row before it was filled: to it, this may be any row.
    asm = ir.InlineAsm(ir.FunctionType(row.type, [row.type]), "", "=r,0,~{memory}", side_effect=True)
    failed = c.builder.icmp_signed("!=", wrong, wrong.type(0))
    with c.builder.if_then(failed, likely=False):
        c.pyapi.err_set_string("PyExc_TypeError", f"a field of a {record.name} is not an array")
    return NativeValue(c.builder.call(asm, [row]), is_error=failed)


_ARRAY, _DATA = 5, 4  # Words of Numba's structure of an array before its shape; the one that is the address
_MOST_DIMENSIONS = 4  # Dimensions that an array in a record may have


def _write_row(record: Any, value: Any, c: Any, places: tuple[Any, Any, Any], at: int) -> tuple[int, Any]:
    """Fill a row from a position on; the next position, and a number that is 0 unless a field is not an array."""
    row, scratch, adapt = places
    wrong = ir.IntType(32)(0)
    for number, kind in enumerate(record.kind.types):
        item = c.pyapi.tuple_getitem(value, number)
        if isinstance(kind, Record):
            at, failed = _write_row(kind, item, c, places, at)
        elif isinstance(kind, types.NoneType):
            continue
        else:
            failed = c.builder.call(adapt, [item, c.builder.bitcast(scratch, c.pyapi.voidptr)])
            for word in (_DATA, *range(_ARRAY, _ARRAY + kind.ndim)):
                found = c.builder.load(cgutils.gep_inbounds(c.builder, scratch, word))
                c.builder.store(found, cgutils.gep_inbounds(c.builder, row, at))
                at += 1
        wrong = c.builder.or_(wrong, failed)
    return at, wrong


def reader(example: Any) -> Callable[[Int64Array], Any]:
    """Make a function with which kernels view a row as a record.

    Args:
        example: a record of the kind that rows will describe: its dtypes and dimensions, and the writability of its
            arrays, determine the type.

    Returns:
        A function that a kernel calls with a row, [width] of int64; it has no meaning outside of kernels.
    """
    kind = numba.typeof(example)

    @intrinsic  # type: ignore[untyped-decorator]
    def read(typing: Any, row: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return make_array(signature.args[0])(context, builder, arguments[0]).data

        return kind(row), generate

    return read  # type: ignore[no-any-return]


@intrinsic  # type: ignore[untyped-decorator]
def alike(typing: Any, row: Any, other: Any) -> Any:
    """View a row as a record of the same kind as another one, or as None, in a kernel compiled for several kinds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if isinstance(other, types.NoneType):
            return context.get_dummy_value()
        return make_array(signature.args[0])(context, builder, arguments[0]).data

    return other(row, other), generate


def _array(context: Any, builder: Any, kind: Any, row: Any, at: int) -> Any:
    """The array whose address and shape start at a position of the row."""
    constant = builder.module.add_metadata([])

    def number(k: int) -> Any:
        load = builder.load(cgutils.gep_inbounds(builder, row, at + k))
        load.set_metadata("invariant.load", constant)
        return load

    address, *shape = [number(k) for k in range(1 + kind.ndim)]
    item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides: list[Any] = []
    count = context.get_constant(types.intp, 1)
    for length in reversed(shape):
        strides.insert(0, builder.mul(count, item))
        count = builder.mul(count, length)
    model = context.get_data_type(kind)
    members = context.data_model_manager[kind]
    array = ir.Constant(model, None)
    for name, value in (("nitems", count), ("itemsize", item)):
        array = builder.insert_value(array, value, members.get_field_position(name))
    at_data = members.get_field_position("data")
    array = builder.insert_value(array, builder.inttoptr(address, model.elements[at_data]), at_data)
    for name, values in (("shape", shape), ("strides", strides)):
        for k, value in enumerate(values):
            array = builder.insert_value(array, value, (members.get_field_position(name), k))
    return array


@intrinsic  # type: ignore[untyped-decorator]
def _row_into(typing: Any, record: Any, row: Any) -> Any:
    """Copy the row of a record into an array that is long enough for every record; returns its width."""
    words = _width(record)
    if words > _WIDEST:
        raise TypeError(f"a {record.name} has {words} words, more than {_WIDEST}")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = make_array(signature.args[1])(context, builder, arguments[1]).data
        for word in range(words):
            found = builder.load(cgutils.gep_inbounds(builder, arguments[0], word))
            builder.store(found, cgutils.gep_inbounds(builder, to, word))
        return context.get_constant(types.intp, words)

    return types.intp(record, row), generate


def _copy_in_python(record: Any, row: Int64Array) -> int:
    """As :func:`_copy_row`, which is compiled for each kind of record."""
    at = 0
    for field in record:
        if isinstance(field, tuple):
            at += _copy_in_python(field, row[at:])
        elif field is not None:
            row[at] = field.__array_interface__["data"][0]
            row[at + 1 : at + 1 + field.ndim] = field.shape
            at += 1 + field.ndim
    return at


@partial(interpreted, by=_copy_in_python)
@lean
def _copy_row(record: Any, row: Int64Array) -> int:
    return int(_row_into(record, row))


class Rows:
    """A table of rows for records of one kind, which also keeps the records alive.

    A record that holds the table of other rows keeps the table alive, but not the records of those rows: whoever uses
    them has to hold their :class:`Rows`.

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
        self.put(row, entry(record))

    def put(self, row: int, known: Entry) -> None:
        """As assigning a record to a row, for a record whose addresses are known."""
        self.table[row] = known.row
        self._records[row] = known.record

    def __getstate__(self) -> tuple[int, list[Any]]:
        return self.table.shape[1], self._records

    def __setstate__(self, state: tuple[int, list[Any]]) -> None:
        columns, self._records = state
        self.table = np.zeros((len(self._records), columns), np.int64)
        for row, record in enumerate(self._records):
            if record is not None:
                self.table[row] = entry(record).row
