"""import_platform: a platform from a file that describes a machine, whichever program wrote it."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from hetgym._input.files import as_path, decoded, read_unpacked
from hetgym._text import plain
from hetgym.errors import HetgymError, PlatformError, shown
from hetgym.measurements import Dataset
from hetgym.platform import Platform, load_platform, platform_names
from hetgym.topology.boards import Board
from hetgym.topology.descriptions import hwloc, nccl
from hetgym.topology.device_list import device_list, lists_devices
from hetgym.topology.line_machine import line_platform
from hetgym.topology.machine import Machine
from hetgym.topology.nvidia_query import nvidia_query
from hetgym.topology.nvidia_smi import nvidia_smi
from hetgym.topology.one_line import names_a_machine
from hetgym.topology.rocm_smi import rocm_smi
from hetgym.topology.system_profiler import system_profiler
from hetgym.topology.xml import parse_xml

LONGEST_PATH = 4096  # Longest path of a file [characters], as on Linux
LONGEST_TEXT = 1 << 20  # Longest description that is passed as a text [characters]
LARGEST = 64 << 20  # Largest description that is read [byte]: lstopo writes some 500 for each core and PCI device


def import_platform(
    path: str | os.PathLike[str], boards: Sequence[Board] = (), gpu: str = "", cpus: bool = True, name: str = ""
) -> Platform:
    """A platform from a description of a machine.

    It recognises the text of ``nvidia-smi topo -m`` (best after that of ``nvidia-smi -q`` or ``-L``), of
    ``nvidia-smi -q``, of ``rocm-smi --showproductname --showmeminfo vram --showtopo`` and of a Mac's ``system_profiler
    SPHardwareDataType SPDisplaysDataType``; lists of devices by ``nvidia-smi``, ``nvidia-smi -L``, llama.cpp,
    ``vulkaninfo --summary`` and ``rocminfo``; the XML of ``lstopo`` and of NCCL (``NCCL_TOPO_DUMP_FILE``); the table
    ``NAME.csv.gz`` of ``hetgym profile`` with its card beside it; and platform files. Bandwidths of links are those
    that the file states, else those of data sheets. PCIe switches are read from ``nvidia-smi topo -m`` only, and
    network cards are left out.

    Args:
        boards: data sheets of devices that the package has none of, see :func:`load_boards`.
        gpu: name of all GPUs, for a description without names or to replace them.
        cpus: False to leave out the CPUs of ``lstopo``.
        name: name of the platform; that of the file by default.

    Raises:
        PlatformError: the file is of none of these forms, or names a device without a data sheet; the message says
            what to add.
        ConfigError, ArtefactError: a platform file or a table is malformed.

    >>> import_platform("none.txt")
    Traceback (most recent call last):
    hetgym.errors.PlatformError: none.txt: no such file
    """
    file = as_path(path, "a description of a machine", PlatformError)
    if not isinstance(boards, Sequence) or not all(isinstance(board, Board) for board in boards):
        raise PlatformError(f"boards is {shown(boards)}, not what hetgym.topology.load_boards returns")
    if not isinstance(gpu, str):
        raise PlatformError(f"gpu is {shown(gpu)}, not the name of a GPU")
    if file.suffix in (".yaml", ".yml"):
        return load_platform(file)
    title = name or plain(file.name.partition(".")[0])
    if file.name.endswith(".csv.gz"):
        found = Dataset.load(file)
        device = replace(found.device, model=found.device.model or found.machine.cpu)
        return Platform(title, (device,), description=f"{found.machine.label}, as measured")
    return _platform(read_unpacked(file, LARGEST, PlatformError), str(file), boards, gpu, cpus, title)


def _platform(data: bytes, where: str, boards: Sequence[Board], gpu: str, cpus: bool, name: str) -> Platform:
    try:
        return _machine(data, where, gpu, cpus).platform(name, boards)
    except PlatformError:
        raise
    except HetgymError as error:
        raise PlatformError(f"{where}: {error}") from error


def _machine(data: bytes, where: str, gpu: str, cpus: bool) -> Machine:
    """The machine that a description names; PlatformError for an unknown form."""
    begin = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not begin:
        raise PlatformError(f"{where}: the file is empty")
    if begin.startswith(b"<"):
        root = parse_xml(data, where)
        if root.tag == "topology":
            return hwloc(root, where, cpus, gpu)
        if root.tag == "system":
            return nccl(root, where, gpu)
        raise PlatformError(
            f"{where}: XML of {root.tag!r}; lstopo writes 'topology', and NCCL 'system' to NCCL_TOPO_DUMP_FILE"
        )
    if where.endswith((".xml", ".xml.gz")):
        raise PlatformError(f"{where}: not XML, which begins with '<'")
    text = decoded(data, where, PlatformError)
    return (_reader(text) or nvidia_smi)(text, where, gpu)


def _reader(text: str) -> Callable[[str, str, str], Machine] | None:
    """The reader of a text, by the words that its program always prints; None for an unknown form."""
    if re.search(r"(?m)^[ \t]*GPU0[ \t](.*[ \t])?X([ \t]|$)", text):
        return nvidia_smi
    if "ROCm System Management Interface" in text or re.search(r"(?m)^[ \t]*GPU ?\[?\d{1,4}\]?[ \t]*: Card ", text):
        return rocm_smi
    if re.search(r"(?m)^[ \t]*(Chip|Model Identifier): ", text):
        return system_profiler
    if re.search(r"(?m)^[ \t]*Product Name +: ", text):
        return nvidia_query
    return device_list if lists_devices(text) else None


def find_platform(
    platform: str | os.PathLike[str], boards: Sequence[Board] = (), gpu: str = "", cpus: bool = True, name: str = ""
) -> Platform:
    """A preset by name, a platform file, a description of a machine as a file or a text of several lines, or a line.

    A line names devices, as in ``2x RTX 5060 Ti 16GB, 64GB DDR5-5600``. It may state the CPU, the memory of the machine
    and its channels, the memory of a card, lanes and generation of PCIe for each card or for all, and ``nvlink``; or
    several machines and their network, as in ``2x M2 Ultra 192GB, 10GbE``. The platform's description says what is
    assumed.

    Args:
        boards, gpu, cpus, name: see :func:`import_platform`; they change no preset and no platform file.

    Raises:
        UnknownName: no preset has that name.
        PlatformError, ConfigError, ArtefactError: see :func:`import_platform`; a line with an unknown word or an
            impossible figure.

    >>> platform = find_platform("RTX 3090 x4 + GTX 1660 Super x1, PCIe 3, 128GB ddr4-3867 4 channels")
    >>> [device.model for device in platform][1:], platform["cpu"].memory_bandwidth
    (['NVIDIA GeForce RTX 3090', 'NVIDIA GeForce GTX 1660 Super'], 123744000000.0)
    """
    text = os.fspath(platform)
    if isinstance(platform, str) and len(text) <= LONGEST_TEXT and (text.startswith("<") or _reader(text)):
        return _platform(text.encode("utf-8", "replace"), "pasted text", boards, gpu, cpus, name or "pasted text")
    if isinstance(text, str) and len(text) > LONGEST_PATH:
        raise PlatformError(f"a platform is a name, a path or a line, not a text of {len(text)} characters")
    if text in platform_names():
        return load_platform(text)
    if text.endswith((".txt", ".xml", ".xml.gz", ".csv.gz")) or os.path.isfile(text):
        return import_platform(text, boards, gpu, cpus, name)
    if isinstance(platform, str) and names_a_machine(text) and not text.endswith((".yaml", ".yml")):
        if gpu:
            raise PlatformError(f"{shown(text)}: a line names its devices itself; leave gpu out")
        return line_platform(text, boards, cpus, name or " ".join(plain(text).split()))
    return load_platform(text)
