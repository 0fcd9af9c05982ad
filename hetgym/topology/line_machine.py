"""The machines that a line names, with an assumption for all that it does not state."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from hetgym._sums import summed
from hetgym.errors import PlatformError, shown
from hetgym.platform import Platform
from hetgym.topology.boards import Board, said_board, words
from hetgym.topology.line_cpu import Part, cpus_of, family_of
from hetgym.topology.machine import MOST_DEVICES, Gpu, Machine
from hetgym.topology.network import Network, joined
from hetgym.topology.one_line import Item, product_of, sections_of

SAME_SIZE = 0.1
"""Share by which a stated memory may differ from that of the data sheet, and still be the same in other units."""


def line_platform(line: str, boards: Sequence[Board] = (), cpus: bool = True, name: str = "") -> Platform:
    """The platform of a line: a machine, or several that a network joins.

    ``|`` separates machines, and so does each chip whose memory is also the CPU's, where a line names several.

    Args:
        boards: data sheets of devices that the package has none of.
        cpus: False to leave out the CPUs.
        name: name of the platform; the line by default.

    Raises:
        PlatformError: see :func:`line_machine`; or a network and a single machine, or two networks.
    """
    nodes, networks = _nodes(line, boards)
    machines = [_machine(line, node, boards, cpus) for node in nodes]
    if len(set(networks)) > 1 or (networks and len(machines) == 1):
        raise PlatformError(
            f"{shown(line)}: it states {len(networks)} networks and {len(machines)} machines; one network joins "
            "several, as in '2x M2 Ultra 192GB, 10GbE'"
        )
    found = [machine.platform(name or line, boards) for machine in machines]
    if len(found) == 1:
        return found[0]
    return joined(name or line, found, Network.named(*networks[0]) if networks else Network())


def line_machine(line: str, boards: Sequence[Board] = (), cpus: bool = True) -> Machine:
    """The machine of a line that names one.

    Raises:
        PlatformError: an unknown word, a figure that is impossible or stated twice, no device or more than
            :data:`~hetgym.topology.machine.MOST_DEVICES`, memory of the machine in the item of a card, ``nvlink``
            without two equal boards that have it, or several machines.

    >>> machine = line_machine("2x RTX 3090 nvlink, 64GB DDR5-5600")
    >>> machine.nvlinks, machine.cpus[0].bandwidth
    ({(0, 1): 4}, 89600000000.0)
    """
    nodes, _ = _nodes(line, boards)
    if len(nodes) != 1:
        raise PlatformError(f"{shown(line)}: it names {len(nodes)} machines, expected one")
    return _machine(line, nodes[0], boards, cpus)


def _nodes(line: str, boards: Sequence[Board]) -> tuple[list[list[Part]], list[tuple[str, ...]]]:
    """The parts of each machine, and the figures of networks."""
    nodes: list[list[Part]] = []
    networks = []
    for items in sections_of(line):
        networks += [item.figures["network"] for item in items if "network" in item.figures]
        items = [item for item in items if item.product or item.figures.keys() != {"network"}]
        parts = [_part(item, boards, line) for item in items]
        nodes += _chips(parts) if parts else []
        if summed(part.item.count for node in nodes for part in node if part.board) > MOST_DEVICES:
            raise PlatformError(f"{shown(line)}: it names more than {MOST_DEVICES} devices")
    if not nodes:
        raise PlatformError(f"{shown(line)}: it names no device; write one such as '2x RTX 3090, 64GB DDR5-5600'")
    return nodes, networks


def _part(item: Item, boards: Sequence[Board], line: str) -> Part:
    if not item.product:
        return Part(item, None)
    return family_of(item) or Part(item, product_of(item, boards, line))


def _chips(parts: list[Part]) -> list[list[Part]]:
    """A machine for each chip with unified memory, with the items behind it, if there are several; else one."""
    chips = [k for k, part in enumerate(parts) if part.is_unified]
    count = summed(parts[k].item.count for k in chips)
    if not 1 < count <= MOST_DEVICES:
        return [parts]
    nodes = []
    for first, end in pairwise([0, *chips[1:], len(parts)]):
        chip = next(k for k in chips if first <= k < end)
        one = [
            *parts[first:chip],
            replace(parts[chip], item=replace(parts[chip].item, count=1)),
            *parts[chip + 1 : end],
        ]
        nodes += [one] * parts[chip].item.count
    return nodes


def _machine(line: str, parts: Sequence[Part], boards: Sequence[Board], cpus: bool) -> Machine:
    """A machine of its parts."""
    machine = _of_machine(parts, line)
    parts = [_sized(part, machine, boards) for part in parts]
    cards = [part for part in parts if part.board and not part.is_cpu]
    gpus = [_gpu(part, machine) for part in cards for _ in range(part.item.count)]
    known = [part.board for part in cards for _ in range(part.item.count) if part.board]
    switched = {k: board.nvlinks for k, board in enumerate(known) if _switched(board) and len(known) > 1}
    nvlinks = _nvlinks(known, line) if "nvlink" in machine.figures and not switched else {}
    if not gpus and not machine.memory:
        raise PlatformError(
            f"{shown(line)}: it names no GPU and no memory; write '2x RTX 3090', or '7950X, 64GB DDR5-6000'"
        )
    found, assumed = cpus_of(parts, machine) if cpus or not gpus else ((), [])
    alone = len(gpus) - 2 * len(nvlinks) - len(switched)
    note = "; ".join([*assumed, *(_assumed(cards, machine, alone, bool(switched)) if cards else [])])
    return Machine(line, tuple(gpus), found, nvlinks=nvlinks, switched=switched, note=note)


def _sized(part: Part, machine: Item, boards: Sequence[Board]) -> Part:
    """A part; the memory of the machine tells apart chips of one name that share it."""
    found = said_board(part.item.product, boards, machine.memory) if part.is_unified and machine.memory else None
    return replace(part, board=found) if found else part


def _of_machine(parts: Sequence[Part], line: str) -> Item:
    """Figures that hold for the whole machine, as an item of their own."""
    figures: dict[str, tuple[str, ...]] = {}
    count = 1
    for part in parts:
        item = part.item
        if "nvlink" in item.figures:
            figures["nvlink"] = item.figures["nvlink"]
        own = {key: value for key, value in item.figures.items() if key in ("memory", "ddr", "channels")}
        if part.board is not None and not part.has_memory:
            if {"ddr", "channels"} & own.keys():
                raise PlatformError(
                    f"{shown(line)}: {shown(item.text)} mixes card and memory; separate them by a comma"
                )
            continue
        stated: Mapping[str, tuple[str, ...]] = own if part.board is not None else item.figures
        if twice := (figures.keys() & stated.keys()) - {"nvlink", "network"}:
            raise PlatformError(
                f"{shown(line)}: it states {min(twice)} of the machine twice; separate machines by '|', as in "
                "'2x 3090, 64GB | M2 Max 64GB'"
            )
        figures |= stated
        count = item.count if "memory" in stated and part.board is None else count
    return Item(line, "", count, figures)


def _gpu(part: Part, machine: Item) -> Gpu:
    """A device of an item; slots that it does not state are those of the machine, and then of the board."""
    assert part.board is not None
    memory = machine.memory if part.has_memory else part.item.memory
    capacity = part.board.named("x").memory_capacity
    if abs(memory / capacity - 1) < SAME_SIZE:
        memory = 0.0
    return Gpu(
        part.board.name, memory=memory, lanes=part.item.lanes or machine.lanes,
        generation=part.item.generation or machine.generation,
    )  # fmt: skip


def _assumed(cards: Sequence[Part], machine: Item, alone: int, switched: bool) -> list[str]:
    """Assumptions about slots and links, if ``alone`` cards have no NVLink."""
    slots = [part.item for part in cards if not part.has_memory]
    unknown = [
        name
        for name, figures in (("width", ("lanes", "pcie")), ("generation", ("pcie",)))
        if not all({**machine.figures, **item.figures}.keys() & set(figures) for item in slots)
    ]
    found = [f"{' and '.join(unknown)} of slots are assumed to be those of the cards"] if unknown else []
    if any("lanes" in part.item.figures and part.item.count == 1 for part in cards):
        found.append("a number behind a card is read as its PCIe lanes")
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
