"""Boards: what data sheets say of devices that descriptions of machines only name."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from hetgym._input.config import check_number, read
from hetgym._input.parts import part
from hetgym._input.yaml import load_yaml
from hetgym.device import Device
from hetgym.errors import ConfigError, PlatformError, shown
from hetgym.topology.series import sheets

SHIPPED = part("configs") / "boards.yaml"

SERIES = frozenset({
    "RTX", "GTX", "RX", "ARC", "GEFORCE", "RADEON", "NVIDIA", "AMD", "INTEL", "APPLE", "INSTINCT", "TESLA",
    "RYZEN", "AI", "JETSON", "AGX",
})  # fmt: skip
"""Words that people leave out, since the number after them names the product."""

ASIDE = frozenset({"QUADRO", "BLACKWELL", "GENERATION", "LOVELACE"})
"""Words that people add to names that lack them."""

_VARIANTS = frozenset({
    "TI", "SUPER", "XT", "XTX", "GRE", "D", "NVL", "LAPTOP", "MAX", "Q", "PRO", "ULTRA", "ADA", "SFF", "NX",
    "NANO", "V2", "V3", "V4",
})  # fmt: skip
"""Words that make another product of a name: an RTX 3080 Ti is not an RTX 3080."""

_FORMS = frozenset({"PCIE", "SXM2", "SXM4", "HBM3"})
"""Forms of one product; a person who names none gets the first of them in the file."""

_SXM, _ANY_SXM = _FORMS - {"PCIE"}, frozenset({"SXM", "SXM5"})

PROCESSOR_WORDS = frozenset({
    "RYZEN", "AI", "CORE", "3", "5", "7", "9", "I3", "I5", "I7", "I9", "ULTRA", "THREADRIPPER", "PRO", "EPYC", "XEON",
    "SILVER", "GOLD", "PLATINUM",
})  # fmt: skip
"""Words of processors that people leave out."""

_BESIDE = frozenset({"AMD", "INTEL", "CORE", "CPU", "PROCESSOR"})  # Words that people add to those of a processor

_SIZE = re.compile(r"\d+(?:GB|CORE)")


@dataclass(frozen=True)
class Board:
    """A product, and the figures of its data sheet.

    Raises:
        ConfigError: a name without words, or fields that no device has.
        PlatformError: a number out of range.
    """

    name: str  # words that the product's name has in any order, such as `A100 SXM4 80GB`
    device: Mapping[str, Any] = field(hash=False)  # fields of Device without its name
    pci: tuple[str, ...] = ()  # numbers of vendor and device on the PCI bus, such as `10de:20b2`
    pcie: float = 15.75e9  # bandwidth to the host in each direction [byte/s]
    nvlinks: int = 0  # number of NVLinks; 0 for none
    nvlink: float = 25e9  # bandwidth of one NVLink in each direction [byte/s]
    pcie_lanes: int = 16  # number of lanes that ``pcie`` is the bandwidth of
    sizes: tuple[int, ...] = ()  # memories that tell it from another product of its name [GiB]; none for its own
    channels: int = 0  # of the memory of a CPU; 0 if they are unknown
    transfers: float = 0.0  # of a channel [MT/s]; 0 if they are unknown

    def __post_init__(self) -> None:
        if not words(self.name):
            raise ConfigError(f"a board's name must be text, not {shown(self.name)}")
        check_number(self.pcie, f"board {self.name!r}: pcie", PlatformError, positive=True)
        check_number(self.nvlink, f"board {self.name!r}: nvlink", PlatformError, positive=True)
        check_number(self.nvlinks, f"board {self.name!r}: nvlinks", PlatformError)
        check_number(self.pcie_lanes, f"board {self.name!r}: pcie_lanes", PlatformError, minimum=1, maximum=32)
        check_number(self.channels, f"board {self.name!r}: channels", PlatformError)
        check_number(self.transfers, f"board {self.name!r}: transfers", PlatformError)
        for size in self.sizes:
            check_number(size, f"board {self.name!r}: sizes", PlatformError, positive=True)
        self.named("device")

    @property
    def is_cpu(self) -> bool:
        """Whether it is a processor of a host."""
        return self.device.get("kind") == "cpu"

    @property
    def is_unified(self) -> bool:
        """Whether its memory is also that of a CPU."""
        return bool(self.device.get("memory_pool"))

    @property
    def memories(self) -> list[float]:
        """Memories that it comes with [byte]."""
        return [size * 2.0**30 for size in self.sizes] or [self.named("device").memory_capacity]

    def named(self, name: str, **changes: object) -> Device:
        """The device under a name."""
        return read(Device, {"name": name, **self.device, **changes}, f"board {self.name!r}")


@dataclass(frozen=True)
class _Document:
    boards: tuple[Board, ...]


def words(text: str) -> set[str]:
    """Words of a product's name in capitals; numbers are apart from the words around them.

    >>> sorted(words("NVIDIA A100-SXM4-80 GB"))
    ['80GB', 'A100', 'NVIDIA', 'SXM4']
    >>> sorted(words("RTX4070Ti Super 16 GB")), sorted(words("M4 Max 40-core"))
    (['16GB', '4070', 'RTX', 'SUPER', 'TI'], ['40CORE', 'M4', 'MAX'])
    """
    text = re.sub(r"\([RCTM]+\)", " ", text.upper())
    text = re.sub(r"(\d) GB\b", r"\1GB", text)
    text = re.sub(r"(\d)[ -]CORES?\b", r"\1CORE", text)
    text = re.sub(r"\b(RTX|GTX|RX)(?=\d)", r"\1 ", text)
    text = re.sub(r"\b(MOBILE|NOTEBOOK)\b", "LAPTOP", text)
    text = re.sub(r"\bPRO (?=[WR]\d)", "", text)  # of workstation boards of AMD, whose letter says it
    text = re.sub(r"(?<=\d{4})(TI|SUPER|XTX|XT|GRE)(?=SUPER\b|\b)", r" \1 ", text)
    return set(re.findall(r"[A-Z0-9.]+", text))


own_words = lru_cache(2048)(words)


def load_boards(path: str | Path) -> tuple[Board, ...]:
    """Boards of a YAML file, in the form of ``configs/boards.yaml``.

    Raises:
        ConfigError: the file is missing or is not of that form.
        PlatformError: a number out of range.
    """
    return read(_Document, load_yaml(path), str(path)).boards


@cache
def shipped_boards() -> tuple[Board, ...]:
    """Boards of the package."""
    return (*load_boards(SHIPPED), *(Board(**sheet) for sheet in sheets()))


def find_board(name: str, pci: str, boards: Sequence[Board], where: str, memory: float = 0.0) -> Board:
    """The board of a product: that of its name, else that of its numbers on the PCI bus.

    Args:
        name: name of the product; may be empty, or alternatives separated by ``/``, as ``rocm-smi`` prints them.
        pci: vendor and device on the PCI bus; may be empty.
        boards: the user's, before those of the package.
        memory: its memory [byte], which decides between boards of several sizes; 0 if it is unknown.

    Raises:
        PlatformError: none fits; the message says what to add.
    """
    for board in _ranked(_readings(name), (*boards, *shipped_boards()), len(boards), memory):
        return board
    for board in (*boards, *shipped_boards()):
        if pci and pci.lower() in board.pci:
            return board
    what = " ".join(filter(None, [shown(name) if name else "", f"with PCI numbers {pci}" if pci else ""]))
    raise PlatformError(
        f"{where}: no data sheet of the device {what}; add one by 'hetgym platform {Path(where).name} --boards "
        "FILE.yaml', in the form of hetgym/configs/boards.yaml"
    )


def said_board(name: str, boards: Sequence[Board], memory: float = 0.0) -> Board | None:
    """The board that a person means: every word must be the board's, and those of :data:`SERIES` may be missing.

    >>> said_board("3090", ()).name, said_board("4060Ti", ()).name, said_board("3050 Ti", ())
    ('RTX 3090', 'RTX 4060 TI 8GB', None)
    >>> said_board("7950X 16-core", ()).name, said_board("H100 SXM", ()).name
    ('RYZEN 9 7950X', 'H100 HBM3')
    """
    given = words(name)
    bare = given if given & _FORMS else given | (_SXM if given & _ANY_SXM else _FORMS)
    known = (*boards, *shipped_boards())
    for board in _ranked([bare | SERIES], known, len(boards), memory):
        if given and given - own_words(board.name) <= SERIES | ASIDE | _ANY_SXM:
            return board
    return _said_processor({word for word in given if not _SIZE.fullmatch(word)}, known)


def _said_processor(given: set[str], known: Sequence[Board]) -> Board | None:
    """The processor that a person means; four digits alone name none, since they may be anything."""
    best, most = None, 0
    for board in known:
        own = own_words(board.name)
        common = own & given
        telling = common - PROCESSOR_WORDS
        alone = len(common) == 1 and all(re.fullmatch(r"\d{1,4}", word) for word in telling)
        named = telling and not alone and own - given <= PROCESSOR_WORDS and given - own <= _BESIDE
        if board.is_cpu and named and len(common) > most:
            best, most = board, len(common)
    return best


def _readings(name: str) -> list[set[str]]:
    """Words of a name; of one with alternatives such as ``Radeon RX 7900 XT/7900 XTX``, those of each of them."""
    parts = name.split("/", 8)
    return [words(part) | (words(parts[0]) & SERIES) for part in parts if words(part)]


def _ranked(readings: Sequence[set[str]], known: Sequence[Board], users: int, memory: float) -> list[Board]:
    """Boards that fit, the best first: most common words, then the user's, then the nearest or the smallest memory."""
    found = []
    for given in readings:
        for k, board in enumerate(known):
            own = own_words(board.name)
            if _fits(own, given, memory > 0):
                apart = min(abs(math.log(size / memory)) if memory > 0 else size for size in board.memories)
                found.append((-len(own & given), k >= users, apart, k))
    return [known[k] for *_, k in sorted(found)]


def _fits(own: set[str], given: set[str], measured: bool) -> bool:
    """Whether a product with the given words may be a board with its own: a size that is not given fits any."""
    sizes = {word for word in own if _SIZE.fullmatch(word)}
    if not own - sizes <= given or (given - own) & _VARIANTS:
        return False
    for size in sizes - given:
        unit = "CORE" if size.endswith("CORE") else "GB"
        if not (measured and unit == "GB") and any(w.endswith(unit) and _SIZE.fullmatch(w) for w in given):
            return False
    return True
