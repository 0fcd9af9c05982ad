"""The wire format of protocol buffers, as far as untrusted files need: bounded, without recursion or generated code.

Source: protobuf.dev/programming-guides/encoding.
"""

import struct
from collections.abc import Iterator

from hetgym.errors import GraphError


class Wire:
    """Reads fields from bytes; every length is checked before it is used.

    All methods raise :class:`~hetgym.errors.GraphError` where the bytes are no protocol buffer; it names ``where``.
    """

    def __init__(self, data: bytes, where: str) -> None:
        self.data = data
        self.where = where

    def messages(self) -> Iterator[tuple[int, int]]:
        """Begin and end of each message of a stream in which every message follows its length."""
        at = 0
        while at < len(self.data):
            length, at = self.varint(at, len(self.data))
            if length > len(self.data) - at:
                raise self.fail(at)
            yield at, at + length
            at += length

    def fields(self, at: int, end: int) -> Iterator[tuple[int, int | float, int]]:
        """Fields of a message: number, value and length.

        The value of a field with a length (text, a message, packed numbers) is where it begins; other fields have the
        length -1.
        """
        while at < end:
            tag, at = self.varint(at, end)
            number, wire = tag >> 3, tag & 7
            if wire == 0:
                value, at = self.varint(at, end)
                yield number, value, -1
            elif wire == 2:
                length, at = self.varint(at, end)
                if length > end - at:
                    raise self.fail(at)
                yield number, at, length
                at += length
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
                if size > end - at:
                    raise self.fail(at)
                yield number, float(struct.unpack_from("<d" if wire == 1 else "<f", self.data, at)[0]), -1
                at += size
            else:
                raise self.fail(at)

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """A whole number of at most 64 bits, and where it ends."""
        value = 0
        for shift in range(0, 70, 7):
            if at >= end:
                raise self.fail(at)
            byte = self.data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value & (1 << 64) - 1, at
        raise self.fail(at)

    def numbers(self, value: int | float, length: int) -> list[int]:
        """A repeated whole number, packed or not."""
        if length < 0:
            return [int(value)]
        found, at, end = [], int(value), int(value) + length
        while at < end:
            item, at = self.varint(at, end)
            found.append(item)
        return found

    def text(self, value: int | float, length: int) -> str:
        """A string; bytes that are no UTF-8 are replaced."""
        at = int(value)
        return self.data[at : at + max(0, length)].decode("utf-8", "replace")

    def fail(self, at: int) -> GraphError:
        """The error to raise about a place in the file."""
        return GraphError(f"{self.where}: damaged protocol buffer at byte {at}")
