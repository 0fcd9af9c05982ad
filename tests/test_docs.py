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
PAGES = sorted(
    path.relative_to(DOCS).with_suffix("").as_posix()
    for path in DOCS.rglob("*.md")
    if "```python\n" in path.read_text("utf-8")
)

LONG = (
    "how-to/export-a-plan",
    "how-to/plan-a-training-step",
    "how-to/run-a-plan",
    "how-to/score-a-program",
    "how-to/train-and-resume",
)

COMMANDS = ("how-to/export-a-plan",)
"""Pages whose commands run, too."""

NEEDS = {
    "explanation/environments": ("stable_baselines3",),
    "how-to/compare-schedulers": ("matplotlib", "pandas", "scipy"),
    "how-to/export-a-plan": ("onnxruntime", "onnxscript", "transformers"),
    "how-to/import-traces": ("torch",),
    "how-to/plan-a-language-model": ("transformers",),
    "how-to/run-a-plan": ("torch",),
    "how-to/train-and-resume": ("stable_baselines3", "sb3_contrib"),
    "how-to/train-my-own-network": ("stable_baselines3", "torch_geometric"),
    "how-to/use-another-library": ("stable_baselines3", "sb3_contrib"),
}
"""Page -> the packages without which it is skipped."""


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
    for module in NEEDS.get(page, ()):
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
    pages = "".join(path.read_text("utf-8") for path in sorted((DOCS / "reference").glob("het*.md")))
    for name in hetgym.envs.__all__:
        if name.endswith("_FEATURES"):
            assert f"<!-- features: {name} -->" in pages
        if name.endswith("Env"):
            assert f"<!-- manual: {name} -->" in pages
