"""The container ``.npz``: compressed arrays and a JSON header among them."""

import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from hetgym._input.artefacts.kind import Array, Arrays, Kind, check_names, check_numbers, check_type, header_of
from hetgym._input.files import Refusal, amount, atomic_write, open_file, reason
from hetgym._sums import summed
from hetgym.errors import HetgymError

DIRECTORY_LIMIT = 4 << 20
"""Longest directory of an archive that is read [byte]: some 40 000 members, thirty times as many as an artefact has."""

_HEADER = "header"
_CHUNK = 1 << 20  # bytes that are decompressed at once, so that an array is never held twice
_TAIL = 22 + 65535  # bytes in which an archive's end record lies


def file_name(source: Path | IO[bytes]) -> str:
    """The name of a file in messages: its path, or ``archive`` if it has none."""
    return str(source if isinstance(source, Path) else getattr(source, "name", "archive"))


def save_npz(target: Path | IO[bytes], header: Mapping[str, Any], arrays: Arrays, kind: Kind) -> None:
    """Write arrays and a header to a compressed ``.npz`` file, or into an open one.

    Raises:
        HetgymError: the kind's error: it cannot be written, or would be too large to be read; nothing is left behind.
    """
    document = json.dumps(header, sort_keys=True)
    if "\\ud" in document and not _encodes(json.dumps(header, ensure_ascii=False)):
        raise kind.error(f"{file_name(target)}: cannot be written (a name holds half of a surrogate pair)")
    text = np.frombuffer(document.encode(), np.uint8)
    if len(text) > kind.header_limit or summed(array.nbytes for array in arrays.values()) > kind.limit:
        raise kind.error(
            f"{file_name(target)}: cannot be written (a file of this kind holds up to {amount(kind.header_limit)} of "
            f"header and {amount(kind.limit)} of arrays)"
        )
    members: dict[str, Any] = {_HEADER: text, **arrays}
    try:
        if isinstance(target, Path):
            atomic_write(target, lambda file: np.savez_compressed(file, **members))
        else:
            np.savez_compressed(target, **members)
    except (OSError, ValueError) as cause:
        raise kind.error(f"{file_name(target)}: cannot be written ({reason(cause)})") from cause


def _encodes(text: str) -> bool:
    try:
        return bool(text.encode() or True)
    except UnicodeEncodeError:
        return False


def load_npz(source: Path | IO[bytes], kind: Kind) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The header and the arrays that :func:`save_npz` wrote; the kind's error if they do not match or are damaged."""
    where = file_name(source)
    try:
        if isinstance(source, Path):
            with open_file(source, kind.error) as file:
                return _unpacked(file, where, kind)
        return _unpacked(source, where, kind)
    except (HetgymError, MemoryError):
        raise
    except Exception as cause:  # zipfile, zlib and NumPy's parser of array headers raise a dozen types
        raise kind.error(f"{where}: not a readable archive ({reason(cause) or type(cause).__name__})") from cause


def _unpacked(file: IO[bytes], where: str, kind: Kind) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    _check_directory(file, where, kind.error)
    with zipfile.ZipFile(file) as archive:
        members = {_array_name(info.filename): info for info in archive.infolist()}
        if len(members) < len(archive.infolist()) or any(info.compress_type not in (0, 8) for info in members.values()):
            raise kind.error(f"{where}: not a readable archive (members of one name, or an unsupported compression)")
        if _HEADER not in members:
            raise kind.error(f"{where}: missing or unexpected arrays {_HEADER}")
        member = members.pop(_HEADER)
        if member.file_size > kind.header_limit:
            raise kind.error(f"{where}: the header is longer than {amount(kind.header_limit)}")
        text = _read_member(archive, member, _HEADER, Array("uint8", (None,)), {}, where, kind.error)
        header = header_of(text.tobytes(), where, kind)
        declared = kind.declare(header, members.keys(), where)
        check_names(declared, members, where, kind.error)
        total = summed(info.file_size for info in members.values())
        if total > kind.limit:
            raise kind.error(f"{where}: unpacks to more than {amount(kind.limit)}")
        sizes: dict[str, int] = {}
        arrays = {
            name: _read_member(archive, members[name], name, want, sizes, where, kind.error)
            for name, want in declared.items()
        }
    return header, arrays


def _array_name(member: str) -> str:
    """The name of an array, which a member of another ending does not have."""
    return member.removesuffix(".npy") if member.endswith(".npy") else f"{member} (no .npy)"


def _check_directory(file: IO[bytes], where: str, error: Refusal) -> None:
    """Refuse an archive whose list of members would take more memory than its arrays.

    Its length is in the end record, the last thing in the file before a comment.
    """
    size = file.seek(0, 2)
    start = file.seek(max(0, size - _TAIL))
    tail = file.read(_TAIL)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + 22 > len(tail):
        raise error(f"{where}: not a readable archive (it has no end record)")
    directory = int.from_bytes(tail[at + 12 : at + 16], "little")
    if directory > DIRECTORY_LIMIT or tail[max(0, at - 20) : at].startswith(b"PK\x06\x07") or start + at < directory:
        raise error(f"{where}: not a readable archive (its directory is too long)")
    file.seek(0)


def _read_member(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    name: str,
    want: Array,
    sizes: dict[str, int],
    where: str,
    error: Refusal,
) -> npt.NDArray[Any]:
    """One array, decompressed in pieces into memory that is allocated once its shape is known to be right."""
    with archive.open(info) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise error(f"{where}: not a readable archive (array {name!r} is of another version of NumPy's format)")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        if fortran:
            raise error(f"{where}: array {name!r} is not in C order")
        check_type(name, dtype, shape, want, sizes, where, error)
        if math.prod(shape) * dtype.itemsize != info.file_size - file.tell():
            raise error(f"{where}: array {name!r} claims shape {shape}, which its {info.file_size} bytes do not hold")
        array = np.empty(shape, dtype)
        target = array.reshape(-1).view(np.uint8)
        at = 0
        while chunk := file.read(_CHUNK):
            target[at : at + len(chunk)] = np.frombuffer(chunk, np.uint8)
            at += len(chunk)
    if at != len(target):
        raise error(f"{where}: not a readable archive (array {name!r} ends early)")
    check_numbers(name, array, want, where, error)
    return array
