"""A machine as people write it, in one line: ``3090+2080Ti, 64GB ddr4-3600``.

Items are separated by commas or ``+``. An item with a product is a device: a count before it (``2x``), its memory where
it was changed (``22GB``), and the lanes and generation of its slot (``x4``, ``PCIe 3``). Items without a product hold
for the machine: its memory, the generation and lanes of all slots, the channels of memory, ``nvlink``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from hetgym._input.config import check_number
from hetgym.errors import PlatformError, shown
from hetgym.topology.boards import SERIES, Board, said_board, shipped_boards, words
from hetgym.topology.machine import MOST_DEVICES
from hetgym.topology.pcie import GENERATIONS, LANES

LONGEST = 400  # Longest line that is read [characters]

_COUNT = re.compile(r"(\d{1,9})(?:[X×*] ?| [X×*] )(?=\S)")
_FORMS = {
    "memory": r"(?<![\w.-])(\d{1,9}(?:\.\d{1,3})?) ?(GB|GIB|TB)(?!\w)",
    "ddr": r"(?<!\w)(?:LP)?DDR(\d)X?(?:[- ]?(\d{3,5}))?(?: ?MT/S| ?MHZ)?(?!\w)",
    "channels": r"(?<!\w)(\d{1,3}|DUAL|QUAD|OCTA)[- ]?CHANNELS?(?!\w)",
    "pcie": r"(?<!\w)(?:PCI-?E ?(?:GEN ?)?|GEN ?)(\d)(?:\.\d)?(?: ?[X×] ?(\d{1,3}))?(?!\w)",
    "lanes": r"(?<!\w)@?[X×](\d{1,3})(?!\w)",
    "nvlink": r"(?<!\w)(NVLINK)(?!\w)",
}
"""Figure -> its form in capitals. They are taken from an item in this order, and the rest is its product."""

_NUMBERS = {"DUAL": 2, "QUAD": 4, "OCTA": 8}
_FILLERS = frozenset({"RAM", "MEMORY", "VRAM", "UNIFIED", "CARD", "CARDS", "GPU", "GPUS", "EDITION", "FOUNDERS", "FE"})


@dataclass(frozen=True)
class Item:
    """An item of a line.

    Args:
        text: as it was written.
        product: the words that state no figure; empty for an item of the whole machine.
        count: number of devices, or of memory modules.
        figures: figure of :data:`_FORMS` -> the groups of its form.
    """

    text: str
    product: str
    count: int = 1
    figures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def memory(self) -> float:
        """Its memory, of each device or of all modules [byte]; 0 if none is stated."""
        if "memory" not in self.figures:
            return 0.0
        amount, unit = self.figures["memory"]
        size = float(amount) * (2**40 if unit == "TB" else 2**30) * (1 if self.product else self.count)
        what = f"the memory of {shown(self.text)} [GiB]"
        check_number(size / 2**30, what, PlatformError, minimum=0.25, maximum=65536)
        return size

    @property
    def channels(self) -> int:
        """Number of its channels of memory; 0 if none is stated."""
        return self._whole("channels", 0, range(1, 25), "channels are whole numbers from 1 to 24")

    @property
    def generation(self) -> int:
        """Generation of PCIe of its slots; 0 if none is stated."""
        return self._whole("pcie", 0, GENERATIONS, f"PCIe has the generations 1 to {max(GENERATIONS)}")

    @property
    def lanes(self) -> int:
        """Number of PCIe lanes of its slots; 0 if none is stated."""
        rule = f"slots have {', '.join(map(str, LANES))} lanes; write '2x RTX 3090' for two cards"
        return self._whole("lanes", 0, LANES, rule) or self._whole("pcie", 1, LANES, rule)

    @property
    def transfers(self) -> float:
        """Transfers of a channel of its memory [MT/s]; 0 if they are not stated."""
        speed = float((self.figures.get("ddr") or ("", ""))[1] or 0)
        if speed:
            what = f"the transfers of {shown(self.text)} [MT/s]"
            check_number(speed, what, PlatformError, minimum=200, maximum=20000)
        return speed

    def _whole(self, figure: str, group: int, legal: Sequence[int] | Mapping[int, float], rule: str) -> int:
        text = self.figures[figure][group] if figure in self.figures else ""
        value = _NUMBERS.get(text) or int(text or 0)
        if text and value not in legal:
            raise PlatformError(f"{shown(self.text)} states {shown(text)}: {rule}")
        return value


def items_of(line: str) -> list[Item]:
    """The items of a line, with their figures apart from their products.

    Raises:
        PlatformError: a line longer than :data:`LONGEST`, or a figure stated twice in an item.

    >>> [(item.product, item.count, item.lanes) for item in items_of("2x RTX 3090 x8 + GTX 1660 Super x1")]
    [('RTX 3090', 2, 8), ('GTX 1660 SUPER', 1, 1)]
    """
    if len(line) > LONGEST:
        raise PlatformError(f"{shown(line)}: a line has at most {LONGEST} characters; write a platform file")
    whole = " ".join(re.sub(r"\bMAX\+", "MAX ", line.upper()).split())
    parts = [part.strip() for part in re.split(r"[,;+&]|\bAND\b|\bWITH\b", whole)]
    return [_item(part, line) for part in parts if part]


def _item(text: str, line: str) -> Item:
    count = _COUNT.match(text)
    if count and not 1 <= int(count[1]) <= MOST_DEVICES:
        raise PlatformError(
            f"{shown(line)}: {shown(text)} states {count[1]} devices, and a machine has 1 to {MOST_DEVICES}; write "
            "'2x RTX 3090' for two cards, and 'RTX 3090 x4' for a card with four lanes"
        )
    rest, figures = text[count.end() :] if count else text, {}
    for figure, form in _FORMS.items():
        found = list(re.finditer(form, rest))
        if len(found) > 1:
            raise PlatformError(
                f"{shown(line)}: {shown(text)} states {found[0][0]} and {found[1][0]}; separate items by commas"
            )
        if found:
            figures[figure] = tuple(group or "" for group in found[0].groups())
            rest = rest[: found[0].start()] + " " + rest[found[0].end() :]
    product = " ".join(word for word in rest.split() if word.strip("()") not in _FILLERS)
    return Item(text, product, int(count[1]) if count else 1, figures)


def names_a_machine(text: str) -> bool:
    """Whether a text is meant as a machine in a line: it has the number of a board, or the size of a memory.

    >>> names_a_machine("3090+2080Ti"), names_a_machine("cpu-gpuu"), names_a_machine("8gpu-nodes")
    (True, False, False)
    """
    text = text[:LONGEST]
    found = words(re.sub(r"(?<=\d)[xX×*]\d", " ", text))
    numbers = {word for board in shipped_boards() for word in words(board.name) if re.search(r"\d", word)}
    sizes = re.search(_FORMS["memory"], text.upper())
    series = found & SERIES and re.search(r"\d", text)
    return bool(sizes or series or found & {word for word in numbers if not re.fullmatch(r"\d+(GB|CORE)|\d", word)})


def product_of(item: Item, boards: Sequence[Board], line: str) -> Board:
    """The board of an item.

    Raises:
        PlatformError: no board has these words; the message names the unknown word and the nearest boards.
    """
    if (found := said_board(item.product, boards, item.memory)) is not None:
        return found
    known = set().union(*(words(board.name) for board in (*boards, *shipped_boards()))) | SERIES
    strange = [word for word in item.product.split() if not words(word) <= known]
    rest = [word for word in item.product.split() if word not in strange and word not in SERIES] or strange
    names = {" ".join(w for w in board.name.split() if w not in SERIES): board.name for board in shipped_boards()}
    near = get_close_matches(" ".join(rest), names, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(repr(names[name]) for name in near)}?" if near else "see configs/boards.yaml."
    what = f"unknown word {shown(strange[0])}" if strange else f"no data sheet of {shown(item.product)}"
    raise PlatformError(f"{shown(line)}: {what}; {hint} Add others by 'hetgym platform --boards FILE.yaml'")
