"""Headers of GGUF files, read without the weights: pairs of keys and values, and the weights' names, shapes and types.

Notes:
    ``ggml/src/gguf.cpp`` of llama.cpp, versions 2 and 3 of the format, little-endian. Limits are checked before
    anything is allocated, and nothing behind the header is read.
"""

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from hetgym._input.files import open_file
from hetgym.errors import GraphError, shown
from hetgym.graph.formats import FORMATS, GGML
from hetgym.graph.ops import DTYPE_BYTES

MOST_TENSORS = 65536
MOST_PAIRS = 4096
LARGEST_HEADER = 256 << 20  # [byte]
_MOST_KEPT = 4096  # items of an array that is kept; longer ones are of tokenizers, and only counted
_NAME, _TEXT = 1024, 1 << 20  # longest key or name, longest text that is kept [byte]

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


class Stored(NamedTuple):
    """A tensor of a file."""

    shape: tuple[int, ...]  # rows before columns, as PyTorch has them
    dtype: str  # its format
    offset: int  # from the begin of the data [byte]
    bytes: int  # its size without padding [byte]


@dataclass(frozen=True)
class Header:
    """What the header of a file states."""

    where: str  # the file
    pairs: Mapping[str, Any]  # arrays longer than some thousand items are given by their length
    tensors: Mapping[str, Stored]
    end: int  # size of a file that holds all its tensors [byte]


def read_header(path: Path, bare: bool = False) -> Header:
    """Read the header of a file.

    Args:
        bare: accept a file that ends before its data do, as the first megabytes of a download.

    Raises:
        GraphError: not a GGUF file of a known version; a count, length, name, type, shape or offset that no file has; a
            header that is cut off, or, unless ``bare``, data that are.
    """
    with open_file(path, GraphError) as file:
        return _Reader(file, str(path)).header(bare)


class _Reader:
    """Reader of a file from its begin; it never reads more than what is left of the file."""

    def __init__(self, file: IO[bytes], where: str) -> None:
        self.file, self.where = file, where
        self.size = os.fstat(file.fileno()).st_size
        self.at = 0

    def refuse(self, what: str) -> GraphError:
        return GraphError(f"{self.where}: {what}")

    def take(self, count: int) -> bytes:
        """The next bytes."""
        self._reach(count)
        return self.file.read(count)

    def skip(self, count: int) -> None:
        self._reach(count)
        self.file.seek(count, os.SEEK_CUR)

    def _reach(self, count: int) -> None:
        self.at += count
        if self.at > self.size:
            raise self.refuse("the header is cut off")
        if self.at > LARGEST_HEADER:
            raise self.refuse(f"the header is longer than {LARGEST_HEADER >> 20} MiB")

    def number(self, form: str) -> Any:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def text(self, what: str, limit: int) -> str:
        length = self.number("Q")
        if length > limit:
            raise self.refuse(f"{what} of {length} bytes; at most {limit} are read")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise self.refuse(f"{what} is not UTF-8 text") from None

    def header(self, bare: bool) -> Header:
        if self.size < 24 or self.take(4) != b"GGUF":
            raise self.refuse("not a GGUF file, which begins with 'GGUF' and two counts")
        version = self.number("I")
        if version not in (2, 3):
            told = "it is big-endian" if version and version % 65536 == 0 else "known are 2 and 3"
            raise self.refuse(f"version {version} of GGUF is not supported; {told}")
        tensors, pairs = self.number("Q"), self.number("Q")
        for what, count, most, least in (("tensors", tensors, MOST_TENSORS, 24), ("pairs", pairs, MOST_PAIRS, 13)):
            if count > min(most, (self.size - self.at) // least):
                raise self.refuse(f"it states {count} {what}, more than such a file can have")
        found = self._pairs(pairs)
        infos = [self._info() for _ in range(tensors)]
        align = found.get("general.alignment", 32)
        if not isinstance(align, int) or align < 1 or align & (align - 1) or align > 1 << 20:
            raise self.refuse(f"general.alignment is {shown(align)}, not a power of two")
        begin = -(-self.at // align) * align
        named = dict(infos)
        if len(named) < tensors:
            raise self.refuse("two tensors have one name")
        end = begin + self._check(infos, align)
        if end > self.size and not bare:
            raise self.refuse(f"the data are cut off: the file has {self.size} of {end} bytes")
        return Header(self.where, found, named, end)

    def _pairs(self, count: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(count):
            key = self.text("a key", _NAME)
            if not key or key in found:
                raise self.refuse(f"the key {shown(key)} is empty or appears twice")
            found[key] = self._value(self.number("i"), key)
        return found

    def _value(self, kind: int, key: str) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            raise self.refuse(f"the value of {shown(key)} has the unknown type {kind}")
        inner, count = self.number("i"), self.number("Q")
        size = 8 if inner == _STRING else struct.calcsize(_NUMBERS.get(inner, "x")) if inner in _NUMBERS else 0
        if not size or count * size > self.size - self.at:
            raise self.refuse(f"the array {shown(key)} has {count} items of type {inner}, which the file cannot hold")
        if inner == _STRING:
            for _ in range(count):
                self.skip(self.number("Q"))
            return count
        if count > _MOST_KEPT:
            self.skip(count * size)
            return count
        return list(struct.unpack(f"<{count}{_NUMBERS[inner]}", self.take(count * size)))

    def _string(self) -> str:
        """A text; of a long one, such as a template, nothing."""
        length = self.number("Q")
        if length > _TEXT:
            self.skip(length)
            return ""
        return self.take(length).decode(errors="replace")

    def _info(self) -> tuple[str, Stored]:
        name = self.text("the name of a tensor", _NAME)
        count = self.number("I")
        if not 0 < count <= 4:
            raise self.refuse(f"tensor {shown(name)} has {count} dimensions; 1 to 4 are possible")
        shape = tuple(self.number("q") for _ in range(count))
        kind, offset = self.number("i"), self.number("Q")
        if min(shape) < 1 or math.prod(shape) >= 1 << 60:
            raise self.refuse(f"tensor {shown(name)} has the shape {shown(shape)}")
        dtype = GGML.get(kind)
        if dtype is None:
            raise self.refuse(f"tensor {shown(name)} has the unknown type {kind}")
        if dtype in FORMATS and shape[0] % FORMATS[dtype].elements:
            raise self.refuse(f"tensor {shown(name)} has rows of {shape[0]} numbers, not whole blocks of {dtype}")
        return name, Stored(shape[::-1], dtype, offset, int(math.prod(shape) * DTYPE_BYTES[dtype]))

    def _check(self, infos: list[tuple[str, Stored]], align: int) -> int:
        """Size of the data, whose tensors follow each other, each padded."""
        at = 0
        for name, info in infos:
            if info.offset != at:
                raise self.refuse(
                    f"tensor {shown(name)} begins at {info.offset}, not behind the one before it, at {at}"
                )
            at += -(-info.bytes // align) * align
        return at
