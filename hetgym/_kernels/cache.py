"""Kernels on disk: where they are kept, and when they are stale.

Numba keeps compiled functions beside their source or in the user's folder of caches. Where neither can be written, as
in containers that run as another user, they go to a temporary folder of this user.
"""

import hashlib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba

from hetgym._input.parts import PACKAGE, part
from hetgym._kernels.internals import fit

FOLDER = "NUMBA_CACHE_DIR"  # Variable of the environment that names the folder of compiled functions

_IMPORT = re.compile(rb"^from (hetgym[\w.]*) import", re.MULTILINE)


def compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Numba's dispatcher of a function, with a cache on disk if there is any place for one."""
    if not fit() and not _keyed_folder():
        return numba.njit(**options)(function)
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # "no locator available"
        dispatcher = numba.njit(cache=_temporary_folder(), **options)(function)
    if fit():
        _tie_to_all_sources(dispatcher)
    return dispatcher


@cache
def _temporary_folder() -> bool:
    """Let Numba use a temporary folder from now on, as child processes will, and say so; False if there is none."""
    for folder in (Path(tempfile.gettempdir()) / f"hetgym-{_user()}", None):
        with suppress(OSError):
            found = Path(tempfile.mkdtemp(prefix="hetgym-")) if folder is None else _own(folder)
            _use(found)
            _tell(f"neither the installation nor the home folder can be written; compiled kernels are kept in {found}")
            return True
    _tell("no folder can be written: kernels are compiled again in every process")
    return False


@cache
def _keyed_folder() -> bool:
    """Let Numba use a folder for exactly these sources: without its internals nothing else tells what is stale."""
    given, key = os.environ.get(FOLDER), sources_stamp()[:16]
    if given and Path(given).name == key:  # the parent's choice
        return True
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for base in (Path(given) if given else Path(home) / "hetgym", Path(tempfile.gettempdir()) / f"hetgym-{_user()}"):
        with suppress(OSError):
            _use(_own(base / key))
            return True
    return False


def _own(folder: Path) -> Path:
    """Make a folder that only this user can write, since cached kernels are run unchecked.

    Raises:
        OSError: it cannot be made, or belongs to somebody else.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = os.lstat(folder)
    shared = hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o022)
    if not stat.S_ISDIR(found.st_mode) or shared or not os.access(folder, os.W_OK):
        raise PermissionError(str(folder))
    return folder


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else "user"


def _use(folder: Path) -> None:
    os.environ[FOLDER] = numba.config.CACHE_DIR = str(folder)


def _tell(message: str) -> None:
    if sys.stderr is not None:
        print(f"hetgym: {message}; {FOLDER} names another folder", file=sys.stderr, flush=True)


@cache
def sources_stamp() -> str:
    """Digest of every file of the package that holds a kernel, and of every file that such a file imports names from.

    The imported files hold constants, such as column numbers, that are compiled into kernels.
    """
    texts: dict[str, bytes] = {}
    inside = [PACKAGE, part("agents"), part("baselines")]
    for root in (root for root in inside if root == PACKAGE or not root.is_relative_to(PACKAGE)):
        for folder, _, names in os.walk(root, followlinks=True):
            for name in names:
                if name.endswith(".py"):
                    path = Path(folder) / name
                    texts[module_name(path.relative_to(root.parent))] = path.read_bytes()
    kernels = {module for module, text in texts.items() if b"hetgym._kernels.jit" in text}
    named = {found.decode() for module in kernels for found in _IMPORT.findall(texts[module])}
    digest = hashlib.sha256()
    for module in sorted(kernels | (named & texts.keys())):
        digest.update(texts[module])
    return digest.hexdigest()


def module_name(path: Path) -> str:
    """Dotted name of a module, from its path relative to the folder that holds the package."""
    parts = path.with_suffix("").parts
    parts = parts if parts[0] == PACKAGE.name else (PACKAGE.name, *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _tie_to_all_sources(dispatcher: Any) -> None:
    """Make a cached kernel stale as soon as any kernel changes, not only when its own file does.

    Kernels call each other across files, and Numba inlines the callees. By itself Numba checks only the caller's
    file, so after an update it would go on running old code. The digest is therefore part of the cache's version.
    The version is compared before anything else of a cache index is read: the rest of the index refers to classes
    that may have moved since it was written.
    """
    index = getattr(dispatcher._cache, "_cache_file", None)
    if index is not None:
        index._version = f"{index._version} {sources_stamp()}"
        index.save = partial(save_kernel, index)
        index._load_index = partial(known_kernels, index._load_index)
        save = dispatcher._cache.save_overload

        def save_if_possible(signature: Any, result: Any) -> None:
            with suppress(OSError):  # the folder cannot be written, or the disk is full: the kernel works all the same
                save(signature, result)

        dispatcher._cache.save_overload = save_if_possible


def known_kernels(load: Callable[[], dict[Any, str]]) -> dict[Any, str]:
    """The kernels of an index; none if one of them is for a type that this process cannot import.

    A program may have kernels compiled for records of its own. Numba reads an index as a whole, so other programs
    could no longer read it.

    Args:
        load: reads the index: types, processor and code of each kernel -> its file.
    """
    try:
        return load()
    except (ImportError, AttributeError):
        return {}


def save_kernel(index: Any, key: Any, data: Any) -> None:
    """Save a compiled kernel in a file that is named by what it was compiled from, and then in its index.

    Numba numbers the files. Two processes that compile the same function for different types at the same time give both
    the same number, and from then on the index of one names the code of the other.

    Args:
        key: types, processor and code of the kernel.
    """
    made_from = hashlib.sha256(index._dump((index._version, index._source_stamp, key))).hexdigest()
    name = f"{index._index_name.removesuffix('.nbi')}.{made_from[:24]}.nbc"
    index._save_data(name, data)
    index._save_index(index._load_index() | {key: name})
