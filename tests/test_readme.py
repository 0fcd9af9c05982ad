"""The README's Python runs as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


def test_there_are_blocks() -> None:
    assert len(BLOCKS) == 3


def test_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, block in enumerate(BLOCKS):
        exec(compile(block, f"README block {number}", "exec"), names)
    assert Path("plan.json").stat().st_size > 1000
