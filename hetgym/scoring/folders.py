"""Folders that untrusted programs fill: held while their process lives, and removed whatever they contain."""

import contextlib
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "hetgym-score-"  # First letters of the names of these folders
_YOUNG = 60.0  # Age below which a folder may belong to a process that has not locked it yet [s]


def make_folder() -> tuple[Path, int]:
    """A folder for temporary files, and a descriptor that locks it until all that inherit it have closed it.

    Folders of processes that were killed are removed.
    """
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    _lock(descriptor)
    return folder, descriptor


def remove_folder(folder: Path) -> None:
    """Remove a folder with its content, of any depth and with any permissions; no process may use it meanwhile.

    Each folder inside gives its own folders to the topmost one and is removed. So neither paths nor the stack grow with
    the depth.

    Raises:
        OSError: something cannot be removed.
    """
    os.chmod(folder, 0o700)
    with _opened(str(folder)) as top:
        folders = _empty(top, top)
        while folders:
            name = folders.pop()
            os.chmod(name, 0o700, dir_fd=top)
            with _opened(name, top) as inner:
                folders += _empty(inner, top)
            os.rmdir(name, dir_fd=top)
    os.rmdir(folder)


def _empty(folder: int, top: int) -> list[str]:
    """Remove the files of an open folder and move its folders to the topmost one; returns their names there."""
    moved = []
    for name in os.listdir(folder):
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
        elif folder == top:
            moved.append(name)
        else:
            os.chmod(name, 0o700, dir_fd=folder)  # a folder that moves is written to: its ".." changes
            moved.append(secrets.token_hex(16))
            os.rename(name, moved[-1], src_dir_fd=folder, dst_dir_fd=top)
    return moved


@contextlib.contextmanager
def _opened(folder: str, within: int | None = None) -> Iterator[int]:
    """The descriptor of a folder; OSError if it is a link."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sweep(root: Path) -> None:
    """Remove folders of processes that were killed before they could do so: those that no process locks."""
    for folder in root.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and time.time() - found.st_mtime > _YOUNG:
                with _opened(str(folder)) as descriptor:
                    if _lock(descriptor):
                        remove_folder(folder)


def _lock(descriptor: int) -> bool:
    """Lock an open folder; False if another process has, or if the file system knows no locks."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
