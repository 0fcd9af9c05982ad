"""Tensors and a JSON card in one safetensors file, written whole or not at all, and read without trusting it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetgym._archive import atomic_write
from hetgym.errors import ArtefactError, require

if TYPE_CHECKING:
    from torch import Tensor

VERSION = 1
SIZE_LIMIT = 1 << 30
"""Largest file that is read [byte]."""


def save(path: str | Path, kind: str, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write tensors and a card; what equals gives equal bytes.

    Args:
        path: the file.
        kind: of file, such as ``hetgym-policy``.
        card: JSON values.
        tensors: by name.

    Raises:
        ArtefactError: the file cannot be written; what was there before is kept.
    """
    torch = require("safetensors.torch", "agents", "saving networks")
    text = json.dumps({**card, "format": kind, "version": VERSION}, sort_keys=True)
    content = torch.save({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, {"card": text})
    try:
        atomic_write(Path(path), lambda file: file.write(content))
    except OSError as error:
        raise ArtefactError(f"{path}: cannot be written ({error.strerror})") from error


def load(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read what :func:`save` wrote: the card and the tensors.

    Raises:
        ArtefactError: missing, damaged, or of another kind or version.
    """
    safe = require("safetensors", "agents", "loading networks").safe_open
    source = Path(path)
    try:
        if source.stat().st_size > SIZE_LIMIT:
            raise ArtefactError(f"{path}: larger than {SIZE_LIMIT >> 30} GiB")
        with safe(str(source), framework="pt") as file:
            card = json.loads((file.metadata() or {}).get("card", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, no mapping
    except ArtefactError:
        raise
    except FileNotFoundError:
        raise ArtefactError(f"{path}: no such file") from None
    except Exception as error:  # safetensors has an exception of its own
        raise ArtefactError(f"{path}: not a readable safetensors file ({error})") from error
    if not isinstance(card, dict) or card.get("format") != kind or card.get("version") != VERSION:
        raise ArtefactError(f"{path}: not a {kind} of format version {VERSION}")
    return card, tensors
