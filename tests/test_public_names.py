"""README, documentation and examples use public names only: what the ``__all__`` of a public module lists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import hetgym
from hetgym.errors import MissingExtra

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.py")])

MODULES = frozenset(
    {
        "hetgym",
        *(f"hetgym.{name}" for name in hetgym.__all__ if isinstance(getattr(hetgym, name), ModuleType)),
        "hetgym.agents.networks",
        "hetgym.baselines.parallel",
        "hetgym.baselines.pipeline",
        "hetgym.agents.sb3",
        "hetgym.device",
        "hetgym.envs.masked",
        "hetgym.envs.puffer",
        "hetgym.envs.sb3",
        "hetgym.errors",
        "hetgym.export",
        "hetgym.execution",
        "hetgym.graph.generators",
        "hetgym.agents.distributed",
        "hetgym.graph.transforms",
        "hetgym.measurements",
        "hetgym.metrics",
        "hetgym.planning",
        "hetgym.platform",
        "hetgym.problem",
        "hetgym.schedule",
        "hetgym.topology",
        "hetgym.scoring",
    }
)
"""Modules to import from: those that hetgym lists, and these by their path."""


def names(module: str) -> set[str]:
    """Public names of a public module: what it lists or, for a module without a list, defines."""
    try:
        loaded = import_module(module)
        if hasattr(loaded, "__all__"):
            return set(loaded.__all__)
        file = str(loaded.__file__)
    except MissingExtra:  # its library is not installed
        file = str(find_spec(module).origin)  # type: ignore[union-attr]
    tree = ast.parse(Path(file).read_text("utf-8"))
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in found if not name.startswith("_")}


def used(text: str) -> Iterator[str]:
    """Dotted names of hetgym that a text uses, without attributes: ``hetgym.sim.Loss`` and not its ``.at``."""
    tree = ast.parse(text)
    aliases = {"hetgym": "hetgym"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("hetgym."):
                    yield alias.name
                    aliases |= {alias.asname: alias.name} if alias.asname else {}
        elif isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("hetgym."):
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, dot, rest = ast.unparse(node).partition(".")
            if first in aliases and re.fullmatch(r"[\w.]+", rest):
                yield f"{aliases[first]}{dot}{rest}"


def is_public(name: str) -> bool:
    """True if the first name after the module in a dotted name is public."""
    module = ""
    for part in name.split("."):
        inner = f"{module}.{part}".lstrip(".")
        if inner not in MODULES:
            return bool(module) and part in names(module)
        module = inner
    return True


def private(path: Path) -> set[str]:
    """Names that a page or an example uses and that are not public."""
    text = path.read_text("utf-8")
    blocks = [text] if path.suffix == ".py" else re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    where = path.relative_to(ROOT).as_posix()
    return {f"{where}: {name}" for block in blocks for name in used(block) if not is_public(name)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_use_public_names(path: Path) -> None:
    assert not private(path)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_public_modules_give_what_they_list(module: str) -> None:
    listed = names(module)
    try:
        loaded = import_module(module)
    except MissingExtra as missing:
        pytest.skip(str(missing))
    assert listed and not [name for name in listed if name.startswith("_") or not hasattr(loaded, name)]


def test_what_is_private_is_seen() -> None:
    text = """
import hetgym, numpy.core
from hetgym import bench as b, _kernels
from hetgym.sim import Runtime, kernel
from hetgym.sim.kernel import run
import hetgym.bench.runner as runner
b.run; b.runner.warm_up; hetgym.sim.Loss(device=1).at; hetgym._input.parts.part("agents"); hetgym.problem.Problem.build
"""
    found = {name for name in used(text) if not is_public(name)}
    assert found == {
        "hetgym._input",
        "hetgym._kernels",
        "hetgym._input.parts",
        "hetgym._input.parts.part",
        "hetgym.bench.runner",
        "hetgym.bench.runner.warm_up",
        "hetgym.sim.kernel",
        "hetgym.sim.kernel.run",
    }
