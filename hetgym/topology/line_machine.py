"""The machine that a line names, with an assumption for all that it does not state."""

from collections.abc import Sequence
from dataclasses import dataclass

from hetgym._sums import summed
from hetgym.errors import PlatformError, shown
from hetgym.topology.boards import Board, words
from hetgym.topology.machine import MOST_DEVICES, Cpu, Gpu, Machine
from hetgym.topology.one_line import Item, items_of, product_of

CHANNELS = 2
"""Channels of memory of a machine that does not state them: those of desktop processors."""

TRANSFERS = {"": 3200.0, "2": 800.0, "3": 1600.0, "4": 3200.0, "5": 5600.0}
"""Generation of DDR -> transfers of a channel that does not state them [MT/s]; empty for a memory of unknown kind."""

SAME_SIZE = 0.1
"""Share by which a stated memory may differ from that of the data sheet, and still be the same in other units."""


@dataclass(frozen=True)
class _Part:
    """An item with a product, and its board."""

    item: Item
    board: Board

    @property
    def is_cpu(self) -> bool:
        return self.board.device.get("kind") == "cpu"

    @property
    def has_memory(self) -> bool:
        """Whether its memory is the machine's: that of a CPU, or of a chip with unified memory."""
        return self.is_cpu or bool(self.board.device.get("memory_pool"))


def line_machine(line: str, boards: Sequence[Board] = (), cpus: bool = True) -> Machine:
    """The machine of a line.

    Args:
        boards: data sheets of devices that the package has none of.
        cpus: False to leave out the CPU.

    Raises:
        PlatformError: an unknown word, a figure that is impossible or stated twice, no device or more than
            :data:`~hetgym.topology.machine.MOST_DEVICES`, memory of the machine in the item of a card, or ``nvlink``
            without two equal boards that have it.

    >>> machine = line_machine("2x RTX 3090 nvlink, 64GB DDR5-5600")
    >>> machine.nvlinks, machine.cpus[0].bandwidth
    ({(0, 1): 4}, 89600000000.0)
    """
    items = items_of(line)
    parts = [_Part(item, product_of(item, boards, line)) for item in items if item.product]
    if not parts:
        raise PlatformError(f"{shown(line)}: it names no device; write one such as '2x RTX 3090, 64GB DDR5-5600'")
    if summed(part.item.count for part in parts) > MOST_DEVICES:
        raise PlatformError(f"{shown(line)}: it names more than {MOST_DEVICES} devices")
    machine = _of_machine(items, parts, line)
    cards = [part for part in parts if not part.is_cpu]
    gpus = [_gpu(part, machine) for part in cards for _ in range(part.item.count)]
    known = [part.board for part in cards for _ in range(part.item.count)]
    switched = {k: board.nvlinks for k, board in enumerate(known) if _switched(board) and len(known) > 1}
    nvlinks = _nvlinks(known, line) if "nvlink" in machine.figures and not switched else {}
    found, assumed = _cpus(parts, machine) if cpus or not gpus else ((), [])
    alone = len(gpus) - 2 * len(nvlinks) - len(switched)
    note = "; ".join([*assumed, *_assumed(cards, machine, alone, bool(switched))])
    return Machine(line, tuple(gpus), found, nvlinks=nvlinks, switched=switched, note=note)


def _of_machine(items: Sequence[Item], parts: Sequence[_Part], line: str) -> Item:
    """Figures that hold for the whole machine, as an item of their own."""
    figures: dict[str, tuple[str, ...]] = {}
    count = 1
    owners = {part.item.text: part for part in parts}
    for item in items:
        part = owners.get(item.text) if item.product else None
        if "nvlink" in item.figures:
            figures["nvlink"] = item.figures["nvlink"]
        own = {key: value for key, value in item.figures.items() if key in ("memory", "ddr", "channels")}
        if part is not None and not part.has_memory:
            if {"ddr", "channels"} & own.keys():
                raise PlatformError(
                    f"{shown(line)}: {shown(item.text)} mixes card and memory; separate them by a comma"
                )
            continue
        stated = own if part is not None else dict(item.figures)
        if twice := (figures.keys() & stated.keys()) - {"nvlink"}:
            raise PlatformError(f"{shown(line)}: it states {min(twice)} of the machine twice")
        figures |= stated
        count = item.count if "memory" in stated and part is None else count
    return Item(line, "", count, figures)


def _gpu(part: _Part, machine: Item) -> Gpu:
    """A device of an item; slots that it does not state are those of the machine, and then of the board."""
    memory = machine.memory if part.has_memory else part.item.memory
    capacity = part.board.named("x").memory_capacity
    if abs(memory / capacity - 1) < SAME_SIZE:
        memory = 0.0
    return Gpu(
        part.board.name, memory=memory, lanes=part.item.lanes or machine.lanes,
        generation=part.item.generation or machine.generation,
    )  # fmt: skip


def _cpus(parts: Sequence[_Part], machine: Item) -> tuple[tuple[Cpu, ...], list[str]]:
    """The CPUs, and assumptions about them: those that the line names, else one of no name if it states a memory."""
    named = [part.board for part in parts if part.is_cpu for _ in range(part.item.count)]
    if not named and (not machine.memory or any(part.has_memory for part in parts)):
        return (), []
    kind = machine.figures.get("ddr", ("", ""))[0]
    transfers, channels = machine.transfers or TRANSFERS.get(kind, TRANSFERS[""]), machine.channels or CHANNELS
    bandwidth = 0.0 if named and not machine.channels else channels * 8 * transfers * 1e6
    memory = f"{channels} channels of DDR{kind or '4'}-{transfers:.0f}"
    source = "" if named else f"an assumption; 8 cores x 2 FMA x 8 lanes x 2 x 2.9 GHz; {memory}"
    found = tuple(
        Cpu(socket, name, machine.memory / max(1, len(named)), bandwidth=bandwidth, source=source)
        for socket, name in enumerate([board.name for board in named] or ["GENERIC CPU"])
    )
    assumed = [] if named else ["a CPU of eight cores is assumed"]
    if bandwidth and not (machine.channels and machine.transfers):
        assumed.append(f"{memory} are assumed")
    if len(named) > 1:
        assumed.append("all cards are assumed on the first socket")
    return found, assumed


def _assumed(cards: Sequence[_Part], machine: Item, alone: int, switched: bool) -> list[str]:
    """Assumptions about slots and links, if ``alone`` cards have no NVLink."""
    slots = [part.item for part in cards if not part.has_memory]
    unknown = [
        name
        for name, figures in (("width", ("lanes", "pcie")), ("generation", ("pcie",)))
        if not all({**machine.figures, **item.figures}.keys() & set(figures) for item in slots)
    ]
    found = [f"{' and '.join(unknown)} of slots are assumed to be those of the cards"] if unknown else []
    if switched:
        found.append("an NVLink switch is assumed")
    if alone > 0 and len(cards) + alone > 2:
        found.append("no peer access is assumed: cards exchange data over the host")
    return found


def _switched(board: Board) -> bool:
    """Whether a board is of the form that only machines with an NVLink switch have."""
    return board.nvlinks >= 12 and "PCIE" not in words(board.name)


def _nvlinks(boards: Sequence[Board], line: str) -> dict[tuple[int, int], int]:
    """NVLinks of equal boards, two by two in their order."""
    waiting: dict[str, int] = {}
    found = {}
    for k, board in enumerate(boards):
        if board.nvlinks and board.name in waiting:
            found[waiting.pop(board.name), k] = board.nvlinks
        elif board.nvlinks:
            waiting[board.name] = k
    if not found:
        have = ", ".join(dict.fromkeys(f"{board.name} has {board.nvlinks or 'none'}" for board in boards))
        raise PlatformError(f"{shown(line)}: an NVLink joins two equal boards that have one; {have}")
    return found
