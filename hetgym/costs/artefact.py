"""Fitted cost models as files: an ``.npz`` of plain arrays with a JSON header, read without trusting it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hetgym._archive import load_archive, save_archive
from hetgym.errors import ArtefactError, suggestion

FORMAT = "hetgym-costs"
VERSION = 1
FOLDER = Path(__file__).parent / "artefacts"
"""Where the shipped models lie."""

_DTYPES = ("float32", "float64", "int32")
_HEADER_LIMIT = 8 << 20
_ARRAY_LIMIT = 20_000


def names() -> list[str]:
    """Names of the shipped models, in alphabetical order."""
    return sorted(path.stem for path in FOLDER.glob("*.npz"))


def locate(name: str | Path) -> Path:
    """The file of a shipped model, or a path that is given.

    Raises:
        ArtefactError: neither a shipped model nor a file.
    """
    shipped = FOLDER / f"{name}.npz"
    if str(name) in names():
        return shipped
    path = Path(name)
    if path.suffix == ".npz" and path.is_file():
        return path
    raise ArtefactError(
        f"no cost model {str(name)!r}: neither an .npz file nor a shipped one; {suggestion(name, names())}"
    )


def save(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a model; equal models give equal bytes.

    Args:
        path: the file.
        header: what is not an array, as JSON values.
        arrays: name -> array of 32- or 64-bit floats or 32-bit whole numbers.

    Raises:
        ArtefactError: the file cannot be written; nothing is left behind.
    """
    dtypes = {name: str(array.dtype) for name, array in sorted(arrays.items())}
    odd = sorted({dtype for dtype in dtypes.values() if dtype not in _DTYPES})
    if odd:
        raise ArtefactError(f"{path}: arrays of {', '.join(odd)} cannot be kept; they must be {', '.join(_DTYPES)}")
    full = {**header, "format": FORMAT, "version": VERSION, "arrays": dtypes}
    try:
        save_archive(Path(path), full, {name: np.ascontiguousarray(arrays[name]) for name in dtypes})
    except OSError as cause:
        raise ArtefactError(f"{path}: cannot be written ({cause.strerror})") from cause


def load(path: str | Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read what :func:`save` wrote.

    Raises:
        ArtefactError: missing, damaged, of another format or version, or not as its header says.
    """
    source = Path(path)
    dtypes = _declared(source)
    return load_archive(source, dtypes, ArtefactError)


def _declared(path: Path) -> dict[str, str]:
    """The arrays that the header of a file promises."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo("header.npy").file_size > _HEADER_LIMIT:
                raise ArtefactError(f"{path}: the header is longer than {_HEADER_LIMIT >> 20} MiB")
            with archive.open("header.npy") as file:
                data = file.read(_HEADER_LIMIT + 1)
        header = json.loads(data[data.index(b"\n") + 1 :].decode())  # behind numpy's own header line
    except ArtefactError:
        raise
    except FileNotFoundError:
        raise ArtefactError(f"{path}: no such file") from None
    except Exception as cause:  # zipfile, zlib and json each raise their own
        raise ArtefactError(f"{path}: not a readable archive ({cause})") from cause
    if not isinstance(header, dict) or header.get("format") != FORMAT or header.get("version") != VERSION:
        raise ArtefactError(f"{path}: not a fitted cost model of format version {VERSION}")
    declared = header.get("arrays")
    if not isinstance(declared, dict) or len(declared) > _ARRAY_LIMIT:
        raise ArtefactError(f"{path}: the header does not list its arrays")
    if not all(isinstance(name, str) and dtype in _DTYPES for name, dtype in declared.items()):
        raise ArtefactError(f"{path}: the header lists arrays of other types than {', '.join(_DTYPES)}")
    return dict(declared)
