"""The one way in which hetgym compiles: Numba, cached on disk, IEEE arithmetic as written."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile a function of scalars and arrays; no fast-math, so results do not vary by machine."""
    return _compiled(function, counted=True, inline=False)


def lean(function: F) -> F:
    """As :func:`jit`, for functions that make and return no arrays: they need no reference counts.

    Counting the references of the dozens of arrays that a kernel of small steps takes costs more
    than its work.
    """
    return _compiled(function, counted=False, inline=False)


def inlined(function: F) -> F:
    """As :func:`lean`, for steps of a kernel that take most of its arrays: a call would pass hundreds of words."""
    return _compiled(function, counted=False, inline=True)


def _compiled(function: F, counted: bool, inline: bool) -> F:
    dispatcher = numba.njit(cache=True, error_model="numpy", nogil=True, _nrt=counted, forceinline=inline)(function)
    _tie_to_all_sources(dispatcher)
    return cast(F, dispatcher)


@cache
def sources_stamp() -> str:
    """Digest of every file of the package that holds a kernel."""
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(Path(__file__).parent, followlinks=True):
        folders.sort()
        for name in sorted(names):
            text = (Path(folder) / name).read_bytes() if name.endswith(".py") else b""
            if b"hetgym._jit" in text:
                digest.update(text)
    return digest.hexdigest()


def _tie_to_all_sources(dispatcher: Any) -> None:
    """Make a cached kernel stale as soon as any kernel changes, not only when its own file does.

    Kernels call each other across files and Numba inlines what they call, but by itself it looks at
    the caller's file alone: after an update it would go on running the old code.
    """
    index = getattr(dispatcher._cache, "_cache_file", None)
    if index is not None:
        index._source_stamp = (index._source_stamp, sources_stamp())
