"""Hook of the documentation site: formulas become MathML while the site is built, so that no page needs a script.

``pymdownx.arithmatex`` finds formulas, and latex2mathml converts them.
"""

from __future__ import annotations

import html
import re
from typing import Any

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Convert all formulas of a page."""
    return FORMULA.sub(_converted, content)


def _converted(found: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    display = "block" if found[2] == "[" else "inline"
    return f'<{found[1]} class="formula">{convert(html.unescape(found[3]), display=display)}</{found[1]}>'
