"""The workflow names jobs, files and folders that exist."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

import hetgym

ROOT = Path(__file__).parents[1]


def test_its_paths_exist() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    paths = set(re.findall(r"(?<![\w/])(?:tests|\.ci)/[\w/.]*\w", text))
    assert {"tests/graph", "tests/test_problem.py", ".ci/wheel", ".ci/pins"} <= paths
    assert not [path for path in sorted(paths) if not (ROOT / path).exists()]


def test_it_covers_systems_pythons_and_dependencies() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]
    matrix = jobs["test"]["strategy"]["matrix"]
    assert {system.partition("-")[0] for system in matrix["os"]} == {"ubuntu", "macos", "windows"}
    oldest = re.search(r'requires-python = ">=([\d.]+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert oldest is not None and min(matrix["python"], key=lambda version: int(version.split(".")[1])) == oldest[1]
    assert {row["versions"] for row in jobs["dependencies"]["strategy"]["matrix"]["include"]} == {"oldest", "newest"}
    assert {system.partition("-")[0] for system in jobs["package"]["strategy"]["matrix"]["os"]} >= {"windows", "macos"}


def test_it_runs_the_examples_of_other_libraries_in_the_versions_that_the_page_names() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]
    rows = {row["library"]: row["packages"] for row in jobs["adapters"]["strategy"]["matrix"]["include"]}
    page = (ROOT / "docs" / "how-to" / "use-another-library.md").read_text("utf-8")
    named = dict(re.findall(r"^\| .*`examples/(\w+?)_\w+\.py`.* \| ([\d.]+) \|$", page, re.MULTILINE))
    assert rows.keys() == named.keys() - {"pufferlib", "maskable"}  # by hand, and with the other tests
    for library, packages in rows.items():
        assert f"=={named[library]}" in packages


def test_agents_of_every_library_learn_in_a_job_of_its_own() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]
    commands = [step.get("run", "") for step in jobs["libraries"]["steps"]]
    (install,) = (command for command in commands if command.startswith("pip install"))
    assert "[agents,libraries]" in install and "-c " not in install  # constraints.txt pins a newer Gymnasium
    assert any(
        command.startswith("pytest") and command.endswith('"slow or not slow" tests/libraries') for command in commands
    )
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert not [name for name in ("all", "dev") for need in extras[name] if "libraries" in need]


def test_a_release_is_of_one_version() -> None:
    def check(tag: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, ROOT / "scripts" / "check_release.py", tag], capture_output=True, text=True
        )

    assert check(f"v{hetgym.__version__}").returncode == 0
    other = check("v99.0")
    assert other.returncode == 1 and len(other.stdout.splitlines()) == 3
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))["jobs"]
    assert any("check_release.py" in step.get("run", "") for step in jobs["distributions"]["steps"])


def test_forms_of_issues_are_readable() -> None:
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text("utf-8"))
        assert {"name", "description", "body"} <= form.keys() and all("label" in x["attributes"] for x in form["body"])
