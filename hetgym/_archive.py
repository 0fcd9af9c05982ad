"""Arrays and a JSON header in one ``.npz`` file, read without trusting it.

Nothing is unpickled; sizes are checked against the file before memory is allocated; a file appears
under its name only when it is complete.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

LIMIT_BYTES = 4 << 30
"""Largest archive, unpacked, that is read."""

_HEADER = "header"


def atomic_write(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file under a temporary name beside its target, then move it into place.

    Raises:
        OSError: the folder cannot be written; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
            write(file)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def save_archive(path: Path | IO[bytes], header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays and a JSON header to a compressed ``.npz`` file, or into an open one."""
    text = np.frombuffer(json.dumps(header, sort_keys=True).encode(), np.uint8)
    members: dict[str, Any] = {_HEADER: text, **arrays}
    if isinstance(path, Path):
        atomic_write(path, lambda file: np.savez_compressed(file, **members))
    else:
        np.savez_compressed(path, **members)


def load_archive(
    source: Path | IO[bytes], dtypes: Mapping[str, str], error: type[ValueError]
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read what :func:`save_archive` wrote.

    Args:
        source: the file, or an open one that can seek.
        dtypes: expected dtype of each array, by name; exactly these must be there.
        error: exception type for a file that is not what it should be.

    Returns:
        The header and the arrays.
    """
    path = file_name(source)
    try:
        with zipfile.ZipFile(source) as archive:
            names = {info.filename.removesuffix(".npy") for info in archive.infolist()}
            if names != {_HEADER, *dtypes}:
                odd = [n if n.isprintable() else ascii(n) for n in sorted(names ^ {_HEADER, *dtypes})]
                raise error(f"{path}: missing or unexpected arrays {', '.join(odd)}")
            if sum(info.file_size for info in archive.infolist()) > LIMIT_BYTES:
                raise error(f"{path}: unpacks to more than {LIMIT_BYTES >> 30} GiB")
            text = _member(archive, _HEADER, "uint8", path, error)
            arrays = {name: _member(archive, name, dtype, path, error) for name, dtype in dtypes.items()}
        header = json.loads(text.tobytes().decode())
    except error:
        raise
    except FileNotFoundError:
        raise error(f"{path}: no such file") from None
    except (OSError, zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError) as cause:
        raise error(f"{path}: not a readable archive ({cause})") from cause
    except Exception as cause:  # zlib.error is no subclass of anything above
        raise error(f"{path}: damaged archive ({cause})") from cause
    if not isinstance(header, dict):
        raise error(f"{path}: the header is not a JSON object")
    return header, arrays


def file_name(source: Path | IO[bytes]) -> Path:
    """What messages call a file: its path, or ``archive`` if it has none."""
    return source if isinstance(source, Path) else Path(str(getattr(source, "name", "archive")))


def _member(archive: zipfile.ZipFile, name: str, dtype: str, path: Path, error: type[ValueError]) -> npt.NDArray[Any]:
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, found = read(file)
        if found != np.dtype(dtype) or fortran:
            raise error(f"{path}: array {name!r} has dtype {found}, expected {dtype} in C order")
        size = math.prod(shape) * found.itemsize
        if size != info.file_size - file.tell():
            raise error(f"{path}: array {name!r} claims shape {shape}, which its {info.file_size} bytes do not hold")
        return np.frombuffer(file.read(size), found).reshape(shape).copy()
