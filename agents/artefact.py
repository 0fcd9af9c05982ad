"""Files of networks: weights in safetensors, with a JSON card inside or beside; reading them needs no PyTorch.

Runs keep policies and checkpoints as one file each, with the card inside. Shipped policies have their card in a file
beside the weights, where people can read it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from hetgym._input.artefacts import Array, Kind, check_format, load_tensors, save_tensors
from hetgym._input.files import as_path, read_text, write_bytes
from hetgym._input.json import parse
from hetgym.errors import ArtefactError, ConfigError, shown

VERSION = 1
CARD_LIMIT = 1 << 20  # Longest card that is read, and longest table of a policy's tensors [byte]
WEIGHTS_LIMIT = 64 << 20
"""Largest size of a policy's weights [byte]: 17 million numbers, a thousand times as many as any shipped one has."""

HUB_WEIGHTS, HUB_CARD = "model.safetensors", "config.json"
"""Names of the two files in a folder that is laid out as repositories of models on the Hugging Face Hub are."""

NETWORK_FORMAT = "hetgym-policy"  # Format of the policies that `hetgym train` writes, which PyTorch runs
Weights = Mapping[str, npt.NDArray[Any]]  # Arrays by name
P = TypeVar("P", covariant=True)


def policy_file(*formats: str) -> Kind:
    """The kind of file that holds a policy of one of some formats: float32 weights, all finite."""

    def declared(card: Mapping[str, Any], names: Collection[str], where: str) -> dict[str, Array]:
        check_format(card, where, ArtefactError, VERSION, *formats)
        return {name: Array("float32", legal="finite") for name in names}

    return Kind(ArtefactError, declared, header_limit=CARD_LIMIT, limit=WEIGHTS_LIMIT)


def check_recipe(card: Mapping[str, Any]) -> None:
    """Check that a card's recipe and the recipe's arguments, if any, are mappings; ArtefactError otherwise."""
    recipe = card.get("recipe", {})
    if not isinstance(recipe, dict) or not isinstance(recipe.get("arguments", {}), dict):
        raise ArtefactError(f"the recipe of the card is {shown(recipe)}, not fields with arguments among them")


def save(path: str | Path, kind: Kind, form: str, card: Mapping[str, Any], arrays: Weights) -> None:
    """Write arrays and a card, to which the format is added, to one file; equal content serialises to equal bytes.

    Raises:
        ArtefactError: the file cannot be written; an earlier file at the path is kept.
    """
    save_tensors(Path(path), arrays, kind.error, {**card, "format": form, "version": VERSION})


def load(path: str | Path, kind: Kind) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read what :func:`save` wrote: the card and the arrays.

    Raises:
        ArtefactError: missing, damaged, or of another kind or version; the message says which.
    """
    return load_tensors(as_path(path, "a policy or checkpoint", kind.error), kind)


def save_pair(path: str | Path, form: str, weights: Weights, card: Mapping[str, Any]) -> None:
    """Write ``<path>.safetensors``, in float32, and ``<path>.json``, the card with the format added.

    Raises:
        ArtefactError: a file cannot be written.
    """
    arrays = {name: np.ascontiguousarray(weight, np.float32) for name, weight in sorted(weights.items())}
    save_tensors(Path(f"{path}.safetensors"), arrays, ArtefactError)
    write_bytes(Path(f"{path}.json"), card_text({**card, "format": form, "version": VERSION}), ArtefactError)


def load_pair(path: str | Path, *formats: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read what :func:`save_pair` wrote, or a folder in the Hub's layout: the card and the weights.

    Raises:
        ArtefactError: missing, damaged, or of another format or version; the message says which.
    """
    stem = as_path(path, "a policy", ArtefactError)
    weights, page = Path(f"{stem}.safetensors"), Path(f"{stem}.json")
    if stem.is_dir():
        weights, page = stem / HUB_WEIGHTS, stem / HUB_CARD
    card = read_card(page)
    check_format(card, str(page), ArtefactError, VERSION, *formats)
    return load_tensors(weights, policy_file(*formats), card)


def read_card(page: Path) -> dict[str, Any]:
    """Read a card; {} for JSON that is not an object. Raises ArtefactError: missing, too long, or not JSON."""
    card = parse(read_text(page, CARD_LIMIT, ArtefactError), str(page), ArtefactError)
    return card if isinstance(card, dict) else {}


def card_text(card: Mapping[str, Any]) -> bytes:
    """A card as the bytes of a file that people can read; ArtefactError for infinite numbers and NaN."""
    try:
        return (json.dumps(card, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()
    except ValueError as error:
        raise ArtefactError("the card holds a number that is infinite or NaN, which JSON has no form for") from error


@dataclass(frozen=True)
class PolicyFiles(Generic[P]):
    """The files of policies of one format: ``<path>.safetensors`` with the weights, ``<path>.json`` with the card."""

    form: str  # name of the format
    # function from weights and card to the policy; raises ArtefactError for weights of another network
    make: Callable[[Weights, Mapping[str, Any]], P]
    prefix: str = ""  # of the names of the weights that are kept

    def save(self, path: str | Path, weights: Weights, card: Mapping[str, Any]) -> None:
        """Write the two files; ``path`` is without suffix.

        Raises:
            ArtefactError: the weights are not of such a network, or a file cannot be written.
        """
        self.make(weights, card)
        save_pair(path, self.form, {name: w for name, w in weights.items() if name.startswith(self.prefix)}, card)

    def load(self, path: str | Path) -> P:
        """Read what :meth:`save` wrote.

        Raises:
            ArtefactError: missing, damaged, or not such a policy; the message says which.
        """
        return read_policy(path, self)


def read_policy(path: str | Path, *files: PolicyFiles[P]) -> P:
    """Read a policy of one of some formats; for arguments and errors see :meth:`PolicyFiles.load`."""
    card, weights = load_pair(path, *(kind.form for kind in files))
    try:
        return next(kind.make(weights, card) for kind in files if kind.form == card["format"])
    except (ArtefactError, ConfigError) as error:
        raise ArtefactError(f"{path}: {error}") from error
