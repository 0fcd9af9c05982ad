"""The pages that say which files to touch name files and definitions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECIPES = tuple(sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/developers").glob("add-*.md")))
PAGES = ("CONTRIBUTING.md", *RECIPES)
EXAMPLES = {"baselines/longest_first.py", "docs/results/data/NAME.json"}
"""Files that a reader is told to write."""

TOPS = ("agents", "baselines", "benchmarks", "configs", "docs", "hetgym", "scripts", "studies", "tests")


def named(page: str) -> list[tuple[str, tuple[str, ...]]]:
    """Files and folders of the repository that a page names, each with the definitions in parentheses behind it."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)
    found: list[tuple[str, tuple[str, ...]]] = []
    for match in re.finditer(r"`([^`\n]+)`|\((`\w+`(?:,\s+`\w+`)*)\)", text):
        path, names = match[1], tuple(re.findall(r"`(\w+)`", match[2] or ""))
        if names and found:
            found[-1] = (found[-1][0], found[-1][1] + names)
        elif path and (path.split("/")[0] in TOPS or path.endswith(".md")) and re.fullmatch(r"[\w./-]+", path):
            found.append((path, ()))
    return [(path, names) for path, names in found if path not in EXAMPLES]


def definitions(path: Path) -> set[str]:
    """Names that a module assigns or defines at its top or in a class."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page: str) -> None:
    listed = named(page)
    assert len(listed) > 5
    missing = [path for path, _ in listed if "<" not in path and not (ROOT / path).exists()]
    assert not missing
    lost = [(path, name) for path, names in listed if names for name in names if name not in definitions(ROOT / path)]
    assert not lost


@pytest.mark.parametrize("page", RECIPES)
def test_every_way_to_extend_names_its_tests(page: str) -> None:
    assert any(path.startswith("tests/") and path.endswith(".py") for path, _ in named(page))


def test_every_way_to_extend_has_a_page() -> None:
    assert [Path(page).stem for page in RECIPES] == [
        "add-a-column",
        "add-a-cost-model",
        "add-a-runtime-switch",
        "add-a-scheduler",
        "add-an-importer",
    ]


def test_every_property_of_runtimes_and_every_engine_of_simulation_is_listed() -> None:
    text = (ROOT / "docs/developers/add-a-runtime-switch.md").read_text("utf-8")
    tree = ast.parse((ROOT / "hetgym/sim/runtime.py").read_text("utf-8"))
    (runtime,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Runtime")
    properties = [node.name for node in runtime.body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"]
    assert len(properties) == 4 and all(f"| `{name}` |" in text for name in properties)
    readers = {
        str(file.relative_to(ROOT))
        for folder in ("hetgym/sim", "hetgym/planning", "hetgym/search", "hetgym/envs/place", "hetgym/envs/dispatch")
        for file in (ROOT / folder).glob("*.py")
        if READS.search(file.read_text("utf-8"))
    }
    assert {file for file in readers if file not in text} <= UNLISTED


READS = re.compile(r"\bswitches\.(communication|transfers|dispatch|streams|work_conserving)\b")

UNLISTED = {
    "hetgym/planning/slack.py",  # lowers clocks of a plan that is there
    "hetgym/search/proposals.py",  # features of a network
    "hetgym/sim/progress.py",  # allocates for the loop
    "hetgym/sim/simulation.py",  # calls the engines
    "hetgym/sim/trace.py",  # holds the switches of a run
}
"""Files that read switches and are no engine."""
