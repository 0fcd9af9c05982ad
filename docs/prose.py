"""Checks of what is written by hand: length, figures that no result vouches for, and how the project talks of itself.

    python docs/prose.py            # words of every page, and what is wrong

A figure with a unit has to stand in a marked place (:mod:`results`), in code, or in ``docs/results/allowed.yaml``,
which names the page, the text and the reason. Tables of measured numbers stand in marked places only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parent))
from results import MARK, ROOT, pages  # noqa: E402

LIMIT, README_LIMIT = 29_000, 700
"""Most words that are written by hand in docs/, and in the README; code blocks are left out."""

ALLOWED = ROOT / "docs" / "results" / "allowed.yaml"
UNIT = r"(?:%|×|x\b|(?:ns|[µu]s|ms|s|[kMG]B|[KMG]iB)\b|/s\b)"
FIGURE = re.compile(r"(?<![\w.`-])[-+]?\d[\d.,  ]*(?:to \d[\d.,]*)? ?" + UNIT + r"(?![\w`])")
HIDDEN = re.compile(
    r"```.*?```|~~~.*?~~~|`[^`\n]*`|<!--.*?-->|\]\([^)\s]*\)|\$\$.*?\$\$|\$[^$\n]+\$|^\s*<[^>]+>\s*$",
    re.DOTALL | re.MULTILINE,
)
"""Code, comments, targets of links and formulas."""

TALK = (
    r"\basked for\b",
    r"\bwe aim",
    r"\baim(ed)? (is|was|of the project)\b",
    r"\btargets? (is|are|of this project)\b",
    r"\btarget:",
    r"\bare from before\b",
    r"\bin an earlier (release|version)",
    r"\bnot measured again\b",
    r"\bstage \d",
    r"\bused to (be|take|give)\b",
    r"\bnow reached\b",
    r"\bevery row is reached\b",
)
"""The project's own history and targets, which belong in the changelog and in commits."""


def prose(text: str) -> str:
    """A page without code, marked places, comments and targets of links; lines stay where they are."""
    blank = MARK.sub(_lines, text)
    return HIDDEN.sub(_lines, blank)


def _lines(found: re.Match[str]) -> str:
    return " " + "\n" * found[0].count("\n")


def words(text: str) -> int:
    """Number of words outside code blocks and marked places."""
    text = re.sub(r"```.*?```", "", MARK.sub("", text), flags=re.DOTALL)
    return len(re.findall(r"\S*\w\S*", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)))


def allowed() -> dict[str, dict[str, str]]:
    """Page -> text -> the reason why it may stand there without a result."""
    found = yaml.safe_load(ALLOWED.read_text("utf-8")) if ALLOWED.is_file() else None
    return found or {}


def complaints(path: Path) -> Iterator[str]:
    """What is wrong with a page: line, text and what to do."""
    name = path.relative_to(ROOT).as_posix()
    text = prose(path.read_text("utf-8"))
    for reason in [*allowed().get("everywhere", {}), *allowed().get(name, {})]:
        text = text.replace(reason, re.sub(r"[^\n]", " ", reason))
    for number, line in enumerate(text.splitlines(), 1):
        for found in FIGURE.finditer(line):
            yield f"{name}:{number}: {found[0].strip()!r} comes from no result"
        if line.lstrip().startswith("|") and len(re.findall(r"\|\s*[-+]?\d[\d.,]*\s*(?=\|)", line)) > 1:
            yield f"{name}:{number}: a row of numbers outside a marked place"
        for phrase in TALK:
            if found := re.search(phrase, line, re.IGNORECASE):
                yield f"{name}:{number}: {found[0]!r} is about the project itself"


def main() -> int:
    """Run; see the top of this module."""
    counts = {path: words(path.read_text("utf-8")) for path in pages()}
    for path, count in sorted(counts.items(), key=lambda item: item[1]):
        print(f"{count:6d}  {path.relative_to(ROOT)}")
    docs = sum(count for path, count in counts.items() if "docs" in path.parts)
    wrong = [complaint for path in pages() for complaint in complaints(path)]
    print(*wrong, sep="\n")
    print(f"{docs} words in docs/ (at most {LIMIT}), {len(wrong)} complaints")
    return 1 if wrong or docs > LIMIT or counts[ROOT / "README.md"] > README_LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
