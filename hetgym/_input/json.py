"""Strict parsing of untrusted JSON; its depth is bounded before it is parsed."""

import json
import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from hetgym._input.files import Refusal
from hetgym.errors import shown

_BLANKS, _ESCAPES = re.compile(r"[ \t\r\n]*"), re.compile(r"\\*")
_NOUNS = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}

Key = TypeVar("Key", bound=Hashable)

_PIECE = 1 << 20  # characters that are looked at in one go

DEPTH = 64  # Deepest nesting that is accepted; hetgym's own documents nest at most ten deep


CONTAINERS = 4_000_000
"""Most lists and objects in a document: each takes 60 to 300 bytes of memory, but as few as two in the file."""


def parse(
    text: str, where: str, error: Refusal, containers: int = CONTAINERS, lenient: bool = False, several: bool = False
) -> Any:
    """Parse JSON; refuse repeated fields, NaN, infinity and text that cannot be encoded again.

    Args:
        text: the document.
        where: the file or argument that the document came from, for messages.
        error: exception to raise: the text is not such JSON, is nested deeper than :data:`DEPTH`, or has more lists and
            objects than ``containers``.
        containers: largest number of lists and objects that is accepted.
        lenient: accept NaN and infinity, and repeated fields, where the last is kept. Some programs write these into
            fields that hetgym ignores; all others must be checked.
        several: return a list of documents if there is more than one, as printers of protobuf streams write them.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise error(f"{where}: field {repeated(key for key, _ in pairs)!r} appears twice in an object")
        return found

    def refuse(word: str) -> float:
        raise error(f"{where}: {word} is not a JSON number")

    deepest, count = nesting(text)
    if deepest > DEPTH:
        raise error(f"{where}: nested too deeply")
    if count > containers:
        raise error(f"{where}: holds more than {containers} lists and objects")
    try:
        kind = json.JSONDecoder
        decoder = kind() if lenient else kind(object_pairs_hook=unique, parse_constant=refuse)
        document = _documents(decoder, text) if several else decoder.decode(text)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(document, ensure_ascii=False).encode()  # fails on half of a surrogate pair
    except error:
        raise
    except UnicodeEncodeError as cause:
        raise error(f"{where}: not JSON (half of a surrogate pair)") from cause
    except (ValueError, RecursionError) as cause:  # JSONDecodeError, or a number of thousands of digits
        raise error(f"{where}: not JSON ({cause})") from cause
    return document


def _documents(decoder: json.JSONDecoder, text: str) -> Any:
    """The only document of a text, or a list of all."""
    found: list[Any] = []
    at = 0
    while at < len(text) or not found:
        document, at = decoder.raw_decode(text, _matched(_BLANKS, text, at))
        found.append(document)
        at = _matched(_BLANKS, text, at)
    return found[0] if len(found) == 1 else found


def _matched(pattern: re.Pattern[str], text: str, at: int) -> int:
    """The end of what a pattern matches from a place on; the place itself if it matches nothing."""
    found = pattern.match(text, at)
    return found.end() if found else at


def nesting(text: str) -> tuple[int, int]:
    r"""Depth and number of the brackets that open outside strings, in the leading part of the text that is JSON.

    Both are found without recursion, piece by piece, so no text can exhaust a parser's stack or take much memory.

    >>> nesting('{"a[": [1, [2]], "\\"[": 3}')
    (3, 3)
    """
    deepest = count = depth = at = 0
    inside = 0  # 1 where a piece begins within a string
    while at < len(text):
        end = min(at + _PIECE, len(text))
        if text[end - 1] == "\\":  # an escape is not cut
            end = min(_matched(_ESCAPES, text, end) + 1, len(text))
        parts = text[at:end].replace("\\\\", "").replace('\\"', "").split('"')
        marks = np.frombuffer("".join(parts[inside::2]).encode("utf-8", "surrogatepass"), np.uint8)
        opening = (marks == ord("[")) | (marks == ord("{"))
        steps = opening.astype(np.int8) - ((marks == ord("]")) | (marks == ord("}"))).astype(np.int8)
        depths = depth + np.cumsum(steps, dtype=np.int64)
        deepest, count = max(deepest, int(depths.max(initial=0))), count + int(opening.sum())
        depth = int(depths[-1]) if len(depths) else depth
        inside, at = (inside + len(parts) - 1) % 2, end
    return deepest, count


def repeated(keys: Iterable[Key]) -> Key | None:
    """The first key that appeared before; None if all differ."""
    seen: set[Key] = set()
    for key in keys:
        if key in seen:
            return key
        seen.add(key)
    return None


def noun(value: object) -> str:
    """The noun for a JSON value, such as ``an object``."""
    if isinstance(value, Mapping):
        return _NOUNS[dict]
    return _NOUNS.get(type(value), "a number")


def spelled(value: object) -> str:
    """A JSON value as a message quotes it: a number or string in short form, otherwise its noun."""
    return shown(value) if isinstance(value, str | int | float) else noun(value)
