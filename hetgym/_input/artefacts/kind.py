"""Kinds of files: the arrays that they declare, and the checks that a file must pass before its arrays are read."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hetgym._input.files import Refusal, decoded
from hetgym._input.json import noun, parse
from hetgym.errors import shown

Arrays = Mapping[str, npt.NDArray[Any]]  # Arrays by name
MOST_DIMENSIONS = 8  # Most dimensions of an array of any shape: twice as many as any of ours has


@dataclass(frozen=True)
class Array:
    """The declaration of one array of a kind of file."""

    dtype: str | tuple[str, ...]  # NumPy's name of it, or names
    # its sizes; a size of None is any; a name stands for one size in all arrays of a file; None alone is any shape of
    # up to MOST_DIMENSIONS dimensions
    shape: tuple[int | str | None, ...] | None = None
    legal: Literal["any", "number", "finite"] = "any"  # numbers that it may hold: any, all but NaN, or finite ones


@dataclass(frozen=True)
class Kind:
    """A kind of file."""

    error: Refusal  # exception about a file of this kind
    # header, names of the arrays in the file and what to call the file -> the arrays that it must hold; raises `error`
    # where the header itself is not of this kind
    declare: Callable[[dict[str, Any], Collection[str], str], Mapping[str, Array]]
    header_limit: int  # longest header that is read [byte]
    limit: int  # most bytes of all arrays together, unpacked


def check_format(header: Mapping[str, Any], where: str, error: Refusal, version: int, *formats: str) -> None:
    """Refuse a header of another format or version with ``error``."""
    if header.get("format") not in formats or header.get("version") != version:
        raise error(f"{where}: not a {' or '.join(formats)} of format version {version}")


def check_names(declared: Collection[str], found: Collection[str], where: str, error: Refusal) -> None:
    odd = sorted(set(declared) ^ set(found))
    if odd:
        raise error(f"{where}: missing or unexpected arrays {', '.join(map(shown, odd[:8]))}")


def check_type(
    name: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    want: Array,
    sizes: dict[str, int],
    where: str,
    error: Refusal,
) -> None:
    """Compare what a file says of an array with what is declared; a named size is fixed by the first array."""
    known = (want.dtype,) if isinstance(want.dtype, str) else want.dtype
    if dtype not in [np.dtype(each) for each in known]:
        raise error(f"{where}: array {shown(name)} has dtype {dtype}, expected {' or '.join(known)}")
    if any(size < 0 for size in shape) or len(shape) > MOST_DIMENSIONS:
        raise error(f"{where}: array {shown(name)} has the impossible shape {shown(shape)}")
    if want.shape is None:
        return
    expected = tuple(sizes.get(size) if isinstance(size, str) else size for size in want.shape)
    if len(shape) != len(expected) or any(e not in (None, s) for s, e in zip(shape, expected, strict=True)):
        wanted = ", ".join("any" if size is None else str(size) for size in expected)
        raise error(f"{where}: array {shown(name)} has shape {shown(shape)}, expected ({wanted})")
    sizes.update({key: size for key, size in zip(want.shape, shape, strict=True) if isinstance(key, str)})


def check_numbers(name: str, array: npt.NDArray[Any], want: Array, where: str, error: Refusal) -> None:
    if want.legal == "any" or array.dtype.kind != "f":
        return
    if np.isnan(array).any() or (want.legal == "finite" and np.isinf(array).any()):
        rule = "finite" if want.legal == "finite" else "numbers"
        raise error(f"{where}: array {shown(name)} holds entries that are not {rule}")


def header_of(data: bytes, where: str, kind: Kind) -> dict[str, Any]:
    header = parse(decoded(data, f"{where}: header", kind.error), f"{where}: header", kind.error)
    if not isinstance(header, dict):
        raise kind.error(f"{where}: the header is {noun(header)}, not a JSON object")
    return header
