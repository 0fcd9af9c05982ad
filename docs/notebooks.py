"""Hook of the documentation site: ``<!-- notebook: first-agent -->`` shows a notebook of docs/tutorials."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).parent / "tutorials"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill a page's placeholders in."""
    return re.sub(r"<!-- notebook: ([\w-]+) -->", lambda found: shown(found[1]), markdown)


def shown(name: str) -> str:
    """A notebook as Markdown, its title first, then a line to download it."""
    cells = json.loads((TUTORIALS / f"{name}.ipynb").read_text("utf-8"))["cells"]
    title, *rest = [part for cell in cells for part in _parts(cell)]
    heading, _, text = title.partition("\n")
    return "\n\n".join([heading, f"[Download the notebook]({name}.ipynb){{ download }}", text.strip(), *rest])


def _parts(cell: dict[str, Any]) -> list[str]:
    text = "".join(cell["source"]).rstrip()
    if cell["cell_type"] == "markdown":
        return [text]
    printed = "".join(line for output in cell["outputs"] for line in output.get("text", ())).rstrip()
    return [f"```python\n{text}\n```", *([f"```text\n{printed}\n```"] if printed else [])]
