"""Omissions of importers: said once, kept in the notes of the result, or refused."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

from hetgym._input.files import Refusal
from hetgym.errors import HetgymWarning, sentence


def left_out(where: str, notes: Sequence[str], strict: bool, error: Refusal) -> None:
    """Warn of what an importer left out, in one sentence, or refuse to leave it out.

    Args:
        where: the file, or what else was read.
        notes: what was left out and can change a result, a sentence each; without any nothing happens.
        strict: raise instead of warning.
        error: exception to raise.

    Raises:
        HetgymError: of type ``error``: there are notes, and ``strict`` is set.

    Warns:
        HetgymWarning: there are notes, and ``strict`` is not set.
    """
    if not notes:
        return
    text = f"{where}: {'; '.join(notes)}"
    if strict:
        raise error(f"{text}; strict=True refuses this")
    warnings.warn(sentence(text), HetgymWarning, stacklevel=outside())


def outside() -> int:
    """The ``stacklevel`` with which a warning of the calling function names the first caller outside hetgym."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "hetgym":
        level, frame = level + 1, frame.f_back
    return level
