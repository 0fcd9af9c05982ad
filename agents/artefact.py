"""Artefacts: weights in safetensors, and a JSON card beside them that a reader can check; reading needs no PyTorch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from hetgym._archive import atomic_write
from hetgym.errors import ArtefactError

VERSION = 1
SIZE_LIMIT = 64 << 20
"""Largest file that is read [byte]."""

Weights = Mapping[str, npt.NDArray[Any]]
"""Arrays by name."""


def save_artefact(path: str | Path, kind: str, weights: Weights, card: Mapping[str, Any]) -> None:
    """Write ``<path>.safetensors`` and ``<path>.json``.

    Args:
        path: without suffix.
        kind: of policy, which the card then tells.
        weights: kept in float32.
        card: where they come from, as JSON values.

    Raises:
        ArtefactError: a file cannot be written.
    """
    arrays = {name: np.ascontiguousarray(weight, np.float32) for name, weight in sorted(weights.items())}
    text = json.dumps({**card, "format": kind, "version": VERSION}, indent=1, sort_keys=True, allow_nan=False) + "\n"
    try:
        atomic_write(Path(f"{path}.safetensors"), lambda file: file.write(save(arrays)))
        atomic_write(Path(f"{path}.json"), lambda file: file.write(text.encode()))
    except OSError as error:
        raise ArtefactError(f"{path}: cannot be written ({error.strerror})") from error


def load_artefact(path: str | Path, *kinds: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read what :func:`save_artefact` wrote: the card and the weights.

    Args:
        path: without suffix.
        kinds: one of which it must be.

    Raises:
        ArtefactError: missing, damaged, or of another kind or version; the message says which.
    """
    weights, page = Path(f"{path}.safetensors"), Path(f"{path}.json")
    try:
        for file in (weights, page):
            if file.stat().st_size > SIZE_LIMIT:
                raise ArtefactError(f"{file}: larger than {SIZE_LIMIT >> 20} MiB")
        card = json.loads(page.read_text("utf-8"))
        arrays = load(weights.read_bytes())
    except FileNotFoundError as error:
        raise ArtefactError(f"{error.filename}: no such file") from None
    except (OSError, ValueError, SafetensorError) as error:
        raise ArtefactError(f"{path}: not a readable policy ({error})") from error
    if not isinstance(card, dict) or card.get("format") not in kinds or card.get("version") != VERSION:
        raise ArtefactError(f"{page}: not a {' or '.join(kinds)} of format version {VERSION}")
    return card, arrays
