"""Reading of XML: plain elements with attributes, nothing that expands, loads or recurses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from hetgym.errors import PlatformError

DEPTH = 200  # Deepest nesting of elements; PCI buses behind bridges nest some twenty deep
ELEMENTS = 1 << 18  # Most elements: machines of thousands of cores have fewer


@dataclass
class Element:
    """An element; text between elements is left out."""

    tag: str  # its name
    attributes: dict[str, str]  # its attributes
    children: list[Element] = field(default_factory=list)  # the elements in it

    def get(self, key: str) -> str:
        """An attribute; empty if it is missing."""
        return self.attributes.get(key, "")

    def walk(self) -> Iterator[tuple[Element, tuple[Element, ...]]]:
        """This element and all in it, each with those around it, the outermost first."""
        waiting: list[tuple[Element, tuple[Element, ...]]] = [(self, ())]
        while waiting:
            element, above = waiting.pop()
            yield element, above
            waiting += [(child, (*above, element)) for child in reversed(element.children)]


def parse_xml(data: bytes, where: str) -> Element:
    """The outermost element of a document.

    A document may name its type, as ``lstopo`` does, but declare no entities and no types of its own. No other
    file is loaded.

    Raises:
        PlatformError: the document is not XML, declares entities or types, is nested deeper than :data:`DEPTH`, or has
            more elements than :data:`ELEMENTS`.
    """
    parser = expat.ParserCreate()
    open_: list[Element] = []
    roots: list[Element] = []
    count = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if len(open_) >= DEPTH or count > ELEMENTS:
            raise PlatformError(f"{where}: nested deeper than {DEPTH} elements, or more than {ELEMENTS} of them")
        element = Element(tag, attributes)
        (open_[-1].children if open_ else roots).append(element)
        open_.append(element)

    def doctype(name: str, system: str | None, public: str | None, own: bool) -> None:
        if own:
            raise PlatformError(f"{where}: the document declares types of its own, which is not accepted")

    def entity(*_: object) -> None:
        raise PlatformError(f"{where}: the document declares entities, which is not accepted")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: open_.pop()
    parser.StartDoctypeDeclHandler = doctype
    parser.EntityDeclHandler = entity
    parser.UnparsedEntityDeclHandler = entity
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, LookupError, ValueError) as cause:  # LookupError, ValueError: of an unknown encoding
        raise PlatformError(f"{where}: not XML ({cause})") from cause
    return roots[0]
