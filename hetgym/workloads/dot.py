"""Task graphs in DOT, the language of Graphviz: a directed graph with costs of nodes and weights of edges.

The reader knows nodes, edges and chains of edges, defaults (``node [cost=3]``), comments and quoted names; it refuses
undirected graphs, subgraphs, ports and HTML. Numbers may have an exponent, as in ``1e-5``, for which the language
itself wants quotes. Attributes are those of :mod:`hetgym.workloads.from_networkx`, in small or capital letters; those
with which Graphviz draws are ignored, and the problem's notes name all others. A cost for each device is a quoted list,
such as ``cost="3, 5.5, inf"``. Nodes are operators in the order in which the file names them first.

Source: graphviz.org/doc/info/lang.html.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hetgym._input.files import read_text
from hetgym.errors import ProblemError, shown
from hetgym.problem import Problem
from hetgym.workloads.documents import LARGEST
from hetgym.workloads.from_networkx import from_networkx
from hetgym.workloads.lines import MOST_OPERATORS, as_number

LIMIT_BYTES = 8 << 20  # Longest text that is accepted: the graph takes up to a hundred times as much memory [byte]

_READ = {"cost", "weight", "bytes", "kind"}
_DRAWN = re.compile(
    r"(arrow|color|edge(href|target|tooltip|url)|fill|font|head|image|label|tail).*|_background|area|class|comment"
    r"|constraint|decorate|dir|distortion|fixedsize|gradientangle|group|height|href|id|layer|len|lhead|lp|ltail|margin"
    r"|minlen|nojustify|ordering|orientation|penwidth|peripheries|pin|pos|radius|rects|regular|root|samehead|sametail"
    r"|samplepoints|shape|shapefile|showboxes|sides|skew|sortv|style|target|tooltip|url|vertices|width|xlabel|xlp|z"
)
"""Attributes of nodes and edges that Graphviz itself reads."""

_WORD = r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*|-?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][+-]?[0-9]+)?"
_TOKEN = re.compile(
    rf"""(?P<blank>[ \t\r\n\ufeff]+|//[^\n]*|(?<![^\n])\#[^\n]*|/\*.*?\*/)
    |(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>{_WORD})|(?P<mark>->|--|[{{}}\[\];,=])""",
    re.DOTALL | re.VERBOSE,
)
_KEYWORDS = {"node", "edge", "graph", "digraph", "subgraph", "strict"}


def read_dot(path: Path, name: str, devices: int | None = None) -> Problem:
    """Read a task graph from a ``.dot`` or ``.gv`` file.

    The number of devices is by default that of the costs of a node that has one for each.

    Raises:
        ProblemError: the file is missing, unreadable or not such a graph, an edge appears twice, or as in
            :func:`~hetgym.workloads.from_networkx.from_networkx`.
    """
    parser = _Parser(str(path), read_text(path, LIMIT_BYTES, ProblemError))
    problem = from_networkx(parser.graph(), devices, name=name)
    if not parser.ignored:
        return problem
    names = ", ".join(shown(key) for key in sorted(parser.ignored)[:8])
    return problem.replace(notes=[f"attributes that are not read: {names}{', …' if len(parser.ignored) > 8 else ''}"])


Token = tuple[str, str]  # `word`, `text` (which was quoted), `mark` or `end`, and what it says


class _Parser:
    """Reads one graph, with one token of look-ahead."""

    def __init__(self, where: str, text: str) -> None:
        from networkx import DiGraph

        self._where = where
        self._text = text
        self._at = 0  # where the token starts that is next
        self.ignored: set[str] = set()  # attributes that are neither read nor drawn
        self._graph = DiGraph()
        self._defaults: dict[str, dict[str, object]] = {"node": {}, "edge": {}, "graph": {}}
        self._tokens = self._scan()
        self._next: Token = next(self._tokens)

    def graph(self) -> Any:
        """The networkx graph; ProblemError if the text is not such a graph."""
        self._skip("strict")
        if not self._skip("digraph"):
            raise self._fail("'digraph'")
        if self._next[1] != "{" or self._next[0] == "text":
            self._name()
        self._need("{")
        while not self._skip("}"):
            self._statement()
            self._skip(";")
        if self._next[0] != "end":
            raise self._fail("the end of the file")
        return self._graph

    def _scan(self) -> Iterator[Token]:
        at = 0
        while at < len(self._text):
            found = _TOKEN.match(self._text, at)
            self._at = at
            if found is None:
                raise self._error(f"{shown(self._text[at : at + 20])} cannot be read")
            at = found.end()
            if found.lastgroup == "text":
                yield "text", found[0][1:-1].replace('\\"', '"')
            elif found.lastgroup != "blank":
                yield str(found.lastgroup), found[0]
        self._at = at
        yield "end", "the end of the file"

    def _take(self) -> str:
        value = self._next[1]
        self._next = next(self._tokens)
        return value

    def _skip(self, word: str) -> bool:
        """Pass over a mark or keyword if it is next; keywords may be in capital letters."""
        found = self._next[0] in ("mark", "word") and self._next[1].lower() == word
        if found:
            self._take()
        return found

    def _need(self, mark: str) -> None:
        if not self._skip(mark):
            raise self._fail(repr(mark))

    def _name(self) -> str:
        """A name: a word, or a quoted text, which is not a keyword even if it reads like one."""
        if self._next[0] == "text" or (self._next[0] == "word" and self._next[1].lower() not in _KEYWORDS):
            return self._take()
        raise self._fail("a name")

    def _statement(self) -> None:
        for key, defaults in self._defaults.items():
            if self._skip(key):
                defaults |= self._attributes("bytes" if key == "edge" else "cost", whole=key == "graph")
                return
        ends = [self._name()]
        if self._skip("="):
            self._name()  # of the graph as a whole
            return
        while self._skip("->"):
            ends.append(self._name())
        given = self._attributes("cost" if len(ends) == 1 else "bytes")
        for end in ends:
            if end not in self._graph:
                self._graph.add_node(end, **self._defaults["node"])
        if len(ends) == 1:
            self._graph.nodes[ends[0]].update(given)
        for u, v in zip(ends, ends[1:], strict=False):
            if self._graph.has_edge(u, v):
                raise self._error(f"the edge {shown(u)} -> {shown(v)} appears twice")
            self._graph.add_edge(u, v, **{**self._defaults["edge"], **given})
        if len(self._graph) > MOST_OPERATORS:
            raise self._error(f"more than {MOST_OPERATORS} nodes")

    def _attributes(self, size: str, whole: bool = False) -> dict[str, object]:
        """The attributes that are read, from lists in brackets; a weight without a size becomes the size."""
        found: dict[str, object] = {}
        while self._skip("["):
            while not self._skip("]"):
                key = self._name().lower()
                self._need("=")
                if key not in _READ:
                    self._name()
                    if not whole and not _DRAWN.fullmatch(key):
                        self.ignored.add(key)
                else:
                    found[key] = self._name() if key == "kind" else self._numbers(key)
                if not self._skip(";"):
                    self._skip(",")
        if "weight" in found:
            found.setdefault(size, found.pop("weight"))
        return found

    def _numbers(self, key: str) -> object:
        """The value of an attribute: a number, or an array of several."""
        text = self._next[1]
        values = [np.inf if word.lower() == "inf" else as_number(word) for word in text.replace(",", " ").split()]
        if not values or None in values:
            raise self._error(f"{key} is {shown(text)}, not a number from 0 to {LARGEST:g}, or several")
        self._name()
        return values[0] if len(values) == 1 else np.array(values)

    def _error(self, what: str) -> ProblemError:
        line = self._text.count("\n", 0, self._at) + 1
        return ProblemError(f"{self._where}, line {line}: {what}")

    def _fail(self, expected: str) -> ProblemError:
        return self._error(f"{shown(self._next[1])} stands where {expected} is expected")
