"""Machine: the devices and links that a description names, and the platform that follows from data sheets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from hetgym.device import Device, Link
from hetgym.errors import PlatformError
from hetgym.platform import Platform
from hetgym.topology.boards import Board, find_board

MOST_DEVICES = 256  # Most devices of one machine

PCIE_SHARE, PCIE_LATENCY = 0.78, 10e-6
NVLINK_SHARE, NVLINK_LATENCY = 0.8, 5e-6
SOCKET_BANDWIDTH, SOCKET_LATENCY = 16e9, 1e-6

_ASSUMED = "share and latency are assumptions, as in the platforms of hetgym"


@dataclass(frozen=True)
class Gpu:
    """An accelerator."""

    name: str = ""  # name of the product; may be empty
    pci: str = ""  # vendor and device on the PCI bus; may be empty
    socket: int = 0  # the socket, or NUMA node, that it is linked to
    pcie: float | None = None  # bandwidth to the socket [byte/s]; None for that of the board
    way: str = "PCIe"  # the kind of link to the socket


@dataclass(frozen=True)
class Cpu:
    """A socket."""

    socket: int  # its number
    name: str  # name of the product
    memory: int = 0  # its memory [byte]; 0 for that of the board
    cores: int = 0  # number of its cores; 0 if it is unknown


@dataclass(frozen=True)
class Machine:
    """What a description says."""

    where: str
    gpus: tuple[Gpu, ...]  # the accelerators, in their order
    cpus: tuple[Cpu, ...] = ()  # the sockets whose product is named
    # pairs of GPUs -> number of NVLinks between them
    nvlinks: Mapping[tuple[int, int], int] = field(default_factory=dict)
    switched: Mapping[int, int] = field(default_factory=dict)  # GPU -> number of its NVLinks to switches
    nvlinks_known: bool = True  # False if no links between GPUs are read from the description

    def platform(self, name: str, boards: Sequence[Board]) -> Platform:
        """The platform: devices by their data sheets, sockets as switches, PCIe, NVLinks and switches of these.

        Raises:
            PlatformError: no device, more than :data:`MOST_DEVICES`, one without a data sheet, or with more NVLinks
                than that states.
        """
        if not self.gpus and not self.cpus:
            raise PlatformError(f"{self.where}: it names no GPU and no CPU; write a platform file instead")
        if len(self.gpus) + len(self.cpus) > MOST_DEVICES:
            raise PlatformError(f"{self.where}: it names more than {MOST_DEVICES} devices")
        known = [find_board(gpu.name, gpu.pci, boards, self.where) for gpu in self.gpus]
        devices = [*self._cpu_devices(boards), *(board.named(f"gpu{k}") for k, board in enumerate(known))]
        sockets = sorted({gpu.socket for gpu in self.gpus} | {cpu.socket for cpu in self.cpus})
        links = [*self._host_links(devices, sockets, known), *self._nvlinks(known)]
        switches = [f"host{s}" for s in sockets] if len(devices) > 1 else []
        if any("nvswitch" in (link.start, link.end) for link in links):
            switches.append("nvswitch")
        return Platform(name, tuple(devices), tuple(links), tuple(switches), self._description(devices, known))

    @property
    def _file(self) -> str:
        """The file's name without its folder, for the sources of figures."""
        return PurePath(self.where).name

    def _description(self, devices: Sequence[Device], boards: Sequence[Board]) -> str:
        count = Counter(device.model or device.name for device in devices)
        text = ", ".join(f"{n} x {model}" for model, n in count.items())
        lacks = not self.nvlinks_known and len(boards) > 1
        return text + ("; links between GPUs are not read, so they reach each other over PCIe" if lacks else "")

    def _cpu_devices(self, boards: Sequence[Board]) -> list[Device]:
        found = []
        for cpu in self.cpus:
            board = find_board(cpu.name, "", boards, self.where)
            changes = {"memory_capacity": float(cpu.memory)} if cpu.memory else {}
            found.append(board.named("cpu" if len(self.cpus) == 1 else f"cpu{cpu.socket}", **changes))
        return found

    def _host_links(self, devices: Sequence[Device], sockets: Sequence[int], boards: Sequence[Board]) -> list[Link]:
        """Links of devices to their sockets, and between sockets."""
        if len(devices) == 1:
            return []
        links: list[Link] = []
        for cpu, device in zip(self.cpus, devices, strict=False):
            host, rate = f"host{cpu.socket}", device.memory_bandwidth
            links += _both(device.name, host, 0.0, rate, 0.7, "host memory", "the CPU's bandwidth")
        for k, (gpu, board) in enumerate(zip(self.gpus, boards, strict=True)):
            rate, source = (gpu.pcie, self._file) if gpu.pcie else (board.pcie, f"data sheet of {board.name}")
            links += _both(
                f"gpu{k}", f"host{gpu.socket}", PCIE_LATENCY, rate, PCIE_SHARE, gpu.way, f"{source}; {_ASSUMED}"
            )
        for one, other in zip(sockets, sockets[1:], strict=False):
            links += _both(
                f"host{one}", f"host{other}", SOCKET_LATENCY, SOCKET_BANDWIDTH, 1.0, "between sockets",
                "NCCL's constant for AMD sockets (graph/topo.h), taken for any; the latency is an assumption",
            )  # fmt: skip
        return links

    def _nvlinks(self, boards: Sequence[Board]) -> list[Link]:
        """Direct NVLinks, or links to the switch if GPUs see more links than a board has."""
        total: Counter[int] = Counter()
        most = Counter(self.switched)
        for pair, count in self.nvlinks.items():
            for k in pair:
                total[k] += count
                most[k] = max(most[k], count)
        switched = dict(self.switched)
        for k, board in enumerate(boards):
            if most[k] > board.nvlinks:
                raise PlatformError(
                    f"{self.where}: GPU {k} has {most[k]} NVLinks, and the data sheet of {board.name!r} "
                    f"{board.nvlinks}; correct the name by 'hetgym platform --gpu', or nvlinks in the file of --boards"
                )
            if k not in switched and total[k] > board.nvlinks:  # each pair reports all links
                switched[k] = most[k]
        links: list[Link] = []
        for (one, other), count in sorted(self.nvlinks.items()):
            if count and not (one in switched and other in switched):
                rate = min(boards[one].nvlink, boards[other].nvlink) * count
                links += _both(
                    f"gpu{one}", f"gpu{other}", NVLINK_LATENCY, rate, NVLINK_SHARE, f"{count} NVLinks",
                    f"{self._file}; data sheet of {boards[one].name}; {_ASSUMED}",
                )  # fmt: skip
        for k, count in sorted(switched.items()):
            links += _both(
                f"gpu{k}", "nvswitch", NVLINK_LATENCY / 2, boards[k].nvlink * count, NVLINK_SHARE, f"{count} NVLinks",
                f"{self._file}; data sheet of {boards[k].name}; {_ASSUMED}",
            )  # fmt: skip
        return links


def _both(
    one: str, other: str, latency: float, bandwidth: float, share: float, kind: str, source: str
) -> tuple[Link, Link]:
    """A link in both directions."""
    link = Link(one, other, latency, bandwidth, share, kind, source)
    return link, replace(link, start=other, end=one)
