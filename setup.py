"""Packages of the distribution, found in the tree: hetgym/ and the folders beside it that belong inside.

In a checkout ``hetgym/agents`` and its like are symbolic links, for tools that read the sources; where git cannot
make links they are small text files. The build uses neither and maps the real folders. All else is in pyproject.toml.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.errors import SetupError

PARTS = ("agents", "baselines", "configs")
"""Folders that become ``hetgym.agents`` and so on."""

IGNORED = ("__pycache__", ".ruff_cache", ".mypy_cache", ".DS_Store")


def packages() -> list[str]:
    """Dotted names of all packages."""
    found = ["hetgym"]
    found += [f"hetgym.{name}" for name in find_packages("hetgym") if name.split(".")[0] not in PARTS]
    for part in PARTS:
        found += [f"hetgym.{part}", *(f"hetgym.{part}.{name}" for name in find_packages(part))]
    return found


def tree() -> Iterator[Path]:
    """Every file that the distribution must hold."""
    for folder in map(Path, ("hetgym", *PARTS)):
        if not folder.is_dir():
            raise SetupError(f"{folder}/ is missing: hetgym is built from a whole checkout or sdist")
        for path in folder.rglob("*"):
            inside = path.relative_to(folder).parts
            link = folder.name == "hetgym" and inside[0] in PARTS
            if path.is_file() and not link and not any(name in IGNORED for name in inside):
                yield path


class BuildAll(build_py):
    """Build from nothing, and refuse to leave files out."""

    def run(self) -> None:
        """Compare what is about to be built with the tree, then build it."""
        shipped = {Path(file) for _, _, file in self.find_all_modules()}
        shipped |= {Path(folder, name) for _, folder, _, names in self.data_files for name in names}
        left_out = sorted(path.as_posix() for path in set(tree()) - shipped)
        if left_out:
            raise SetupError(
                f"the build would leave out {', '.join(left_out)}; a module needs an __init__.py in its folder, another"
                " file a line under [tool.setuptools.package-data]; remove what belongs to neither"
            )
        if not self.editable_mode:
            shutil.rmtree(Path(self.build_lib, "hetgym"), ignore_errors=True)  # modules that are no more
        super().run()


setup(
    packages=packages(),
    package_dir={f"hetgym.{part}": part for part in PARTS},
    cmdclass={"build_py": BuildAll},
)
