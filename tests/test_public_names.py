"""README, documentation and examples use public names only: what the ``__all__`` of a public module lists.

README, tutorials and examples use promised names only: the table of the reference's first page.
"""

from __future__ import annotations

import ast
import json
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
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.py")])

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
        "hetgym.llm",
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


def blocks(path: Path) -> list[str]:
    """The Python code of a page, a notebook or an example."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        return ["".join(line for line in cell if not line.startswith(("!", "%"))) for cell in cells]
    return [text] if path.suffix == ".py" else re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def private(path: Path) -> set[str]:
    """Names that a page or an example uses and that are not public."""
    where = path.relative_to(ROOT).as_posix()
    return {f"{where}: {name}" for block in blocks(path) for name in used(block) if not is_public(name)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_use_public_names(path: Path) -> None:
    assert not private(path)


PROMISED = {
    module: re.findall(r"`(\w+)`", row)
    for module, row in re.findall(
        r"^\| `([\w.]+)` \| (.+) \|$", (ROOT / "docs/reference/index.md").read_text("utf-8"), re.MULTILINE
    )
}
"""Module -> names that users can rely on."""


def test_the_promised_names_are_few_and_exist() -> None:
    assert sum(map(len, PROMISED.values())) <= 91
    for module, promised in PROMISED.items():
        assert module in MODULES and promised == sorted(set(promised)) and set(promised) <= names(module)
    own = {name for name in names("hetgym") if not isinstance(getattr(hetgym, name), ModuleType)}
    assert set(PROMISED["hetgym"]) == own


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", *sorted(ROOT.glob("docs/tutorials/*.ipynb")), *sorted(ROOT.glob("examples/*.py"))],
    ids=lambda path: path.name,
)
def test_what_beginners_copy_is_promised(path: Path) -> None:
    found = {name for block in blocks(path) for name in used(block) if is_public(name) and name not in MODULES}
    assert not {name for name in found if not is_promised(name)}


def is_promised(name: str) -> bool:
    """True if a dotted name begins with a promised one."""
    rows = {f"{module}.{key}" for module, keys in PROMISED.items() for key in keys}
    return any(f"{name}.".startswith(f"{row}.") for row in rows)


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
