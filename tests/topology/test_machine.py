"""Links of machines by hand: rates of PCIe generations, NVLinks between unlike boards, and links to switches."""

from __future__ import annotations

import pytest

from hetgym import PlatformError
from hetgym.device import Link
from hetgym.topology.boards import Board, find_board
from hetgym.topology.descriptions import nccl
from hetgym.topology.machine import NVLINK_LATENCY, Cpu, Gpu, Machine
from hetgym.topology.xml import Element

GPU = {"kind": "gpu", "peak_flops": {"float32": 1e13}, "memory_bandwidth": 1e12}
SMALL = Board("Small", GPU, nvlinks=4, nvlink=20e9)
LARGE = Board("Large", GPU, nvlinks=6, nvlink=25e9)
CPU = Board("Proc", {"kind": "cpu", "peak_flops": {"float32": 1e12}, "memory_bandwidth": 1e11})
BOARDS = (SMALL, LARGE, CPU)


def between(machine: Machine) -> dict[tuple[str, str], Link]:
    """NVLinks of the platform, by their ends."""
    found = machine.platform("m", BOARDS).links
    return {(link.start, link.end): link for link in found if "NVLink" in link.kind}


def test_nvlinks_have_the_rate_of_the_slower_board() -> None:
    for names in (("Small", "Large"), ("Large", "Small")):
        links = between(Machine("f", tuple(Gpu(name) for name in names), nvlinks={(0, 1): 3}))
        assert [link.bandwidth for link in links.values()] == [60e9, 60e9]
        assert {link.latency for link in links.values()} == {NVLINK_LATENCY}


def test_a_board_may_use_all_its_links_and_no_more() -> None:
    pair = (Gpu("Small"), Gpu("Small"))
    assert len(between(Machine("f", pair, nvlinks={(0, 1): 4}))) == 2
    with pytest.raises(PlatformError, match="GPU 0 has 5 NVLinks, and the data sheet of 'Small' 4"):
        between(Machine("f", pair, nvlinks={(0, 1): 5}))


def test_gpus_that_see_more_links_than_they_have_share_a_switch() -> None:
    """Each of three reports four links to each other one: they are the same four, to the switch."""
    pairs = {(0, 1): 4, (0, 2): 4, (1, 2): 4}
    links = between(Machine("f", (Gpu("Small"),) * 3, nvlinks=pairs))
    assert {end for link in links for end in link if not end.startswith("gpu")} == {"nvswitch"} and len(links) == 6
    assert {(link.bandwidth, link.latency) for link in links.values()} == {(80e9, NVLINK_LATENCY / 2)}
    two = {pair: 2 for pair in pairs}  # four in sum, as many as a board has
    assert all("nvswitch" not in ends for ends in between(Machine("f", (Gpu("Small"),) * 3, nvlinks=two)))


@pytest.mark.parametrize(
    ("speed", "width", "rate"),
    [
        ("2.5 GT/s PCIe", "16", 2.5e9 * 16 / 8 * 0.8),
        ("5.0 GT/s PCIe", "8", 5e9 * 8 / 8 * 0.8),
        ("8.0 GT/s PCIe", "16", 8e9 * 16 / 8 * 128 / 130),
        ("16.0 GT/s PCIe", "16", 16e9 * 16 / 8 * 128 / 130),
        ("Unknown", "16", None),
        ("16.0 GT/s PCIe", "0", None),
    ],
)
def test_rates_of_pcie(speed: str, width: str, rate: float | None) -> None:
    pci = {"busid": "0000:01:00.0", "link_speed": speed, "link_width": width, "vendor": "0x10de", "device": "0x1"}
    card = Element("pci", pci, [Element("gpu", {})])
    (gpu,) = nccl(Element("system", {}, [Element("cpu", {}, [card])]), "f", gpu="Small").gpus
    assert (gpu.name, gpu.socket, gpu.way) == ("Small", 0, "PCIe") and gpu.pcie == pytest.approx(rate)


def test_boards_are_known_by_most_words_then_by_numbers_then_the_users_first() -> None:
    own = Board("Small Fast", GPU), Board("Other", GPU, pci=("10de:ffff",))
    assert find_board("Fast Small 8 GB", "", (SMALL, *own), "f") is own[0]
    assert find_board("nothing known", "10DE:FFFF", own, "f") is own[1]
    with pytest.raises(PlatformError, match="no data sheet of the device 'nothing known'"):
        find_board("nothing known", "10de:eeee", own, "f")


def test_devices_are_linked_to_their_sockets_and_sockets_to_each_other() -> None:
    machine = Machine("f", (Gpu("Small", socket=1, pcie=12e9), Gpu("Small", socket=1)), (Cpu(0, "Proc", 64),))
    platform = machine.platform("m", BOARDS)
    assert [device.name for device in platform] == ["cpu", "gpu0", "gpu1"] and platform.switches == ("host0", "host1")
    assert platform["cpu"].memory_capacity == 64
    rates = {(link.start, link.end): link.bandwidth for link in platform.links}
    assert rates["gpu0", "host1"] == 12e9 and rates["gpu1", "host1"] == SMALL.pcie and ("host0", "host1") in rates
    assert [link.end for link in platform.route("cpu", "gpu1")] == ["host0", "host1", "gpu1"]


def test_a_named_cpu_shares_the_memory_of_the_chip_on_its_socket() -> None:
    chip = Board("Chip", {**GPU, "memory_pool": "memory", "memory_capacity": 64.0})
    machine = Machine("f", (Gpu("Chip", socket=1),), (Cpu(0, "Proc", 64), Cpu(1, "Proc", 60)))
    platform = machine.platform("m", (*BOARDS, chip))
    assert [device.memory_pool for device in platform] == ["", "memory", "memory"]
    with pytest.raises(PlatformError, match="2 of its chips share memory with a CPU"):
        Machine("f", (Gpu("Chip"), Gpu("Chip")), (Cpu(0, "Proc"),)).platform("m", (*BOARDS, chip))
