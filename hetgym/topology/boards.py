"""Boards: what data sheets say of devices that descriptions of machines only name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hetgym._input.config import check_number, read
from hetgym._input.parts import part
from hetgym._input.yaml import load_yaml
from hetgym.device import Device
from hetgym.errors import ConfigError, PlatformError, shown

SHIPPED = part("configs") / "boards.yaml"


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

    def __post_init__(self) -> None:
        if not words(self.name):
            raise ConfigError(f"a board's name must be text, not {shown(self.name)}")
        check_number(self.pcie, f"board {self.name!r}: pcie", PlatformError, positive=True)
        check_number(self.nvlink, f"board {self.name!r}: nvlink", PlatformError, positive=True)
        check_number(self.nvlinks, f"board {self.name!r}: nvlinks", PlatformError)
        self.named("device")

    def named(self, name: str, **changes: object) -> Device:
        """The device under a name."""
        return read(Device, {"name": name, **self.device, **changes}, f"board {self.name!r}")


@dataclass(frozen=True)
class _Document:
    boards: tuple[Board, ...]


def words(text: str) -> set[str]:
    """Words of a product's name in capitals.

    >>> sorted(words("NVIDIA A100-SXM4-80 GB"))
    ['80GB', 'A100', 'NVIDIA', 'SXM4']
    """
    joined = re.sub(r"(\d) GB\b", r"\1GB", re.sub(r"\([RCTM]+\)", " ", text.upper()))
    return set(re.findall(r"[A-Z0-9.]+", joined))


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
    return load_boards(SHIPPED)


def find_board(name: str, pci: str, boards: Sequence[Board], where: str) -> Board:
    """The board of a product: that of its numbers on the PCI bus, else the one that shares most words with its name.

    Args:
        name: name of the product; may be empty.
        pci: vendor and device on the PCI bus; may be empty.
        boards: the user's, before those of the package.

    Raises:
        PlatformError: none fits; the message says what to add.
    """
    known = (*boards, *shipped_boards())
    given = words(name)
    fitting = [board for board in known if words(board.name) <= given] if given else []
    if fitting:
        return max(fitting, key=lambda board: len(words(board.name)))
    for board in known:
        if pci and pci.lower() in board.pci:
            return board
    what = " ".join(filter(None, [shown(name) if name else "", f"with PCI numbers {pci}" if pci else ""]))
    raise PlatformError(
        f"{where}: no data sheet of the device {what}; add one by 'hetgym platform {Path(where).name} --boards "
        "FILE.yaml', in the form of hetgym/configs/boards.yaml"
    )
