"""The container safetensors: arrays behind a JSON table of their places, and a card in the table's metadata."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._input.artefacts.kind import Array, Arrays, Kind, check_names, check_numbers, check_type, header_of
from hetgym._input.files import Refusal, read_bytes, write_bytes
from hetgym.errors import shown

_DTYPES = {"F64": "float64", "F32": "float32", "I64": "int64", "I32": "int32", "U8": "uint8", "BOOL": "bool"}


def save_tensors(path: Path, arrays: Arrays, error: Refusal, card: Mapping[str, Any] | None = None) -> None:
    """Write arrays to a safetensors file, and a card into its metadata if one is given.

    If it cannot be written, ``error`` is raised and what was there before is kept.
    """
    from safetensors.numpy import save

    metadata = None if card is None else {"card": json.dumps(card, sort_keys=True)}
    write_bytes(path, save({name: np.asarray(array, order="C") for name, array in arrays.items()}, metadata), error)


def load_tensors(
    path: Path, kind: Kind, card: dict[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The card and the arrays that :func:`save_tensors` wrote; a ``card`` that is kept elsewhere may be given.

    Raises:
        HetgymError: the kind's error: missing, damaged, too large, or not what the card declares.
    """
    where, error = str(path), kind.error
    data = read_bytes(path, kind.limit + kind.header_limit, error)
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or not 2 <= length <= min(kind.header_limit, len(data) - 8):
        raise error(f"{where}: not a readable safetensors file (its header is cut off, or too long)")
    table = header_of(data[8 : 8 + length], where, kind)
    metadata = table.pop("__metadata__", {})
    if card is None:
        text = metadata.get("card") if isinstance(metadata, dict) else None
        card = header_of((text if isinstance(text, str) else "{}").encode(), where, kind)
    declared = kind.declare(card, table.keys(), where)
    check_names(declared, table, where, error)
    places = _places(table, declared, len(data) - 8 - length, where, error)
    arrays = {}
    for name, (dtype, shape, start) in places.items():
        found = np.frombuffer(data, dtype, math.prod(shape), 8 + length + start).reshape(shape).copy()
        check_numbers(name, found, declared[name], where, error)
        arrays[name] = found
    return card, arrays


def _places(
    table: Mapping[str, Any], declared: Mapping[str, Array], size: int, where: str, error: Refusal
) -> dict[str, tuple[np.dtype[Any], tuple[int, ...], int]]:
    """Dtype, shape and first byte of each array; together they must fill the data exactly."""
    places: dict[str, tuple[np.dtype[Any], tuple[int, ...], int]] = {}
    spans: list[tuple[int, int]] = []
    sizes: dict[str, int] = {}
    for name, entry in table.items():
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise error(f"{where}: tensor {shown(name)} has no dtype, shape or place")
        if not isinstance(entry["dtype"], str) or entry["dtype"] not in _DTYPES:
            known = ", ".join(_DTYPES)
            raise error(f"{where}: tensor {shown(name)} has dtype {shown(entry['dtype'])}; hetgym keeps {known}")
        shape, span = entry["shape"], entry["data_offsets"]
        if not _whole(shape) or not _whole(span) or len(span) != 2:
            raise error(f"{where}: tensor {shown(name)} has an invalid shape or place")
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        check_type(name, dtype, tuple(shape), declared[name], sizes, where, error)
        if math.prod(shape) * dtype.itemsize != span[1] - span[0]:
            raise error(f"{where}: tensor {shown(name)} claims shape {shown(shape)}, which its bytes do not hold")
        places[name] = dtype, tuple(shape), span[0]
        spans.append((span[0], span[1]))
    ends = [0, *(end for _, end in sorted(spans))]
    if [start for start, _ in sorted(spans)] != ends[:-1] or ends[-1] != size:
        raise error(f"{where}: not a readable safetensors file (the tensors do not fill it)")
    return places


def _whole(values: object) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 1 << 62 for value in values)
