"""Imports between the modules of hetgym: their order, cycles and longest chains.

Every import counts: at the top of a file, in a function, under ``TYPE_CHECKING``, or named by a string, as in
``"hetgym.envs.place.env"`` and ``"baselines.heft:heft"``. Importing a name from a package counts as an import of its
``__init__``.

Run ``python scripts/import_graph.py`` for figures, ``--violations`` for the imports that tests/test_imports.py refuses,
and ``--root DIRECTORY`` for another checkout.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[1]

ROOMS = (
    "errors", "weights", "graph", "device", "platform", "measurements", "topology", "costs", "profiling", "problem",
    "transfer", "schedule", "workloads",
    "sim", "planning", "search", "pipeline", "parallel", "sharding", "metrics", "baselines", "execution", "envs",
    "agents",
    "portfolio", "llm", "own_schedulers",
    "bench", "export", "scoring", "cli",
)  # fmt: skip
"""Top-level modules and packages, lowest first: each imports itself and those before it.

These parts are called rooms. Private modules and packages at the top level
(``hetgym._kernels``) are on the level of ``errors`` and may be imported by all rooms. ``hetgym`` itself, which exports
names of all rooms, and ``hetgym.__main__`` are above all of them.
"""


NAMED = re.compile(r"(hetgym\.)?(\w+(?:\.\w+)*)(:\w*)?")
"""A string that names a module, or something in it; without ``hetgym.`` only if a colon follows."""


@dataclass(frozen=True, order=True)
class Import:
    """One import of a module, or one use of a private attribute of an imported module.

    Attributes:
        source: dotted name of the module that imports.
        target: dotted name of the module that is imported.
        name: name that is imported from it; empty for the module itself.
    """

    source: str
    target: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}" + (f":{self.name}" if self.name else "")


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Files of all modules by dotted name.

    Args:
        root: root of a checkout, with or without symbolic links.
    """
    found = {}
    for folder, prefix in ((root / "hetgym", ()), (root / "agents", ("hetgym",)), (root / "baselines", ("hetgym",))):
        for path in sorted(folder.rglob("*.py")):
            if not any(above.is_symlink() for above in path.parents if above.is_relative_to(folder)):
                parts = (*prefix, *path.relative_to(folder.parent).with_suffix("").parts)
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(source: str, text: str, known: Mapping[str, Path]) -> set[Import]:
    """Imports of hetgym's modules in a module, anywhere in it.

    Args:
        source: dotted name of the module.
        text: its source.
        known: all modules.

    Raises:
        ValueError: an import is relative, or names a module that does not exist.
    """
    tree = ast.parse(text)
    found, names = set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "hetgym":
                    found.add(Import(source, alias.name))
                    names |= {alias.asname: alias.name} if alias.asname else {"hetgym": "hetgym"}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{source}, line {node.lineno}: relative import")
            origin = str(node.module)
            for alias in node.names if origin.partition(".")[0] == "hetgym" else ():
                inner = f"{origin}.{alias.name}"
                found.add(Import(source, inner) if inner in known else Import(source, origin, alias.name))
                names |= {alias.asname or alias.name: inner} if inner in known else {}
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            first, *rest = ast.unparse(node).split(".")
            target = names.get(first, "")
            while target and rest and f"{target}.{rest[0]}" in known:
                target = f"{target}.{rest.pop(0)}"
            if target and target != names[first]:
                found.add(Import(source, target))
            if target and rest and is_private(rest[0]):
                found.add(Import(source, target, rest[0]))
        elif isinstance(node, ast.Constant) and (target := named(node.value)) in known:
            around = f"{source}.".startswith(f"{target}.")  # the module itself, or a package that it is in
            found |= set() if around else {Import(source, target)}
    unknown = sorted(str(imported) for imported in found if imported.target not in known)
    if unknown:
        raise ValueError(f"no such module: {', '.join(unknown)}")
    return found


def named(value: object) -> str:
    """The module that a string may name, in full; empty if it names none."""
    parts = NAMED.fullmatch(value) if isinstance(value, str) else None
    return f"hetgym.{parts[2]}" if parts and (parts[1] or parts[3]) else ""


@cache
def all_imports(root: Path = ROOT) -> set[Import]:
    """Imports of all modules."""
    known = modules(root)
    return {found for name, path in known.items() for found in imports_of(name, path.read_text("utf-8"), known)}


def room(module: str) -> str:
    """Top-level part of a module's name; empty for the package itself."""
    return module.split(".")[1] if "." in module else ""


def level(module: str) -> int:
    """Position of a module's room, from 0; a room that :data:`ROOMS` lacks is above all others, like hetgym itself."""
    top = room(module)
    if is_private(top):
        return 0
    return ROOMS.index(top) if top in ROOMS else len(ROOMS)


def is_private(name: str) -> bool:
    """True if a name is private to its module or package."""
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def upward(imports: set[Import]) -> Iterator[Import]:
    """Imports in which a room imports from a higher one."""
    return (found for found in sorted(imports) if level(found.target) > level(found.source))


def private(imports: set[Import]) -> Iterator[Import]:
    """Imports of private modules and names of another room, except for the private modules at the top level."""
    for found in sorted(imports):
        inside = [*found.target.split(".")[2:], found.name]
        if room(found.source) != room(found.target) and any(map(is_private, inside)):
            yield found


def digraph(imports: set[Import]) -> nx.DiGraph:
    """Modules, with an edge from each to those that it imports."""
    return nx.DiGraph((found.source, found.target) for found in sorted(imports))


def circles(imports: set[Import]) -> list[list[str]]:
    """Sets of modules that import each other, directly or through others."""
    graph = digraph(imports)
    groups = [sorted(group) for group in nx.strongly_connected_components(graph)]
    return sorted(group for group in groups if len(group) > 1 or graph.has_edge(group[0], group[0]))


def longest_chain(imports: set[Import]) -> list[str]:
    """A longest sequence of modules in which each imports the next; modules in a cycle count as one."""
    graph = digraph(imports)
    condensed = nx.condensation(graph)
    return [" = ".join(sorted(condensed.nodes[group]["members"])) for group in nx.dag_longest_path(condensed)]


def violations(root: Path = ROOT) -> list[str]:
    """All violations of the rules, one line each, sorted."""
    imports = all_imports(root)
    rooms = {room(module) for module in modules(root)}
    lines = {f"room {name}" for name in rooms.symmetric_difference(ROOMS) if name and not name.startswith("_")}
    lines |= {f"upward {found.source} -> {found.target}" for found in upward(imports)}
    lines |= {f"private {found}" for found in private(imports)}
    for group in circles(imports):
        inside = (found for found in imports if {found.source, found.target} <= set(group))
        lines |= {f"circle {found.source} -> {found.target}" for found in inside}
    return sorted(lines)


def main() -> None:
    """Print figures or violations."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="a checkout")
    parser.add_argument("--violations", action="store_true", help="list what the rules forbid")
    arguments = parser.parse_args()
    if arguments.violations:
        print(*violations(arguments.root), sep="\n")
        return
    files, imports = modules(arguments.root), all_imports(arguments.root)
    chain, groups = longest_chain(imports), circles(imports)
    print("modules                     ", len(files))
    print("lines                       ", sum(len(path.read_text("utf-8").splitlines()) for path in files.values()))
    print("imports, module to module   ", len({(found.source, found.target) for found in imports}))
    print("longest chain               ", len(chain), "modules, circles counting as one")
    print("circles                     ", len(groups), "with", sum(map(len, groups)), "modules")
    print("private cross-room imports  ", sum(1 for _ in private(imports)))
    for number, group in enumerate(groups, 1):
        print(f"circle {number}:", *group)
    print("longest chain:", *chain, sep="\n  ")


if __name__ == "__main__":
    main()
