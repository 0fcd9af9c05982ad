"""PCIe: rates by generation and lanes, and the link of a board to its host."""

from hetgym.topology.boards import Board

GENERATIONS = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}
"""Generation of PCIe -> transfers of a lane [1/s], PCI Express base specification."""

LANES = (1, 2, 4, 8, 16)


def pcie_rate(transfers: float, lanes: int) -> float:
    """Bandwidth in each direction [byte/s].

    Up to 5 GT/s eight bits are sent as ten, from 8 GT/s on 128 as 130 (PCI Express base specification).

    Args:
        transfers: of a lane [1/s].
        lanes: their number.
    """
    return transfers * lanes / 8 * (0.8 if transfers < 8e9 else 128 / 130)


def generation_of(board: Board) -> int:
    """The generation whose rate comes nearest to that of a board's data sheet."""
    lane = board.pcie / board.pcie_lanes
    return min(GENERATIONS, key=lambda generation: abs(pcie_rate(GENERATIONS[generation], 1) - lane))


def slot_rate(board: Board, lanes: int = 0, generation: int = 0) -> tuple[float, str]:
    """Bandwidth of a board in a slot [byte/s], and the name of the link; board and slot agree on what both can do.

    Args:
        lanes: number of lanes of the slot; 0 for those of the board.
        generation: generation of PCIe of the slot; 0 for that of the board.

    >>> board = Board("X", {"kind": "gpu", "peak_flops": {"float32": 1e12}, "memory_bandwidth": 1e11}, pcie=31.5e9)
    >>> slot_rate(board), slot_rate(board, lanes=4, generation=2)
    ((31500000000.0, 'PCIe 4.0 x16'), (2000000000.0, 'PCIe 2.0 x4'))
    """
    own = generation_of(board)
    width, speed = min(lanes or board.pcie_lanes, board.pcie_lanes), min(generation or own, own)
    if board.pcie > 2 * pcie_rate(GENERATIONS[6], 16):
        return board.pcie, "NVLink-C2C"
    kind = f"PCIe {speed}.0 x{width}"
    if (width, speed) == (board.pcie_lanes, own):
        return board.pcie, kind
    return pcie_rate(GENERATIONS[speed], width), kind
