"""Place policies as files: weights in safetensors, and a JSON card beside them that a reader can check."""

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
from hetgym._config import read
from hetgym.agents.place.planner import PlacePlanner
from hetgym.agents.place.refinement import Refining
from hetgym.errors import ArtefactError, ConfigError

FORMAT = "hetgym-place-policy"
VERSION = 1
SIZE_LIMIT = 64 << 20
"""Largest file that is read [byte]."""


def save_planner(path: str | Path, weights: Mapping[str, npt.NDArray[Any]], card: Mapping[str, Any]) -> None:
    """Write ``<path>.safetensors`` and ``<path>.json``.

    Args:
        path: without suffix.
        weights: of a :class:`~hetgym.agents.networks.place.PlaceNetwork`, by name.
        card: where they come from, as JSON values; ``search`` holds settings of the search.

    Raises:
        ArtefactError: they are not such weights, or a file cannot be written.
    """
    PlacePlanner(weights, card)
    arrays = {name: np.ascontiguousarray(weight, np.float32) for name, weight in sorted(weights.items())}
    text = json.dumps({**card, "format": FORMAT, "version": VERSION}, indent=1, sort_keys=True, allow_nan=False) + "\n"
    try:
        atomic_write(Path(f"{path}.safetensors"), lambda file: file.write(save(arrays)))
        atomic_write(Path(f"{path}.json"), lambda file: file.write(text.encode()))
    except OSError as error:
        raise ArtefactError(f"{path}: cannot be written ({error.strerror})") from error


def load_planner(path: str | Path) -> PlacePlanner:
    """Read what :func:`save_planner` wrote.

    Args:
        path: without suffix.

    Raises:
        ArtefactError: missing, damaged, or not a place policy; the message says which.
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
    if not isinstance(card, dict) or card.get("format") != FORMAT or card.get("version") != VERSION:
        raise ArtefactError(f"{page}: not a {FORMAT} of format version {VERSION}")
    try:
        return PlacePlanner(arrays, card, read(Refining, card.get("search", {}), str(page), "search"))
    except (ArtefactError, ConfigError) as error:
        raise ArtefactError(f"{path}: {error}") from error
