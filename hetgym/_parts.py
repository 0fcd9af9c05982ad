"""Folders of the package that a checkout keeps beside it."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent


def part(name: str) -> Path:
    """Folder ``hetgym/<name>``.

    In a checkout it is a symbolic link to a folder beside the package, or, where git made no links, a text file
    in the link's place; the folder itself is then returned.

    Args:
        name: ``agents``, ``baselines`` or ``configs``.
    """
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name
