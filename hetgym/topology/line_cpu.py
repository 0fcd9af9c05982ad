"""The CPUs of a line: by name, by family, or by the memory that the line states."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hetgym.topology.boards import Board, shipped_boards, words
from hetgym.topology.machine import Cpu
from hetgym.topology.one_line import Item
from hetgym.topology.series import generic_channels

CHANNELS = 2
"""Channels of memory of a machine that does not state them: those of desktop processors."""

CORES = {1: 4, 2: 8, 4: 16, 6: 24, 8: 32, 12: 64}
"""Channels of memory -> cores of a CPU that the line does not name: an assumption."""

TRANSFERS = {"": 3200.0, "2": 800.0, "3": 1600.0, "4": 3200.0, "5": 5600.0}
"""Generation of DDR -> transfers of a channel that does not state them [MT/s]; empty for a memory of unknown kind."""

_BESIDE = frozenset({"AMD", "INTEL", "PROCESSOR", "3", "5", "7", "9"})  # words beside that of a family

GENERIC = "GENERIC CPU"  # Board of a CPU that is not named


@dataclass(frozen=True)
class Part:
    """An item, and its board."""

    item: Item
    board: Board | None  # None for an item of the whole machine
    channels: int = 0  # of memory of the family that it names without a product; 0 if it names a product

    @property
    def is_cpu(self) -> bool:
        """Whether it is a processor of a host."""
        return self.board is not None and self.board.is_cpu

    @property
    def has_memory(self) -> bool:
        """Whether its memory is the machine's: that of a CPU, or of a chip with unified memory."""
        return self.is_cpu or self.is_unified

    @property
    def is_unified(self) -> bool:
        """Whether its memory is also that of a CPU."""
        return self.board is not None and self.board.is_unified


def family_of(item: Item) -> Part | None:
    """The CPU of an item that names a family alone, such as ``EPYC`` or ``Core i9``; None for others."""
    found = {word for word in words(item.product) if not re.fullmatch(r"\d{1,9}CORE", word)}
    families = generic_channels()
    if not found & families.keys() or found - families.keys() - _BESIDE:
        return None
    board = next(board for board in shipped_boards() if board.name == GENERIC)
    return Part(item, board, max(families[word] for word in found & families.keys()))


def cpus_of(parts: Sequence[Part], machine: Item) -> tuple[tuple[Cpu, ...], list[str]]:
    """The CPUs, and assumptions about them: those that the line names, else one of no name if it states a memory."""
    named = [part for part in parts if part.is_cpu for _ in range(part.item.count)]
    if not named and (not machine.memory or any(part.has_memory for part in parts)):
        return (), []
    assumed: list[str] = []
    memory = machine.memory / max(1, len(named))
    each = named or [Part(machine, None, CHANNELS)]
    found = tuple(_cpu(socket, part, machine, memory, assumed) for socket, part in enumerate(each))
    if not machine.memory:
        assumed.append("the memory of the CPU is assumed to be large enough")
    if len(named) > 1:
        assumed.append("all cards are assumed on the first socket")
    return found, list(dict.fromkeys(assumed))


def _cpu(socket: int, part: Part, machine: Item, memory: float, assumed: list[str]) -> Cpu:
    """A CPU; what it takes for granted is added to ``assumed``."""
    board = part.board if part.board is not None and part.board.name != GENERIC else None
    kind = machine.figures.get("ddr", ("", ""))[0]
    channels = machine.channels or part.channels or (board.channels if board else 0) or CHANNELS
    own = board.transfers if board and not kind else 0.0
    transfers = machine.transfers or own or TRANSFERS.get(kind, TRANSFERS[""])
    text = f"{channels} channels of {f'DDR{kind}-' if kind or not board else 'memory at '}{transfers:.0f}"
    text = text.replace("DDR-", "DDR4-")
    cores = part.item.cores or machine.cores
    if board is not None:
        stated = machine.channels or (machine.transfers and board.channels)
        bandwidth = channels * 8 * transfers * 1e6 if stated else 0.0
        if bandwidth and not (machine.channels and machine.transfers) and not board.channels:
            assumed.append(f"{text} are assumed")
        source = f"{board.device.get('source', '')}; {text}" if bandwidth else ""
        return Cpu(socket, board.name, memory, cores, bandwidth, source=source)
    if not cores:
        cores = CORES[max(known for known in CORES if known <= channels)]
        assumed.append(f"a CPU of {cores} cores is assumed")
    if not (machine.channels and machine.transfers):
        assumed.append(f"{text} are assumed")
    source = f"an assumption; {cores} cores x 2 FMA x 8 lanes x 2 x 2.9 GHz; {text}"
    return Cpu(socket, GENERIC, memory, cores, channels * 8 * transfers * 1e6, source=source)
