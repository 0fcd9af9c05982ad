"""Check that a tag, the package, the citation and the changelog name the same version.

python scripts/check_release.py v0.1.0
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def stated() -> dict[str, str]:
    """The version that each file states; the changelog's is that of its first section, without a date or a remark."""
    patterns = {
        "hetgym/_version.py": r'^VERSION = "(.+)"$',
        "CITATION.cff": r"^version: (.+)$",
        "CHANGELOG.md": r"^## (\S+)",
    }
    found = {name: re.search(pattern, (ROOT / name).read_text("utf-8"), re.M) for name, pattern in patterns.items()}
    return {name: match[1] if match else "no version" for name, match in found.items()}


def main() -> int:
    if len(sys.argv) != 2 or not sys.argv[1].startswith("v"):
        print("usage: python scripts/check_release.py v<version>")
        return 2
    wrong = [f"{name} says {version}" for name, version in stated().items() if f"v{version}" != sys.argv[1]]
    print(*wrong or [f"all files say {sys.argv[1]}"], sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
