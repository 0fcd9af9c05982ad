"""Records: what kernels see of named tuples of arrays."""

from __future__ import annotations

import copy
import sys
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from hetgym._kernels.jit import jit, lean, step
from hetgym._kernels.records import Rows, entry, reader, record


@record
class Inner(NamedTuple):
    """A record in a record."""

    flags: npt.NDArray[np.bool_]
    cube: npt.NDArray[np.int32]


@record
class Outer(NamedTuple):
    """A record with a record between its arrays."""

    row: npt.NDArray[np.float64]
    inner: Inner
    table: npt.NDArray[np.float64]


def example(seed: int) -> Outer:
    rng = np.random.default_rng(seed)
    cube = rng.integers(0, 9, (2, 3, seed % 4)).astype(np.int32)
    return Outer(rng.random(seed), Inner(rng.random(3) < 0.5, cube), rng.random((seed, 2)))


@step
def total(x: Inner) -> float:
    """The sum of an inner record."""
    found = 0.0
    for a in range(x.cube.shape[0]):
        for b in range(x.cube.shape[1]):
            for c in range(x.cube.shape[2]):
                found += x.cube[a, b, c] * (a + 1) * (b + 2) * (c + 3)
    return found + (100 if x.flags.all() else 0)


@lean
def change(x: Outer) -> float:
    """Write to a record's arrays and read from them."""
    found = total(x.inner) + x.table.size
    for i in range(len(x.row)):
        x.row[i] += x.table[i, 1]
        x.table[i, 0] = x.row[i]
        found += x.row[i]
    return found


def by_hand(x: Outer) -> float:
    a, b, c = np.ogrid[: x.inner.cube.shape[0], : x.inner.cube.shape[1], : x.inner.cube.shape[2]]
    inner = float((x.inner.cube * (a + 1) * (b + 2) * (c + 3)).sum()) + (100 if x.inner.flags.all() else 0)
    return inner + float((x.row + x.table[:, 1]).sum()) + x.table.size


def test_a_kernel_reads_and_writes_the_arrays_of_a_record() -> None:
    for seed in range(12):
        x = example(seed)
        expected, rows = by_hand(x), x.row + x.table[:, 1]
        assert change(x) == pytest.approx(expected, rel=1e-12)
        assert x.row.tolist() == rows.tolist() == x.table[:, 0].tolist()
    assert len(change.signatures) == 1  # type: ignore[attr-defined]


def test_rows_and_arguments_are_one_type() -> None:
    read = reader(example(3))

    @lean
    def change_all(rows: npt.NDArray[np.int64], found: npt.NDArray[np.float64]) -> None:
        for k in range(len(rows)):
            found[k] = change(read(rows[k]))

    rows, found = Rows(4, example(0)), np.zeros(4)
    expected = []
    for k in range(4):
        expected.append(by_hand(example(k + 5)))
        rows[k] = example(k + 5)
    change_all(rows.table, found)
    assert found == pytest.approx(expected, rel=1e-12)
    assert len(change.signatures) == 1  # type: ignore[attr-defined]


def test_calls_keep_no_reference() -> None:
    x = example(7)
    change(x)
    before = sys.getrefcount(x.row), sys.getrefcount(x.inner.cube)
    for _ in range(100):
        change(x)
    assert (sys.getrefcount(x.row), sys.getrefcount(x.inner.cube)) == before


def test_read_only_arrays_are_another_type_that_no_kernel_writes_to() -> None:
    @jit
    def first(x: Inner) -> int:
        return int(x.cube[0, 0, 0])

    x = example(7).inner
    x.cube.setflags(write=False)
    assert first(x) == x.cube[0, 0, 0]

    @lean
    def write(x: Inner) -> None:
        x.cube[0, 0, 0] = 1

    with pytest.raises(Exception, match=r"[Cc]annot modify readonly array"):
        write(x)


@pytest.mark.parametrize(
    "x",
    [
        Inner(np.zeros(3, np.bool_), np.zeros((4, 2, 2), np.int32).T),
        Inner(np.zeros(6, np.bool_)[::2], np.zeros((2, 2, 2), np.int32)),
        Inner([True], np.zeros((2, 2, 2), np.int32)),  # type: ignore[arg-type]
        Inner(3.0, np.zeros((2, 2, 2), np.int32)),  # type: ignore[arg-type]
    ],
    ids=["transposed", "strided", "a list", "a number"],
)
def test_what_is_no_contiguous_array_is_refused(x: Inner) -> None:
    @lean
    def count(x: Inner) -> int:
        return len(x.flags)

    with pytest.raises(TypeError, match="not a C-contiguous array"):
        count(x)


def test_a_copied_entry_has_the_addresses_of_the_copies() -> None:
    known, rows = entry(example(5)), Rows(1, example(0))
    rows.put(0, known)
    twin, table = copy.deepcopy((known, rows))
    assert table[0].row is twin.record.row is not known.record.row
    assert twin.row[0] == twin.record.row.ctypes.data != known.row[0]
    assert table.table[0].tolist() == twin.row.tolist()
