"""Docstrings, messages and pages are free of phrases that a native technical editor would change."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for room in ("hetgym", "agents", "baselines") for path in (ROOT / room).rglob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

OBJECT = r"(?<![a-z,'`] )(?<![a-z,'`]\n)(?<![a-z,'`]\n {4})(?<![a-z,'`]\n {8})\b"
"""Not behind a verb or a comma, where a clause with "what" is an object."""

PHRASES = {
    r"(?<![Tt]here )\bis no (?!longer|more|less|later|earlier|worse|better|slower|faster|such)\w": "is not a",
    r"(?<![Tt]here )\b(is|are) none\b": "name what it is not",
    r"that there (is|are) not\b": "that does not exist",
    r"\bstands? twice\b": "duplicate",
    r"(?<!times as )\bso (many|much)\b(?! (\w+ ){0,3}that)": "a number, or `count`",
    r"\bMasked are\b": "... are masked",
    r"\b[Hh]ave (what|the|a|all) [\w ]{1,30} (be|stay)\b": "an imperative",
    r"\bbr(ing|ings|ought) [\w ]{0,30}up to date": "updated",
    r"\btakes of\b": "the share that it occupies",
    r"gets there what|however it is\b|\bby so much\b|\bothers than\b": "say it directly",
    r"at most [^.]{0,24} (is|are) left to": "gap",
    r"(?<=[a-z,;] )goes on\b(?! [a-z]*ing)(?! while)": "continues",
    r"\bsaid in\b": "documented in",
    r"\bof which\b": "a second sentence, or 'whose'",
    r"\bcounts? as (?!equal\b|optimal\b|seen\b|two\b|best\b|it\b|\d)": "is treated as, is priced as, is charged as",
    r"\bas (it is|they are)\b(?! (now|not|in|on|to|for|by)\b)(?! [a-z]+(ed|en|de|wn|id|et|un|ne|ut|nt)\b)": "unchanged",
    OBJECT + r"[Ww]hat (?!was|has|does)[a-z]{2,}s\b(?! where)": "the noun that is meant",
}
"""Phrase -> what to write instead."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every string of a module, or of a page outside its code."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        yield 1, re.sub(r"```.*?```", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


@pytest.mark.parametrize("paths", [SOURCES, PAGES], ids=["sources", "pages"])
def test_english(paths: list[Path]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line + text.count(chr(10), 0, match.start())}: {match[0]!r}: {better}"
        for path in paths
        for line, text in texts(path)
        for phrase, better in PHRASES.items()
        for match in re.finditer(phrase, text)
    ]
    assert not found, "\n".join(["", *found])


def test_a_phrase_is_found() -> None:
    """The examples of what to change, and near misses that are fine."""
    wrong = (
        "'x' is no time", "it is none of the problem's", "the GPU stands twice", "Have at least so many threads",
        "steps of which each waits", "a lane counts as few", "the graph as it is, and its parts", "What ships is",
    )  # fmt: skip
    fine = (
        "there is no time", "it is no longer than", "there is none", "so many that", "ratios of 0 count as 1",
        "made as they are needed", "and says what limits it",
    )  # fmt: skip
    assert all(any(re.search(phrase, text) for phrase in PHRASES) for text in wrong)
    assert not any(re.search(phrase, text) for phrase in PHRASES for text in fine)
