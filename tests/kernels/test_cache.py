"""Where compiled kernels are kept if neither the installation nor the home folder can be written."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = "from hetgym._kernels.records import width\nimport hetgym, os; print(os.environ.get('NUMBA_CACHE_DIR'))\n"
NOWHERE = (
    "import numba.core.caching as c\n"
    "for name in dir(c):\n"
    "    if name.endswith(('InTreeCacheLocator', 'UserWideCacheLocator')):\n"
    "        getattr(c, name).ensure_cache_path = lambda self: (_ for _ in ()).throw(PermissionError('read-only'))\n"
)
"""What Numba finds in a read-only installation without a home."""


def run(script: str, temporary: Path, **options: object) -> tuple[str, str]:
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    environment |= {"TMPDIR": str(temporary), "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, **options)  # type: ignore[call-overload]
    return done.stdout.strip(), done.stderr


def test_a_temporary_folder_of_this_user_is_used_and_named_once(tmp_path: Path) -> None:
    folder, said = run(NOWHERE + SCRIPT, tmp_path)
    assert folder == str(tmp_path / f"hetgym-{os.getuid()}")
    assert said.count("compiled kernels are kept in") == 1 and "NUMBA_CACHE_DIR" in said
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


@pytest.mark.parametrize("what", ["link", "open"])
def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path, what: str) -> None:
    """Cached kernels run as they are found."""
    name = tmp_path / f"hetgym-{os.getuid()}"
    if what == "link":
        (tmp_path / "elsewhere").mkdir()
        name.symlink_to(tmp_path / "elsewhere")
    else:
        name.mkdir()
        name.chmod(0o777)
    folder, _ = run(NOWHERE + SCRIPT, tmp_path)
    assert folder != str(name) and Path(folder).parent == tmp_path and not list(name.iterdir())


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user")
def test_another_user_than_the_installations(tmp_path: Path) -> None:
    """As in a container: the installation is root's, and the user has no home."""
    user = 65534
    try:
        subprocess.run([sys.executable, "-c", "import hetgym"], user=user, cwd="/", check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("others cannot read this installation")
    temporary = tmp_path / "t"
    temporary.mkdir()
    os.chown(temporary, user, user)
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    work = (
        "from hetgym.workloads import textbook\nprint(hetgym.baselines.get('heft')(textbook('topcuoglu')).makespan)\n"
    )
    found, said = run(SCRIPT + work, temporary, user=user, cwd="/")
    assert found.split() == [str(temporary / f"hetgym-{user}"), "80.0"]
    assert said.count("compiled kernels are kept in") == 1
    assert list((temporary / f"hetgym-{user}").rglob("*.nbc"))
