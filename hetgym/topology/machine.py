"""Machine: the devices and links that a description names, and the platform that follows from data sheets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import PurePath

from hetgym._text import counted
from hetgym.device import Device, Link
from hetgym.errors import PlatformError, size
from hetgym.platform import Platform
from hetgym.topology.boards import Board, find_board
from hetgym.topology.pcie import slot_rate
from hetgym.topology.unified import CPU_SHARE, with_reserve

MOST_DEVICES = 256  # Most devices of one machine

PCIE_SHARE, PCIE_LATENCY = 0.78, 10e-6
NVLINK_SHARE, NVLINK_LATENCY = 0.8, 5e-6
SOCKET_BANDWIDTH, SOCKET_LATENCY = 16e9, 1e-6
MEMORY_SHARE, UNIFIED_LATENCY = 0.7, 1e-6

_ASSUMED = "share and latency are assumptions, as in the platforms of hetgym"


@dataclass(frozen=True)
class Gpu:
    """An accelerator."""

    name: str = ""  # name of the product; may be empty
    pci: str = ""  # vendor and device on the PCI bus; may be empty
    socket: int = 0  # the socket, or NUMA node, that it is linked to
    pcie: float | None = None  # bandwidth to the socket [byte/s]; None for that of the board
    way: str = "PCIe"  # the kind of link to the socket
    memory: float = 0.0  # its memory [byte]; 0 for that of the board
    free: float | None = None  # part of it that nothing uses [byte]; None if it is unknown
    lanes: int = 0  # number of PCIe lanes of its slot; 0 for those of the board
    generation: int = 0  # generation of PCIe of its slot; 0 for that of the board


@dataclass(frozen=True)
class Cpu:
    """A socket."""

    socket: int  # its number
    name: str  # name of the product
    memory: float = 0.0  # its memory [byte]; 0 for that of the board
    cores: int = 0  # number of its cores; 0 for those of the board
    bandwidth: float = 0.0  # bandwidth of its memory [byte/s]; 0 for that of the board
    pool: str = ""  # name of the memory that it shares with a GPU; empty for memory of its own
    source: str = ""  # the source of memory and bandwidth, if they are not those of the board


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
    shared: tuple[tuple[int, ...], ...] = ()  # groups of GPUs, each behind one PCIe switch
    note: str = ""  # what the platform's description says besides the devices

    def platform(self, name: str, boards: Sequence[Board]) -> Platform:
        """The platform: devices by their data sheets, sockets as switches, PCIe, NVLinks and switches of these.

        Raises:
            PlatformError: no device, more than :data:`MOST_DEVICES`, one without a data sheet, or with more NVLinks
                than that states; two GPUs that share memory with a CPU, or one whose memory is unknown.
        """
        if not self.gpus and not self.cpus:
            raise PlatformError(f"{self.where}: it names no GPU and no CPU; write a platform file instead")
        if len(self.gpus) + len(self.cpus) > MOST_DEVICES:
            raise PlatformError(f"{self.where}: it names more than {MOST_DEVICES} devices")
        find = cache(partial(find_board, boards=boards, where=self.where))
        known = [find(gpu.name, gpu.pci, memory=gpu.memory) for gpu in self.gpus]
        gpus = [self._gpu(k, gpu, board) for k, (gpu, board) in enumerate(zip(self.gpus, known, strict=True))]
        cpus = self._all_cpus(gpus)
        named = "cpu" if len(cpus) == 1 else "cpu{}"
        devices = [*(_cpu(named.format(cpu.socket), cpu, find(cpu.name, "")) for cpu in cpus), *gpus]
        sockets = sorted({gpu.socket for gpu in self.gpus} | {cpu.socket for cpu in cpus})
        links = [*self._host_links(devices, cpus, sockets, known), *self._nvlinks(known)] if len(devices) > 1 else []
        switches = [f"host{s}" for s in sockets] if len(devices) > 1 else []
        switches += [f"pcie{g}" for g in range(len(self.shared))]
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
        if not self.nvlinks_known and len(boards) > 1:
            text += "; links between GPUs are not read, so they reach each other over PCIe"
        if any(device.memory_pool for device in devices):
            text += "; CPU and GPU share one memory"
        return f"{text}; {self.note}" if self.note else text

    def _gpu(self, number: int, gpu: Gpu, board: Board) -> Device:
        """A GPU by its data sheet, with the memory that the description states."""
        device = board.named(f"gpu{number}", **({"memory_capacity": float(gpu.memory)} if gpu.memory else {}))
        if gpu.memory and abs(board.named("x").memory_capacity / gpu.memory - 1) > 0.05:
            device = replace(device, source=f"{device.source}; memory by {self._file}")
        device = with_reserve(device, self.where) if device.memory_pool else device
        taken = device.memory_capacity - gpu.free if gpu.free is not None else 0.0
        if taken <= 0:
            return device
        if taken >= device.usable_memory:
            raise PlatformError(
                f"{self.where}: of GPU {number}, {size(device.memory_capacity)} of memory are in use up to "
                f"{size(gpu.free or 0.0)}; end the programs that use it, and list it again"
            )
        kept = device.memory_capacity - device.usable_memory + taken
        return replace(device, memory_reserve=kept, source=f"{device.source}; {size(taken)} in use by {self._file}")

    def _all_cpus(self, gpus: Sequence[Device]) -> tuple[Cpu, ...]:
        """The CPUs; that of a chip with unified memory shares it, and is one of no name if the description has none."""
        chips = [k for k, gpu in enumerate(gpus) if gpu.memory_pool]
        if not chips:
            return self.cpus
        if len(chips) > 1:
            raise PlatformError(
                f"{self.where}: {len(chips)} of its chips share memory with a CPU; describe one machine at a time"
            )
        chip, socket = gpus[chips[0]], self.gpus[chips[0]].socket
        unnamed = Cpu(
            socket, "GENERIC CPU", chip.memory_capacity, bandwidth=CPU_SHARE * chip.memory_bandwidth,
            source=f"an assumption; 8 cores x 2 FMA x 8 lanes x 2 x 2.9 GHz, and {CPU_SHARE:.0%} of the bandwidth",
        )  # fmt: skip
        return tuple(
            replace(cpu, pool=chip.memory_pool) if cpu.socket == socket else cpu for cpu in self.cpus or [unnamed]
        )

    def _host_links(
        self, devices: Sequence[Device], cpus: Sequence[Cpu], sockets: Sequence[int], boards: Sequence[Board]
    ) -> list[Link]:
        """Links of devices to their sockets, over the PCIe switch that some share, and between sockets."""
        links: list[Link] = []
        for cpu, device in zip(cpus, devices, strict=False):
            rate = device.memory_bandwidth
            links += both_ways(
                device.name, f"host{cpu.socket}", 0.0, rate, MEMORY_SHARE, "host memory", "the CPU's bandwidth"
            )
        behind = {k: f"pcie{g}" for g, group in enumerate(self.shared) for k in group}
        for k, (device, board) in enumerate(zip(devices[len(cpus) :], boards, strict=True)):
            links += self._gpu_link(self.gpus[k], device, board, behind.get(k, ""))
        for g, group in enumerate(self.shared):
            fastest = max(link.bandwidth for link in links if link.end == f"pcie{g}")
            links += both_ways(
                f"pcie{g}", f"host{self.gpus[group[0]].socket}", PCIE_LATENCY / 2, fastest, PCIE_SHARE, "PCIe uplink",
                f"as fast as the fastest link below it, an assumption; {_ASSUMED}",
            )  # fmt: skip
        for one, other in zip(sockets, sockets[1:], strict=False):
            links += both_ways(
                f"host{one}", f"host{other}", SOCKET_LATENCY, SOCKET_BANDWIDTH, 1.0, "between sockets",
                "NCCL's constant for AMD sockets (graph/topo.h), taken for any; the latency is an assumption",
            )  # fmt: skip
        return links

    def _gpu_link(self, gpu: Gpu, device: Device, board: Board, switch: str) -> tuple[Link, Link]:
        """The link of a GPU to its socket, or to the PCIe switch before it; with shared memory, that memory."""
        host = switch or f"host{gpu.socket}"
        if device.memory_pool:
            return both_ways(
                device.name, host, UNIFIED_LATENCY, device.memory_bandwidth, MEMORY_SHARE, "unified memory",
                "the memory's bandwidth; share and latency are assumptions",
            )  # fmt: skip
        rate, way = (gpu.pcie, gpu.way) if gpu.pcie else slot_rate(board, gpu.lanes, gpu.generation)
        stated = gpu.pcie or gpu.lanes or gpu.generation
        source = f"{self._file if stated else f'data sheet of {board.name}'}; {_ASSUMED}"
        return both_ways(device.name, host, PCIE_LATENCY / (2 if switch else 1), rate, PCIE_SHARE, way, source)

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
                    f"{self.where}: GPU {k} has {counted(most[k], 'NVLink')}, and the data sheet of {board.name!r} "
                    f"{board.nvlinks}; correct the name by 'hetgym platform --gpu', or nvlinks in the file of --boards"
                )
            if k not in switched and total[k] > board.nvlinks:  # each pair reports all links
                switched[k] = most[k]
        links: list[Link] = []
        for (one, other), count in sorted(self.nvlinks.items()):
            if count and not (one in switched and other in switched):
                rate = min(boards[one].nvlink, boards[other].nvlink) * count
                links += both_ways(
                    f"gpu{one}", f"gpu{other}", NVLINK_LATENCY, rate, NVLINK_SHARE, counted(count, "NVLink"),
                    f"{self._file}; data sheet of {boards[one].name}; {_ASSUMED}",
                )  # fmt: skip
        for k, count in sorted(switched.items()):
            links += both_ways(
                f"gpu{k}", "nvswitch", NVLINK_LATENCY / 2, boards[k].nvlink * count, NVLINK_SHARE,
                counted(count, "NVLink"), f"{self._file}; data sheet of {boards[k].name}; {_ASSUMED}",
            )  # fmt: skip
        return links


def both_ways(
    one: str, other: str, latency: float, bandwidth: float, share: float, kind: str, source: str
) -> tuple[Link, Link]:
    """A link in both directions."""
    link = Link(one, other, latency, bandwidth, share, kind, source)
    return link, replace(link, start=other, end=one)


def _cpu(name: str, cpu: Cpu, board: Board) -> Device:
    """A CPU by its data sheet, with the memory that the description states."""
    changes: dict[str, object] = {}
    if cpu.memory:
        changes["memory_capacity"] = float(cpu.memory)
    if cpu.bandwidth:
        changes["memory_bandwidth"] = cpu.bandwidth
    if cpu.cores and (usual := board.named("x").processors):
        changes["peak_flops"] = {dtype: x * cpu.cores / usual for dtype, x in board.named("x").peak_flops.items()}
        changes["processors"] = cpu.cores
    if cpu.pool:
        changes["memory_pool"] = cpu.pool
    return board.named(name, **changes, **({"source": cpu.source} if cpu.source else {}))
