"""Packages that load their names on first use."""

from __future__ import annotations

import importlib
import re

import pytest
from test_imports import MODULES, python

PACKAGES = [name for name, path in MODULES.items() if re.search(r"^lazy\(__name__\)$", path.read_text("utf-8"), re.M)]


def test_there_are_some() -> None:
    assert {"hetgym", "hetgym.agents", "hetgym.baselines", "hetgym.envs", "hetgym.planning"} <= set(PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_is_listed_once_and_there(name: str) -> None:
    package, listed = importlib.import_module(name), re.findall(r" as (\w+)$", MODULES[name].read_text("utf-8"), re.M)
    assert package.__all__ == sorted(listed) == sorted(set(listed)) and set(listed) <= set(dir(package))
    assert all(getattr(package, one) is not None for one in listed)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018


def test_type_checkers_see_the_names() -> None:
    """A name counts as exported, in a package with type hints, if it is imported under its own name."""
    for name in PACKAGES:
        for line in MODULES[name].read_text("utf-8").splitlines():
            if line.startswith("    from "):
                assert re.fullmatch(r"    from hetgym[\w.]* import (\w+) as \1", line), (name, line)


def test_importing_everything_of_a_package_loads_it() -> None:
    assert python("from hetgym.search import *; print(anytime.__name__, Search.__name__, walk.__name__)").split() == [
        "anytime",
        "Search",
        "hetgym.search.walk",
    ]
