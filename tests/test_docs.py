"""Python code on tutorial pages runs as printed, the blocks of a page one after the other."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.commands import ask

import hetgym.envs
from hetgym.agents.algorithms import ALGORITHMS
from hetgym.planning import names, unregister
from hetgym.sim import PRESETS

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (
    "index", "environments", "simulator", "recipes", "benchmarking", "training", "policies", "language-models",
    "clusters", "pipelines", "traces", "score", "exports", "papers", "energy",
    "adapters",
)  # fmt: skip

LONG = ("training", "clusters", "exports", "score")

COMMANDS = ("exports",)
"""Pages whose commands run, too."""


@pytest.fixture(autouse=True)
def tables() -> Iterator[None]:
    """Remove the entries that a page adds to tables."""
    known = names()
    kept = [(table, dict(table)) for table in (PRESETS, ALGORITHMS)]
    yield
    for name in set(names()) - set(known):
        unregister(name)
    for table, before in kept:
        table.clear()
        table.update(before)


@pytest.mark.filterwarnings("ignore:.isinstance.treespec:FutureWarning")  # within torch.onnx
@pytest.mark.parametrize("page", [pytest.param(p, marks=pytest.mark.slow) if p in LONG else p for p in PAGES])
def test_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page in ("adapters", "environments", "training"):
        pytest.importorskip("stable_baselines3")
    if page == "language-models":
        pytest.importorskip("transformers")
    if page == "papers":
        for module in ("matplotlib", "pandas", "scipy"):
            pytest.importorskip(module)
    if page == "traces":
        pytest.importorskip("torch")
    if page == "exports":
        for module in ("onnxruntime", "onnxscript", "transformers"):
            pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    wanted = "python|bash" if page in COMMANDS else "python"
    blocks = re.findall(rf"```({wanted})\n(.*?)```", (DOCS / f"{page}.md").read_text("utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, object] = {"__name__": page}
    for number, (language, block) in enumerate(blocks):
        if language == "bash":
            for line in block.replace("\\\n", "").splitlines():
                done = ask(*shlex.split(line)[1:], cwd=tmp_path)
                assert done.returncode == 0, done.stderr
            continue
        exec(compile(block, f"docs/{page}.md, block {number}", "exec", dont_inherit=True), names)


def test_manuals_are_complete() -> None:
    pages = "".join(path.read_text("utf-8") for path in sorted(DOCS.glob("het*.md")))
    for name in hetgym.envs.__all__:
        if name.endswith("_FEATURES"):
            assert f"<!-- features: {name} -->" in pages
        if name.endswith("Env"):
            assert f"<!-- manual: {name} -->" in pages
