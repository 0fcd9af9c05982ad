"""Split policies as files; see :mod:`hetgym.agents.artefact`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hetgym.agents.artefact import Weights, load_pair, save_pair
from hetgym.agents.splits.planner import SplitPlanner
from hetgym.errors import ArtefactError

FORMAT = "hetgym-split-policy"


def save_planner(path: str | Path, weights: Weights, card: Mapping[str, Any]) -> None:
    """Write ``<path>.safetensors`` and ``<path>.json``.

    Args:
        path: without suffix.
        weights: of a :class:`~hetgym.agents.networks.proposal.ProposalNetwork`, by name.
        card: their origin, as JSON values.

    Raises:
        ArtefactError: the weights are not of such a network, or a file cannot be written.
    """
    SplitPlanner(weights, card)
    save_pair(path, FORMAT, weights, card)


def load_planner(path: str | Path) -> SplitPlanner:
    """Read what :func:`save_planner` wrote.

    Args:
        path: without suffix.

    Raises:
        ArtefactError: missing, damaged, or not a split policy; the message says which.
    """
    card, arrays = load_pair(path, FORMAT)
    try:
        return SplitPlanner(arrays, card)
    except ArtefactError as error:
        raise ArtefactError(f"{path}: {error}") from error
