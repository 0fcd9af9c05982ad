"""Names of modules in lists of configurations, such as those that stay in 16 bits.

An entry is a module or one that contains it, a name with ``*``, or a regular expression behind ``re:``. Expressions of
files are not run: they are read as names with ``*``, whose search takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from typing import NamedTuple

from hetgym.errors import GraphError, shown

MOST_ENTRIES = 1 << 16
_MOST_PATTERNS, _LONGEST, _MOST_FORMS = 256, 512, 64
_PREFIX = re.compile(r"^(?:(?:model|language_model)[.?])*")
_TOKEN = re.compile(r"\\\.|\\d\+|\[0-9\]\+|\.[*+]|\.|\((?:\?:)?[\w|.]+\)|[\w-]+")
_WILD = {"\\.": ".", "\\d+": "*", "[0-9]+": "*", ".*": "*", ".+": "*", ".": "?"}


class Modules(NamedTuple):
    """Modules that entries of a list name."""

    exact: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]

    def hold(self, name: str) -> bool:
        """Whether the list names a module, such as ``layers.3.mlp.gate``, or one that contains it."""
        words = name.split(".")
        spans = (".".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1))
        return not self.exact.isdisjoint(spans) or any(one.match(name) for one in self.patterns)


def modules(entries: Iterable[object], where: str) -> Modules:
    """The modules that a list names.

    Raises:
        GraphError: an entry that is not a text, an expression of another form, or too many of them.

    >>> found = modules(["lm_head", "re:.*mlp.gate$", "model.layers.*.self_attn"], "config.json")
    >>> [found.hold(f"layers.3.{name}") for name in ("mlp.gate", "mlp.gate_proj", "self_attn.q_proj")]
    [True, False, True]
    """
    exact, globs = set(), []
    for entry in entries:
        if not isinstance(entry, str):
            raise GraphError(f"{where}: a list of modules has {shown(entry)}; it must be a text")
        if entry.startswith("re:"):
            globs += _globs(entry[3:], where)
        elif "*" in entry:
            globs.append(entry + "*")
        else:
            exact.add(_PREFIX.sub("", entry))
    if len(exact) > MOST_ENTRIES or len(globs) > _MOST_PATTERNS or any(len(glob) > _LONGEST for glob in globs):
        raise GraphError(
            f"{where}: a list of modules has {len(exact)} names and {len(globs)} patterns; at most {MOST_ENTRIES} and "
            f"{_MOST_PATTERNS} of {_LONGEST} characters are read"
        )
    patterns = tuple(re.compile(translate(_PREFIX.sub("", glob))) for glob in dict.fromkeys(globs))
    return Modules(frozenset(exact), patterns)


def _globs(expression: str, where: str) -> list[str]:
    """The names with ``*`` that a regular expression stands for."""
    inner = expression.removeprefix("^").removesuffix("$")
    forms, at = [""], 0
    while at < len(inner) and len(forms) <= _MOST_FORMS:
        token = _TOKEN.match(inner, at)
        if token is None:
            break
        text, at = token[0], token.end()
        choices = text.strip("(?:)").split("|") if text.startswith("(") else [_WILD.get(text, text)]
        forms = [form + choice for form in forms for choice in choices]
    if at < len(inner) or len(forms) > _MOST_FORMS or len(inner) > _LONGEST:
        raise GraphError(f"{where}: cannot read the expression {shown(expression)} in a list of modules")
    return [form if expression.endswith("$") else form + "*" for form in forms]


def listed(how: Mapping[str, object], keys: Iterable[str], where: str) -> Modules:
    """The modules that the lists of some keys name together; a key may be missing or null."""
    entries: list[object] = []
    for key in keys:
        value = how.get(key) or ()
        if not isinstance(value, list | tuple):
            raise GraphError(f"{where}: {key} is {shown(value)}; it must be a list of modules")
        entries += value
    return modules(entries, where)
