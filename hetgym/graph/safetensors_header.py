"""Headers of safetensors files, read without the weights: names, dtypes, shapes and sizes of tensors.

Notes:
    A file is a u64 length, that many bytes of JSON, and the data, which the tensors fill without holes:
    https://github.com/huggingface/safetensors. Limits are checked before anything is allocated, and nothing behind the
    header is read.
"""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hetgym._input.files import amount, decoded, open_file, reason
from hetgym._input.json import parse
from hetgym.errors import GraphError, shown

LARGEST_HEADER = 100_000_000  # [byte]
MOST_TENSORS = 65536
_NAME = 1024  # longest name [byte]
_MOST_CONTAINERS = 4 * MOST_TENSORS + 16

BITS = {
    "F64": 64, "I64": 64, "U64": 64, "C64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16,
    "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I8": 8, "U8": 8,
    "BOOL": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
"""Dtype of a file -> bits of a number."""

FLOATS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8", "F8_E5M2": "float8",
    "F8_E4M3FNUZ": "float8", "F8_E5M2FNUZ": "float8", "I8": "int8",
}  # fmt: skip
"""Dtype of a file -> dtype of a weight that is not packed."""


class StoredTensor(NamedTuple):
    """A tensor of a file."""

    dtype: str  # a key of BITS
    shape: tuple[int, ...]
    bytes: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def read_header(path: Path) -> dict[str, StoredTensor]:
    """Tensors of a file by name.

    Raises:
        GraphError: a missing file, a header that is cut off, too long or not JSON, a tensor with an unknown dtype, or
            with a shape that does not take its bytes, and tensors that do not fill the file.
    """
    where = str(path)
    try:
        with open_file(path, GraphError) as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 10 or not 2 <= length <= size - 8:
                raise GraphError(f"{where}: not a safetensors file (its header is cut off)")
            if length > LARGEST_HEADER:
                raise GraphError(f"{where}: the header is longer than {amount(LARGEST_HEADER)}")
            data = file.read(length)
    except OSError as cause:
        raise GraphError(f"{where}: cannot be read ({reason(cause)})") from cause
    if not data.startswith(b"{"):
        raise GraphError(f"{where}: not a safetensors file (its header is not JSON)")
    table = parse(decoded(data, where, GraphError), where, GraphError, _MOST_CONTAINERS)
    entries = {name: entry for name, entry in table.items() if name != "__metadata__"}
    if len(entries) > MOST_TENSORS:
        raise GraphError(f"{where}: it states {len(entries)} tensors; at most {MOST_TENSORS} are read")
    return _checked(entries, size - 8 - length, where)


def _checked(entries: Mapping[str, Any], size: int, where: str) -> dict[str, StoredTensor]:
    """The tensors of a header, which together fill the data."""
    found: dict[str, StoredTensor] = {}
    spans = []
    for name, entry in entries.items():
        if len(name.encode()) > _NAME:
            raise GraphError(f"{where}: the name of a tensor is longer than {_NAME} bytes")
        found[name], span = _tensor(name, entry, where)
        spans.append(span)
    spans.sort()
    ends = [0, *(end for _, end in spans)]
    odd = next((k for k, (start, _) in enumerate(spans) if start != ends[k]), None)
    if odd is not None:
        what = "overlap" if spans[odd][0] < ends[odd] else "leave a hole"
        raise GraphError(f"{where}: the tensors {what} at byte {min(spans[odd][0], ends[odd])} of the data")
    if ends[-1] != size:
        raise GraphError(f"{where}: the tensors take {ends[-1]} bytes, and the file holds {size} behind its header")
    return found


def _tensor(name: str, entry: object, where: str) -> tuple[StoredTensor, tuple[int, int]]:
    """A tensor, and where it begins and ends."""
    at = f"{where}: tensor {shown(name)}"
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise GraphError(f"{at} does not state dtype, shape and data_offsets")
    dtype, shape, span = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise GraphError(f"{at} has the unknown dtype {shown(dtype)}")
    if not _whole(shape) or len(shape) > 64 or not _whole(span) or len(span) != 2 or span[0] > span[1]:
        raise GraphError(f"{at} has an invalid shape or place")
    bits = math.prod(shape) * BITS[dtype]
    if bits != 8 * (span[1] - span[0]):
        raise GraphError(f"{at} has the shape {shown(shape)} of {dtype}, which does not take {span[1] - span[0]} bytes")
    return StoredTensor(dtype, tuple(shape), span[1] - span[0]), (span[0], span[1])


def _whole(values: object) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 1 << 62 for value in values)
