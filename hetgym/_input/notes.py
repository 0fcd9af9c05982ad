"""Omissions of importers: said once, kept in the notes of the result, or refused."""

import sys
import warnings
from collections.abc import Sequence

from hetgym._input.files import Refusal
from hetgym.errors import HetgymWarning, sentence


def left_out(where: str, notes: Sequence[str], strict: bool, error: Refusal) -> None:
    """Warn (HetgymWarning) of what an importer left out of ``where`` and can change a result, or refuse it.

    Nothing happens without notes; with ``strict`` they are an ``error``.
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
