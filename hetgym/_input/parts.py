"""Folders of the package that lie beside it in a checkout."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def part(name: str) -> Path:
    """Folder ``hetgym/<name>``, of ``agents``, ``baselines`` or ``configs``.

    In a checkout ``hetgym/<name>`` is a symbolic link to a folder beside the package. Where git could not make links,
    a text file replaces the link; the folder itself is then returned.
    """
    inside = PACKAGE / name
    return inside if inside.is_dir() else PACKAGE.parent / name
