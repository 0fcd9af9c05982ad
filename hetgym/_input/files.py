"""Bounded reads, atomic writes, and a one-sentence error when either fails."""

import errno
import gzip
import io
import json
import os
import secrets
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from hetgym.errors import ConfigError, HetgymError, shown

_PIECE = 1 << 22  # bytes per read

Refusal = type[HetgymError]  # Type of the exception that a function raises about a file


def as_path(source: object, what: str, error: Refusal) -> Path:
    """A caller's argument as a path; ``error`` about the noun ``what`` if it is neither text nor a path."""
    if not isinstance(source, str | os.PathLike) or isinstance(os.fspath(source), bytes):
        raise error(f"{what} is read from a path, not from {type(source).__name__} {shown(source)}")
    return Path(source)


def is_folder(path: Path) -> bool:
    """Whether a path is that of a folder; False for text that no path can be, too long or with a null character."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def open_file(path: Path, error: Refusal) -> IO[bytes]:
    """Open a regular file for reading, else raise ``error``: devices and pipes may never end."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise error(f"{path}: not a regular file")
        return path.open("rb")
    except FileNotFoundError:
        raise error(f"{path}: no such file") from None
    except (OSError, ValueError) as cause:  # ValueError: a null character in the name
        raise error(f"{path}: cannot be read ({reason(cause)})") from cause


def read_bytes(path: Path, limit: int, error: Refusal) -> bytes:
    """Content of a file; ``error`` if it is missing, unreadable or longer than the limit [byte]."""
    try:
        with open_file(path, error) as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(min(size, limit) + 1)  # not read(limit + 1), which would allocate the whole limit
    except OSError as cause:
        raise error(f"{path}: cannot be read ({reason(cause)})") from cause
    if len(data) > limit:
        raise error(f"{path}: longer than {amount(limit)}")
    return data


def read_unpacked(path: Path, limit: int, error: Refusal) -> bytes:
    """Content of a plain or gzipped file; ``error`` as for :func:`read_bytes` after decompression, or if damaged."""
    data = read_bytes(path, limit, error)
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unpacked = read_pieces(file, limit)
    except (OSError, EOFError, zlib.error) as cause:  # OSError: gzip.BadGzipFile
        raise error(f"{path}: damaged gzip file ({cause})") from cause
    if unpacked is None:
        raise error(f"{path}: longer than {amount(limit)}")
    return unpacked


def read_text(path: Path, limit: int, error: Refusal) -> str:
    """UTF-8 text of a plain or gzipped file; see :func:`read_unpacked`."""
    return decoded(read_unpacked(path, limit, error), str(path), error)


def decoded(data: bytes, where: str, error: Refusal) -> str:
    """The text of UTF-8 bytes; ``error`` if they are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as cause:
        raise error(f"{where}: not UTF-8 text ({cause.reason} at byte {cause.start})") from cause


def reason(cause: Exception) -> str:
    """The operating system's own words for why it refused."""
    return getattr(cause, "strerror", None) or str(cause)


def amount(size: int) -> str:
    """A limit in words.

    >>> amount(3 << 20), amount(1000)
    ('3 MiB', '1000 bytes')
    """
    return f"{size >> 20} MiB" if size >> 20 else f"{size} bytes"


def atomic_write(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file under a temporary name beside its target, then move it into place.

    If the folder cannot be written (OSError), nothing is left behind.
    """
    temporary = _beside(path)
    try:
        with open(temporary, "xb") as file:
            write(file)
        os.replace(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)  # nobody has heard of the temporary file
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: object) -> Path:
    """Write a JSON file atomically, and return its path; NaN is a ValueError."""
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    atomic_write(path, lambda file: file.write(text.encode()))
    return path


def packed(data: bytes) -> bytes:
    """Gzip data; equal data give equal bytes under every Python and system: the header has no time and names Unix."""
    found = gzip.compress(data, 9, mtime=0)
    return found[:9] + b"\x03" + found[10:]


def write_bytes(path: Path, data: bytes, error: Refusal) -> None:
    """Write a file whole or not at all; if it cannot be written, ``error`` is raised and an earlier version kept."""
    try:
        atomic_write(path, lambda file: file.write(data))
    except (OSError, ValueError) as cause:
        raise error(f"{path}: cannot be written ({reason(cause)})") from cause


def write_text(path: Path, text: str, error: Refusal) -> None:
    """As :func:`write_bytes`, for UTF-8 text, which is gzipped if the file's name ends in ``.gz``."""
    write_bytes(path, packed(text.encode()) if path.suffix == ".gz" else text.encode(), error)


def check_run_name(name: str) -> str:
    """The name of a run, which is the name of its folder; ConfigError if it is empty, or a path."""
    if Path(name).name != name or name in (".", "..", ""):
        raise ConfigError(f"a run's name must be a single word, not a path such as {name!r}; --out sets the folder")
    return name


def check_writable(path: Path, error: Refusal) -> None:
    """Refuse a file that cannot be written before the work whose result it is to hold; nothing is left behind.

    Raises:
        HetgymError: of type ``error``: the path is that of a folder or device, or no file can be made beside it.
    """
    try:
        if path.exists() and not path.is_dir() and not path.is_file():
            raise error(f"{path}: not a regular file")
        temporary = _beside(path)
        open(temporary, "xb").close()
        temporary.unlink()
    except (OSError, ValueError) as cause:  # ValueError: a null character in the name
        raise error(f"{path}: cannot be written ({reason(cause)})") from cause


def is_file(path: str | os.PathLike[str], existing: str | os.PathLike[str]) -> bool:
    """True if a path leads to a file that exists, by whatever name."""
    try:
        return os.path.samefile(path, existing)
    except (OSError, ValueError):  # ValueError: a null character in a name
        return False


def _beside(path: Path) -> Path:
    """The temporary name under which a file is written; OSError if the path is that of a folder."""
    if not path.name or path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")


def read_pieces(file: IO[bytes] | gzip.GzipFile, limit: int) -> bytes | None:
    """The rest of a file of unknown unpacked size, read piece by piece; None if it is longer than a limit [byte]."""
    pieces, size = [], 0
    while piece := file.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            return None
    return b"".join(pieces)
