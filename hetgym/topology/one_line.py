"""A machine as people write it, in one line: ``3090+2080Ti, 64GB ddr4-3600``.

Items are separated by commas or ``+``, machines by ``|``. An item with a product is a device: a count before it
(``2x``), its memory where it was changed (``22GB``), and the lanes and generation of its slot (``x4``, ``PCIe 3``).
Items without a product hold for the machine: its memory, the generation and lanes of all slots, the channels of memory,
``nvlink``; those of a network join machines.

After a card, x1, x4, x8 and x16 are lanes, and any other number is a count, since such slots are rare.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from hetgym._input.config import check_number
from hetgym.errors import PlatformError, shown
from hetgym.topology.boards import PROCESSOR_WORDS, SERIES, Board, own_words, said_board, shipped_boards, words
from hetgym.topology.machine import MOST_DEVICES
from hetgym.topology.pcie import GENERATIONS, LANES

LONGEST = 400  # Longest line that is read [characters]

_WIDTHS = (1, 4, 8, 16)  # lanes of the slots that a number after a card may mean

_COUNT = re.compile(r"(?:(\d{1,9}) [X×*] |(\d{1,3})[X×*] ?|(DUAL|TWO|THREE|QUAD|FOUR) (?!CHANNEL))(?=\S)")
_ATTACHED = re.compile(r"(?<=\d\d)[X×*](\d{1,2})(?!\w)")  # as in 3090x2
_MACS = re.compile(r"\bMAC ?BOOKS?( (PRO|AIR))?\b|\bMAC (STUDIO|MINI|PRO)\b|\bI?MACS?\b")
_FORMS = {
    "network": r"(?<!\w)(?:(?:THUNDERBOLT ?|TB)([345])|(\d{1,3}(?:\.\d)?)[ -]?(?:GBE|GBPS|GBITS?(?:/S)?|GIGABIT))"
    r"(?:[ -](?:ETHERNET|LAN|NETWORK|BRIDGE))?(?!\w)",
    "memory": r"(?<![\w.-])(\d{1,9}(?:\.\d{1,3})?) ?(GB|GIB|TB)(?!\w)",
    "ddr": r"(?<!\w)(?:LP)?DDR(\d)X?(?:[- ]?(\d{3,5}))?(?: ?MT/S| ?MHZ)?(?!\w)",
    "channels": r"(?<!\w)(\d{1,3}|DUAL|QUAD|OCTA)[- ]?CHANNELS?(?!\w)",
    "pcie": r"(?<!\w)(?:PCI-?E ?(?:GEN ?)?|GEN ?)(\d)(?:\.\d)?(?: ?[X×] ?(\d{1,3}))?(?!\w)",
    "lanes": r"(?<!\w)@?[X×](\d{1,3})(?!\w)",
    "nvlink": r"(?<!\w)(NVLINK)(?!\w)",
}
"""Figure -> its form in capitals. They are taken from an item in this order, and the rest is its product."""

_NUMBERS = {"DUAL": 2, "TWO": 2, "THREE": 3, "QUAD": 4, "FOUR": 4, "OCTA": 8}
_FILLERS = frozenset({
    "RAM", "MEMORY", "VRAM", "UNIFIED", "CARD", "CARDS", "GPU", "GPUS", "EDITION", "FOUNDERS", "FE", "PC",
    "DESKTOP", "SERVER", "WORKSTATION", "GRAPHICS",
})  # fmt: skip

MOST_CORES = 1024  # Most cores of a machine


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

    @property
    def cores(self) -> int:
        """Number of cores of its CPU; 0 if none is stated."""
        sizes = [word.removesuffix("CORE") for word in words(self.product) if re.fullmatch(r"\d{1,9}CORE", word)]
        cores = int(*self.figures.get("cores", sizes[:1] or ("0",)))
        if "cores" in self.figures or sizes:
            check_number(cores, f"the cores of {shown(self.text)}", PlatformError, minimum=1, maximum=MOST_CORES)
        return cores

    def _whole(self, figure: str, group: int, legal: Sequence[int] | Mapping[int, float], rule: str) -> int:
        text = self.figures[figure][group] if figure in self.figures else ""
        value = _NUMBERS.get(text) or int(text or 0)
        if text and value not in legal:
            raise PlatformError(f"{shown(self.text)} states {shown(text)}: {rule}")
        return value


def sections_of(line: str) -> list[list[Item]]:
    """The items of each machine of a line, which ``|`` separates.

    Raises:
        PlatformError: a line longer than :data:`LONGEST`, or see :func:`items_of`.
    """
    if len(line) > LONGEST:
        raise PlatformError(f"{shown(line)}: a line has at most {LONGEST} characters; write a platform file")
    return [items for section in line.split("|") if (items := items_of(section))]


def items_of(line: str) -> list[Item]:
    """The items of a machine, with their figures apart from their products.

    Raises:
        PlatformError: a figure stated twice in an item, or an impossible count.

    >>> [(item.product, item.count, item.lanes) for item in items_of("2x RTX 3090 x8 + GTX 1660 Super x1 + P40 x2")]
    [('RTX 3090', 2, 8), ('GTX 1660 SUPER', 1, 1), ('P40', 2, 0)]
    """
    whole = " ".join(re.sub(r"\bMAX\+", "MAX ", line.upper()).split())
    if re.search(r"\bM\d\b", whole):
        whole = _MACS.sub(" ", whole)
    parts = [part.strip() for part in re.split(r"[,;+&]|\bAND\b|\bWITH\b", whole)]
    return [_item(part, line) for part in parts if part]


def _item(text: str, line: str) -> Item:
    found, number = _COUNT.match(text), ""
    rest, figures = text[found.end() :] if found else text, {}
    if found:
        number = next(filter(None, found.groups()))
    if attached := _ATTACHED.search(rest):
        if int(attached[1]) in _WIDTHS:
            raise PlatformError(
                f"{shown(line)}: {shown(text)} may be a count or lanes; write '2x RTX 3090' for two cards, and "
                "'RTX 3090 x4' for a card with four lanes"
            )
        rest = f"{rest[: attached.start()]} {rest[attached.start() :]}"
    for figure, form in _FORMS.items():
        matches = list(re.finditer(form, rest))
        if len(matches) > 1:
            raise PlatformError(
                f"{shown(line)}: {shown(text)} states {matches[0][0]} and {matches[1][0]}; separate items by commas"
            )
        if matches:
            figures[figure] = tuple(group or "" for group in matches[0].groups())
            rest = rest[: matches[0].start()] + " " + rest[matches[0].end() :]
    product = " ".join(word.strip("()") for word in rest.split() if word.strip("()") not in _FILLERS).strip()
    if product and not number and "lanes" in figures and int(figures["lanes"][0]) not in _WIDTHS:
        (number,) = figures.pop("lanes")
    count = _NUMBERS.get(number) or int(number or 1)
    if not 1 <= count <= MOST_DEVICES:
        raise PlatformError(
            f"{shown(line)}: {shown(text)} states {count} devices, and a machine has 1 to {MOST_DEVICES}; write "
            "'2x RTX 3090' for two cards, and 'RTX 3090 x4' for a card with four lanes"
        )
    if re.fullmatch(r"\d{1,9}[ -]?CORES?", product):
        figures["cores"], product = (re.split(r"[ -]?C", product)[0],), ""
    return Item(text, product, count, figures)


def names_a_machine(text: str) -> bool:
    """Whether a text is meant as a machine in a line: it has the number of a board, or the size of a memory.

    >>> [names_a_machine(text) for text in ("3090+2080Ti", "2x3090", "Strix Halo", "cpu-gpuu", "8gpu-nodes")]
    [True, True, True, False, False]
    """
    text = re.sub(r"(^|[,;+&|\s])\d{1,3} ?[xX×*] ?(?=\S)", r"\1", text[:LONGEST])
    found = words(re.sub(r"(?<=\d)[xX×*]\d", " ", text))
    numbers = {word for board in shipped_boards() for word in own_words(board.name) if re.search(r"\d", word)}
    sizes = re.search(_FORMS["memory"], text.upper())
    series = found & SERIES and re.search(r"\d", text)
    if sizes or series or found & {word for word in numbers if not re.fullmatch(r"\d+(GB|CORE)|\d", word)}:
        return True
    return any(said_board(part, ()) for part in re.split(r"[,;+&|]", text))


def product_of(item: Item, boards: Sequence[Board], line: str) -> Board:
    """The board of an item.

    Raises:
        PlatformError: no board has these words; the message names the unknown word and the nearest boards.
    """
    if (found := said_board(item.product, boards, item.memory)) is not None:
        return found
    known = set().union(*(own_words(board.name) for board in (*boards, *shipped_boards()))) | SERIES | PROCESSOR_WORDS
    strange = [word for word in item.product.split() if not words(word) <= known]
    aside = SERIES | PROCESSOR_WORDS
    rest = [word for word in item.product.split() if word not in strange and word not in aside] or strange
    series = words(item.product) & aside - {"NVIDIA", "AMD", "INTEL"}
    kin = [board for board in shipped_boards() if not series or series & own_words(board.name)]
    names = {" ".join(w for w in board.name.split() if w not in aside): board.name for board in kin}
    near = get_close_matches(" ".join(rest), names, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(repr(names[name]) for name in near)}?" if near else "see configs/boards.yaml."
    what = f"unknown word {shown(strange[0])}" if strange else f"no data sheet of {shown(item.product)}"
    raise PlatformError(f"{shown(line)}: {what}; {hint} Add others by 'hetgym platform --boards FILE.yaml'")
