"""Files of fitted cost models: an ``.npz`` of plain arrays with a JSON header, checked when read."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from hetgym._input.artefacts import Array, Kind, check_format, load_npz, save_npz
from hetgym._input.files import as_path
from hetgym.errors import ArtefactError, shown, suggestion

FORMAT = "hetgym-costs"
VERSION = 1
FOLDER = Path(__file__).parent / "artefacts"  # Folder of the shipped models

_DTYPES = ("float32", "float64", "int32")
_ARRAY_LIMIT = 20_000  # arrays of a model; the largest shipped model has 1500


def names() -> list[str]:
    """Names of the shipped models, in alphabetical order."""
    return sorted(path.stem for path in FOLDER.glob("*.npz"))


def locate(name: str | Path) -> Path:
    """The path of a model, by its path or as the name of a shipped one; raises ArtefactError where there is neither."""
    path = as_path(name, "a cost model", ArtefactError)
    if str(name) in names():
        return FOLDER / f"{name}.npz"
    if path.suffix == ".npz" and os.path.isfile(path):  # Path.is_file would raise if the name is too long
        return path
    raise ArtefactError(
        f"no cost model {shown(str(name))}: neither an .npz file nor a shipped one; {suggestion(str(name), names())}"
    )


def save(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write a model; equal models give equal bytes.

    Args:
        path: the file; nothing is left behind if it cannot be written (ArtefactError).
        header: everything but the arrays, as JSON values.
        arrays: name -> array of 32- or 64-bit floats or 32-bit whole numbers.
    """
    dtypes = {name: str(array.dtype) for name, array in sorted(arrays.items())}
    odd = sorted({dtype for dtype in dtypes.values() if dtype not in _DTYPES})
    if odd:
        raise ArtefactError(f"{path}: cannot save arrays of {', '.join(odd)}; expected {', '.join(_DTYPES)}")
    full = {**header, "format": FORMAT, "version": VERSION, "arrays": dtypes}
    save_npz(Path(path), full, {name: np.ascontiguousarray(arrays[name]) for name in dtypes}, _FILE)


def load(path: str | Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The header and the arrays of a file that :func:`save` wrote; models check shapes and values of their own arrays.

    Raises:
        ArtefactError: the file is missing, damaged, of another format or version, or does not match its header.
    """
    return load_npz(as_path(path, "a cost model", ArtefactError), _FILE)


class Stored:
    """Base of cost models that are read from an artefact."""

    @classmethod
    def of_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], where: str) -> Self:
        """Build the model from the parts of an artefact; ArtefactError about an invalid part names ``where``."""
        raise NotImplementedError

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model; ArtefactError if the file is damaged, or fitted to inputs that this version lacks."""
        return cls.of_parts(*load(path), str(path))


def check_form(header: Mapping[str, Any], model: str, inputs: object, where: str, key: str = "features") -> None:
    """Refuse (ArtefactError) an artefact of another kind of model, or one fitted to other ``inputs`` (plain values)."""
    if header.get("model") != model:
        raise ArtefactError(f"{where}: holds no {model!r} model")
    if header.get(key) != inputs:
        raise ArtefactError(f"{where}: fitted to {key} that this version does not compute; fit it again")


def _declared(header: Mapping[str, Any], names: Collection[str], where: str) -> dict[str, Array]:
    """The arrays that a header lists with their dtypes."""
    check_format(header, where, ArtefactError, VERSION, FORMAT)
    listed = header.get("arrays")
    if not isinstance(listed, dict) or len(listed) > _ARRAY_LIMIT:
        raise ArtefactError(f"{where}: the header does not list its arrays")
    if not all(dtype in _DTYPES for dtype in listed.values()):
        raise ArtefactError(f"{where}: the header lists arrays of dtypes other than {', '.join(_DTYPES)}")
    return {name: Array(dtype, legal="finite") for name, dtype in listed.items()}


_FILE = Kind(ArtefactError, _declared, header_limit=8 << 20, limit=256 << 20)
"""The kind of a cost model's file; its limit is fifty times the size of the largest shipped model."""
