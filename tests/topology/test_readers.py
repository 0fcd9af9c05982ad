"""Texts of nvidia-smi, rocm-smi and system_profiler: the machines that they name, and the texts that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from topology.samples import DGX, MAC, NVIDIA_QUERY, PCIE, ROCM, SWITCHES, nvidia_query

import hetgym
from hetgym import Platform, PlatformError
from hetgym.graph import DataflowGraph, Operator, Tensor
from hetgym.topology import import_platform
from hetgym.topology.pcie import pcie_rate


def read(folder: Path, text: str, **options: object) -> Platform:
    file = folder / "machine.txt"
    file.write_text(text)
    return import_platform(file, **options)


def links(platform: Platform) -> dict[tuple[str, str], float]:
    return {(link.start, link.end): link.bandwidth for link in platform.links if link.start < link.end}


def copies(platform: Platform, pairs: list[tuple[int, int]]) -> float:
    """Time of copies of 1 GB that start together [s]."""
    large, small = Tensor((250_000_000,)), Tensor((1,))
    n = len(pairs)
    ops = [Operator(f"a{k}", "Relu", (small,), (large,)) for k in range(n)]
    ops += [Operator(f"b{k}", "View", (large,), (small,)) for k in range(n)]
    graph = DataflowGraph(ops, [(k, 0, n + k) for k in range(n)], name="copies")
    problem = hetgym.Problem.build(graph, platform)
    devices = [one for one, _ in pairs] + [other for _, other in pairs]
    order = [[k for k in range(2 * n) if devices[k] == d] for d in range(len(platform))]
    run = hetgym.simulate(problem, hetgym.Schedule(devices, order=order), runtime="links").makespan
    return run - float(problem.cost[0, 0]) - float(problem.cost[n, 0])


def test_cards_behind_a_switch_share_its_uplink(tmp_path: Path) -> None:
    """axolotl, pull request 536: four copies over one uplink take four times as long as one, at 24.57 GB/s."""
    found = read(tmp_path, SWITCHES)
    assert found.switches == ("host0", "pcie0", "pcie1") and len(found) == 8
    assert [link.end for link in found.route("gpu0", "gpu4")] == ["pcie0", "host0", "pcie1", "gpu4"]
    assert [link.end for link in found.route("gpu0", "gpu3")] == ["pcie0", "gpu3"]
    assert copies(found, [(0, 4)]) == pytest.approx(1 / 24.57, rel=0.01)
    assert copies(found, [(0, 4), (1, 5), (2, 6), (3, 7)]) == pytest.approx(4 / 24.57, rel=0.01)
    assert copies(found, [(0, 1), (4, 5)]) == pytest.approx(1 / 24.57, rel=0.01)


def test_nvlinks_stay_direct_behind_a_switch(tmp_path: Path) -> None:
    bridged = PCIE.replace("48-71\t2", "0-23\t0").replace("72-95\t3", "0-23\t0").replace("24-47\t1", "0-23\t0")
    found = read(tmp_path, bridged.replace("SYS", "PXB"), gpu="A100 80GB PCIE")
    assert found.switches == ("host0", "pcie0") and ("host0", "pcie0") in links(found)
    assert [link.kind for link in found.route("gpu0", "gpu1")] == ["12 NVLinks"]
    assert [link.end for link in found.route("gpu0", "gpu2")] == ["pcie0", "gpu2"]


def test_slots_and_memory_of_nvidia_smi_q(tmp_path: Path) -> None:
    found = read(tmp_path, NVIDIA_QUERY)
    assert [device.model for device in found] == ["NVIDIA GeForce RTX 4060 Ti 16 GB", "NVIDIA GeForce RTX 3090"]
    assert found["gpu0"].memory_capacity == 16380 << 20
    assert links(found) == {("gpu0", "host0"): pcie_rate(8e9, 8), ("gpu1", "host0"): 31.5e9}
    assert "links between GPUs are not read" in found.description
    unknown = NVIDIA_QUERY.replace("16380 MiB", "N/A").replace(": 8x", ": N/A").replace(": 3\n", ": N/A\n")
    again = read(tmp_path, unknown)
    assert again["gpu0"].memory_capacity == 8 << 30 and links(again)["gpu0", "host0"] == 15.75e9


def test_the_matrix_takes_names_and_slots_of_nvidia_smi_q(tmp_path: Path) -> None:
    matrix = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPHB\t0-7\t0\nGPU1\tPHB\t X \t0-7\t0\n"
    found = read(tmp_path, NVIDIA_QUERY + matrix)
    assert links(found) == links(read(tmp_path, NVIDIA_QUERY)) and "not read" not in found.description


def test_cards_of_rocm_smi_by_name_memory_and_socket(tmp_path: Path) -> None:
    found = read(tmp_path, ROCM)
    assert [device.model for device in found] == ["AMD Radeon RX 7900 XTX", "AMD Radeon RX 9070 XT"]
    assert [device.memory_capacity for device in found] == [25753026560, 17163091968]
    assert {("gpu0", "host0"), ("gpu1", "host1")} <= links(found).keys()
    small = read(tmp_path, ROCM.replace("25753026560", "21458059264"))
    assert small["gpu0"].model == "AMD Radeon RX 7900 XT"
    old = "GPU[0]          : Card series:          0x744c\nGPU[0]          : Card model:           Radeon RX 6900 XT\n"
    assert read(tmp_path, old)["gpu0"].model == "AMD Radeon RX 6900 XT"


def test_a_mac_is_a_chip_with_one_memory(tmp_path: Path) -> None:
    found = read(tmp_path, MAC)
    assert [device.name for device in found] == ["cpu", "gpu0"] and found.memory_pool == [0, 0]
    assert found["gpu0"].model == "Apple M4 Max 40 core" and found["gpu0"].memory_bandwidth == 546e9
    assert found["gpu0"].usable_memory == pytest.approx(55.7e9, rel=0.01)  # of 64 GiB, by a log of macOS
    assert found["cpu"].memory_capacity == 64 << 30 and "share one memory" in found.description
    assert {link.kind for link in found.links} == {"host memory", "unified memory"}
    bare = read(tmp_path, MAC.partition("Graphics")[0].replace("64 GB", "36 GB"))
    assert bare["gpu0"].model == "Apple M4 Max 32 core"
    assert bare["gpu0"].usable_memory == pytest.approx(30.2e9, rel=0.01)


BAD = {
    "third": (SWITCHES.replace("PIX", "SYS", 1).replace("GPU1\tPIX", "GPU1\tSYS"), "behind the PCIe switch of a third"),
    "sockets": (SWITCHES.replace("0-47\t0", "0-47\t1", 1), "behind one PCIe switch, and on the sockets 1 and 0"),
    "one way": (SWITCHES.replace("PIX", "PXB", 1), "GPU0 is linked to GPU1 by PXB, and GPU1 to GPU0 by PIX"),
    "no product": (
        "Product Name : N/A\n" + nvidia_query("18", "", "2805", "3", "8x", "8 MiB")[:60],
        "names no product",
    ),
    "laptop": (
        nvidia_query("01", "NVIDIA GeForce RTX 3090 Ti Laptop GPU", "24A0", "4", "8x", "N/A"),
        "no data sheet of",
    ),
    "many": (nvidia_query("01", "NVIDIA GeForce RTX 3090", "2204", "4", "16x", "N/A") * 257, "more than 256 devices"),
    "many of AMD": (
        "".join(f"GPU[{k}] : Card series: Radeon RX 6900 XT\n" for k in range(300)),
        "more than 256 devices",
    ),
    "xgmi": (ROCM.replace("PCIE ", "XGMI "), "linked by XGMI, whose links are not supported"),
    "two names": (ROCM + "GPU[0] : Card Series: Radeon RX 6900 XT\n", "GPU 0 states 'Navi 31"),
    "no name": ("GPU[0] : Card series: 0x738c\nGPU[0] : Card model: 0xc34\n", "GPU 0 has no name; name them all by"),
    "memory": (ROCM.replace("25753026560", "much"), "GPU 0 has a memory of 'much'"),
    "no card": ("ROCm System Management Interface\n", "it names no GPU; write it by 'rocm-smi"),
    "apu": ("GPU[0] : Card series: AMD Radeon 8060S\nGPU[0] : VRAM Total Memory (B): 536870912\n", "state the size"),
    "intel": (MAC.replace("Chip: Apple M4 Max", "Processor Name: Intel Core i7"), "it names no chip of Apple"),
    "no memory": (MAC.replace("Memory: 64 GB", ""), "its memory is '' GB; keep the line 'Memory: 64 GB'"),
    "much memory": (MAC.replace("64 GB", "99999 GB"), "its memory is '99999' GB"),
    "two macs": (MAC + MAC.replace("64 GB", "36 GB"), "it states '36' and '64' as Memory; keep one machine"),
    "cores": (MAC.replace("Cores: 40", "Cores: 500"), "no data sheet of the device 'Apple M4 Max 500 core'"),
    "lines": ("\n \t" * 300_000, "the file is empty"),
    "long": ("GPU0 " + "X" * 500_000, "has 0 rows of them"),
}


@pytest.mark.parametrize("case", BAD)
def test_texts_that_contradict_themselves_are_refused(case: str, tmp_path: Path) -> None:
    text, message = BAD[case]
    with pytest.raises(PlatformError) as refused:
        read(tmp_path, text)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_names_given_by_the_caller_replace_those_of_the_text(tmp_path: Path) -> None:
    for text in (NVIDIA_QUERY, ROCM, DGX.replace("NV12", "PHB").replace("SYS", "PHB")):
        assert {device.model for device in read(tmp_path, text, gpu="RTX 3090")} == {"NVIDIA GeForce RTX 3090"}
    assert read(tmp_path, MAC, gpu="M1")["gpu0"].model == "Apple M1"
