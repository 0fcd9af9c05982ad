"""Place policies as files; see :mod:`hetgym.agents.artefact`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetgym._config import read
from hetgym.agents.artefact import Weights, load_pair, save_pair
from hetgym.agents.place.planner import PlacePlanner
from hetgym.agents.place.refinement import Refining
from hetgym.errors import ArtefactError, ConfigError

FORMAT = "hetgym-place-policy"


def save_planner(path: str | Path, weights: Weights, card: Mapping[str, Any]) -> None:
    """Write ``<path>.safetensors`` and ``<path>.json``.

    Args:
        path: without suffix.
        weights: of a :class:`~hetgym.agents.networks.place.PlaceNetwork`, by name.
        card: their origin, as JSON values; ``search`` holds settings of the search.

    Raises:
        ArtefactError: the weights are not of such a network, or a file cannot be written.
    """
    PlacePlanner(weights, card)
    save_pair(path, FORMAT, weights, card)


def load_planner(path: str | Path) -> PlacePlanner:
    """Read what :func:`save_planner` wrote.

    Args:
        path: without suffix.

    Raises:
        ArtefactError: missing, damaged, or not a place policy; the message says which.
    """
    card, arrays = load_pair(path, FORMAT)
    try:
        return PlacePlanner(arrays, card, read(Refining, card.get("search", {}), str(path), "search"))
    except (ArtefactError, ConfigError) as error:
        raise ArtefactError(f"{path}: {error}") from error
