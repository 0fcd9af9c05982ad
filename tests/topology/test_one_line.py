"""Machines in a line: what is stated, what is assumed, and what is refused."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from cli.commands import ask

import hetgym
from hetgym import Platform, PlatformError, UnknownName
from hetgym.topology import find_platform, load_boards
from hetgym.topology.one_line import items_of, names_a_machine
from hetgym.topology.pcie import pcie_rate

GIB = 2**30


def memories(platform: Platform) -> dict[str, float]:
    return {device.name: device.memory_capacity / GIB for device in platform}


def rates(platform: Platform) -> dict[str, float]:
    """Bandwidth of the link of each device to its host."""
    return {link.start: link.bandwidth for link in platform.links if link.end.startswith("host")}


@pytest.mark.parametrize(
    ("line", "models", "sizes"),
    [
        ("3090+2080Ti, 64GB ddr4-3600", ["GeForce RTX 3090", "GeForce RTX 2080 Ti"], [24, 11]),
        ("2x RTX 5060 Ti 16GB, 64 GB DDR5-5600", ["GeForce RTX 5060 Ti 16 GB"] * 2, [16, 16]),
        ("4x 2080Ti 22GB", ["GeForce RTX 2080 Ti"] * 4, [22] * 4),
        ("RX 7900 XTX + 64GB", ["AMD Radeon RX 7900 XTX"], [24]),
        ("1 x p40 and 2 × GTX 1080 Ti", ["Tesla P40", "GeForce GTX 1080 Ti", "GeForce GTX 1080 Ti"], [24, 11, 11]),
        ("RTX3060;arc b580 & mi50 32gb", ["GeForce RTX 3060", "Arc B580", "Instinct MI50 32 GB"], [12, 12, 32]),
        ("NVIDIA RTX A6000 48 GB VRAM", ["RTX A6000"], [48]),
        ("2x3090", ["GeForce RTX 3090"] * 2, [24, 24]),
        ("3090 x2 + P40 x3", ["GeForce RTX 3090"] * 2 + ["Tesla P40"] * 3, [24] * 5),
        ("3090x2", ["GeForce RTX 3090"] * 2, [24, 24]),
        ("8xA100", ["A100 PCIe 40 GB"] * 8, [40] * 8),
        ("dual 3090", ["GeForce RTX 3090"] * 2, [24, 24]),
        ("7900XTX", ["AMD Radeon RX 7900 XTX"], [24]),
        ("RTX 4090 Laptop", ["RTX 4090 Laptop"], [16]),
        ("RTX 3080 mobile 16GB", ["RTX 3080 Laptop 16GB"], [16]),
        ("RX 6600 XT", ["RX 6600 XT"], [8]),
        ("Mac Studio M2 Ultra 192GB", ["M2 Ultra"], [192]),
        ("MacBook Pro M3 Max 64GB", ["M3 Max 40 core"], [64]),
        ("Mac Studio (M2 Ultra, 192GB)", ["M2 Ultra"], [192]),
        ("DGX Spark", ["GB10"], [128]),
        ("Jetson Orin 64GB", ["Jetson AGX Orin"], [64]),
    ],
)
def test_cards_and_their_memory(line: str, models: list[str], sizes: list[float]) -> None:
    gpus = [device for device in find_platform(line) if device.kind == "gpu"]
    assert all(device.model.endswith(model) for device, model in zip(gpus, models, strict=True))
    assert [device.memory_capacity / GIB for device in gpus] == sizes


@pytest.mark.parametrize(
    ("line", "size", "bandwidth", "assumed"),
    [
        ("3090, 64GB ddr4-3600", 64, 57.6e9, "2 channels of DDR4-3600"),
        ("3090, 2x32GB DDR5-6000", 64, 96e9, "2 channels of DDR5-6000"),
        ("3090, 128GB, 4 channels DDR4-3200", 128, 102.4e9, ""),
        ("3090, 128 GB RAM, quad channel, ddr4", 128, 102.4e9, "4 channels of DDR4-3200"),
        ("3090, 1TB DDR5-4800 12-channel", 1024, 460.8e9, ""),
        ("3090 + 64GB", 64, 51.2e9, "2 channels of DDR4-3200"),
        ("3090, EPYC 7742 512GB", 512, 204.8e9, ""),
    ],
)
def test_memory_of_the_machine(line: str, size: float, bandwidth: float, assumed: str) -> None:
    found = find_platform(line)
    assert found["cpu"].memory_capacity == size * GIB and found["cpu"].memory_bandwidth == pytest.approx(bandwidth)
    assert assumed in found.description and ("channels of" in found.description) == bool(assumed)
    assert ("cores is assumed" in found.description) == ("EPYC" not in line)


@pytest.mark.parametrize(
    ("line", "model", "cores", "size", "bandwidth"),
    [
        ("64GB ddr5-6000", "CPU that is not named", 8, 64, 96e9),
        ("7950X, 64GB ddr5-6000", "AMD Ryzen 9 7950X", 16, 64, 96e9),
        ("Ryzen 9 7950X 16-core 64GB", "AMD Ryzen 9 7950X", 16, 64, 83.2e9),
        ("3090, i9-10900X, 128GB", "Intel Core i9-10900X", 10, 128, 93.856e9),
        ("EPYC 7402, 512GB", "AMD EPYC 7402", 24, 512, 204.8e9),
        ("Threadripper 3960X, 256GB, ddr4-3600", "AMD Ryzen Threadripper 3960X", 24, 256, 115.2e9),
        ("EPYC, 512GB", "CPU that is not named", 32, 512, 204.8e9),
        ("Core i9, 64GB ddr5", "CPU that is not named", 8, 64, 89.6e9),
        ("3090, 32 cores, 64GB", "CPU that is not named", 32, 64, 51.2e9),
        ("24-core CPU, 64GB quad channel", "CPU that is not named", 24, 64, 102.4e9),
        ("1TB DDR5-4800 12-channel", "CPU that is not named", 64, 1024, 460.8e9),
        ("EPYC 9454P, 384GB 6 channels", "AMD EPYC 9454P", 48, 384, 230.4e9),
    ],
)
def test_cpus_by_name_family_or_memory(line: str, model: str, cores: int, size: float, bandwidth: float) -> None:
    cpu = find_platform(line)["cpu"]
    assert (cpu.model, cpu.processors, cpu.memory_capacity / GIB) == (model, cores, size)
    assert cpu.memory_bandwidth == pytest.approx(bandwidth)
    if model == "CPU that is not named":
        assert cpu.peak_flops["float32"] == pytest.approx(0.742e12 * cores / 8)


@pytest.mark.parametrize(
    ("line", "models", "kind", "rate"),
    [
        ("M2 Ultra 192GB + M3 Max 64GB", ["M2 Ultra", "M3 Max 40 core"], "1 Gbit Ethernet", 0.125e9),
        ("2x M2 Ultra 192GB, thunderbolt 5", ["M2 Ultra"] * 2, "Thunderbolt 5", 10e9),
        ("M4 Max, 64GB + M4, 16GB, TB4", ["M4 Max 40 core", "M4"], "Thunderbolt 4", 5e9),
        ("2x DGX Spark, 200GbE", ["GB10"] * 2, "200 Gbit Ethernet", 25e9),
        ("3090, 64GB | M2 Max 64GB | 10 Gbit Ethernet", ["RTX 3090", "M2 Max"], "10 Gbit Ethernet", 1.25e9),
        ("7950X, 64GB | 3090", ["RTX 3090"], "1 Gbit Ethernet", 0.125e9),
    ],
)
def test_machines_that_a_network_joins(line: str, models: list[str], kind: str, rate: float) -> None:
    found = find_platform(line)
    gpus = [device for device in found if device.kind == "gpu"]
    assert all(device.model.endswith(model) for device, model in zip(gpus, models, strict=True))
    cables = [link for link in found.links if "network" in (link.start, link.end)]
    assert {(link.kind, link.bandwidth) for link in cables} == {(kind, rate)} and len(cables) == 4
    assert f"{kind} between machines" in found.description
    assert ("machines is assumed" in found.description) == (rate == 0.125e9)
    pools = [device.memory_pool for device in found if device.memory_pool]
    assert all(pools.count(pool) == 2 for pool in pools)  # a GPU and a CPU of one machine


def test_three_cards_in_slots_of_their_own() -> None:
    line = "RTX 3090 x16, RTX 3090 x4, GTX 1660 Super x1, PCIe 3, 128GB ddr4-3867 4 channels"
    found = find_platform(line)
    lanes = {"gpu0": 16, "gpu1": 4, "gpu2": 1}
    assert {k: rate for k, rate in rates(found).items() if k != "cpu"} == {
        name: pytest.approx(pcie_rate(8e9, count)) for name, count in lanes.items()
    }
    assert found.name == line and found["cpu"].memory_bandwidth == pytest.approx(123.744e9)
    assert "slots" not in found.description and "no peer access is assumed" in found.description
    assert [link.end for link in found.route("gpu0", "gpu2")] == ["host0", "gpu2"]


@pytest.mark.parametrize(
    ("line", "transfers", "lanes"),
    [
        ("2x RTX 4060 x16, PCIe 3", 8e9, 8),
        ("2x 3090, pcie gen 3 x8", 8e9, 8),
        ("2x 3090 PCI-E 4.0 x4", 16e9, 4),
        ("2x 3090, x8", 16e9, 8),
        ("2x P40, PCIe 5", 8e9, 16),
        ("2x 5090", 32e9, 16),
    ],
)
def test_board_and_slot_agree_on_lanes_and_generation(line: str, transfers: float, lanes: int) -> None:
    found = list(rates(find_platform(line)).values())
    assert found == pytest.approx([pcie_rate(transfers, lanes)] * 2, rel=1e-3)


def test_nvlink_joins_equal_boards_two_by_two() -> None:
    found = find_platform("2x 3090 nvlink, 3090, 2x RTX A6000, RTX 4090")
    pairs = {(link.start, link.end): link.bandwidth for link in found.links if "NVLink" in link.kind}
    assert pairs == {pair: 56.25e9 for pair in (("gpu0", "gpu1"), ("gpu1", "gpu0"), ("gpu3", "gpu4"), ("gpu4", "gpu3"))}
    assert "no peer access" not in find_platform("3090+3090 nvlink").description
    assert "nvswitch" in find_platform("8x A100 SXM4 80GB").switches
    assert "NVLink switch is assumed" in find_platform("2x H200").description


@pytest.mark.parametrize(
    ("line", "size", "usable"),
    [
        ("M2 Max 64GB", 64, 55.7), ("apple m1, 16 GB unified memory", 16, 11.45), ("M3 Pro 18GB", 18, 14.3),
        ("M2 Pro 32GB", 32, 26.8), ("M4 Max 40-core + 128GB", 128, 111.3), ("Ryzen AI Max+ 395 128GB", 128, 130.6),
        ("GB10", 128, 130.6), ("DGX Spark 128GB", 128, 130.6),
    ],
)  # fmt: skip
def test_unified_memory_is_one_pool(line: str, size: int, usable: float) -> None:
    """What the GPU may use of a Mac's memory is that of logs of macOS [GB]."""
    found = find_platform(line)
    assert memories(found) == {"cpu": size, "gpu0": size} and found.memory_pool == [0, 0]
    assert found["gpu0"].usable_memory == pytest.approx(usable * 1e9, rel=0.01)
    assert found["cpu"].memory_bandwidth == found["gpu0"].memory_bandwidth / 2
    assert "share one memory" in found.description


def test_a_model_that_two_devices_of_one_memory_cannot_hold_is_refused() -> None:
    """93 GB do not fit into 64 GiB, although two devices name that memory."""
    problem = hetgym.Problem.build(
        hetgym.load_graph("mixtral-8x7b", dims={"sequence": 1}, dtype="float16"), find_platform("M2 Max 64GB")
    )
    with pytest.raises(hetgym.HetgymError, match="have 68.72 GB"):
        hetgym.plan(problem, budget="1ms")


REFUSED = {
    "RTX 3050 Ti": "no data sheet of 'RTX 3050 TI'",
    "RTX 3080 Ti Super": "no data sheet of",
    "RTX 4060 Ti Laptop": "no data sheet of 'RTX 4060 TI LAPTOP'; did you mean 'RTX 4060 LAPTOP'",
    "3909+2080Ti": "unknown word '3909'; did you mean 'RTX 3090'",
    "3090 1e99GB": "unknown word '1E99GB'",
    "3090, 64GB turbo": "unknown word 'TURBO'",
    "3090 -5GB": "unknown word '-5GB'",
    "999x 3090": "states 999 devices, and a machine has 1 to 256; write '2x RTX 3090'",
    "200x 3090 + 200x 4090": "it names more than 256 devices",
    "0x 3090": "states 0 devices, and a machine has 1 to 256",
    "3090x4": "'3090X4' may be a count or lanes; write '2x RTX 3090' for two cards",
    "2x 3090 x3": "states '3': slots have 1, 2, 4, 8, 16 lanes; write '2x RTX 3090' for two cards",
    "3090 x0": "states 0 devices, and a machine has 1 to 256",
    "3090 x4 x8": "states X4 and X8; separate items by commas",
    "3090, PCIe 9": "states '9': PCIe has the generations 1 to 6",
    "3090, 64GB, 32GB": "it states memory of the machine twice",
    "3090, PCIe 3, PCIe 4": "it states pcie of the machine twice",
    "3090 64GB DDR4": "mixes card and memory; separate them by a comma",
    "3090 24GB 48GB": "states 24GB and 48GB",
    "3090 0GB": "the memory of '3090 0GB' [GiB] is 0.0; it must be at least 0.25",
    "3090, 999999999TB": "it must be at least 0.25 and at most 65536",
    "3090, 64GB DDR4-99999": "[MT/s] is 99999.0; it must be at least 200",
    "3090, 64GB, 99 channels": "channels are whole numbers from 1 to 24",
    "4090+5090 nvlink": "an NVLink joins two equal boards that have one; RTX 4090 has none, RTX 5090 has none",
    "3090+3090 Ti nvlink": "an NVLink joins two equal boards that have one; RTX 3090 has 4",
    "M2 Max": "Apple M2 Max comes with several sizes of memory; state the size",
    "2x M2 Max": "Apple M2 Max comes with several sizes of memory; state the size, as in 'Apple M2 Max 64GB'",
    "Strix Halo": "comes with several sizes of memory; state the size, as in 'AMD Ryzen AI Max+ 395 64GB'",
    "Mac mini 16GB": "unknown word 'MAC'",
    "Ryzen 9 7951X, 64GB": "unknown word '7951X'; did you mean 'RYZEN 9 7950X'",
    "Core Ultra 9 289K, 64GB": "unknown word '289K'; did you mean 'ULTRA 9 285K'",
    "7950X": "it names no GPU and no memory; write '2x RTX 3090', or '7950X, 64GB DDR5-6000'",
    "3090, 64GB, 9999 cores": "is 9999; it must be at least 1 and at most 1024",
    "3090, 64GB, 8 cores, 16 cores": "it states cores of the machine twice",
    "3090, 64GB, 10GbE": "it states 1 networks and 1 machines; one network joins several",
    "2x M2 Max 64GB, 10GbE, TB5": "it states 2 networks and 2 machines; one network joins several",
    "2x M2 Max 64GB, 0GbE": "the rate of Ethernet [Gbit/s] is 0.0; it must be positive",
    "300x M2 Max 64GB": "states 300 devices, and a machine has 1 to 256",
    "200x M2 Max 64GB | 200x M2 Max 64GB": "it names more than 256 devices",
    "3090, " * 100: "a line has at most 400 characters",
    "3090 " * 200_000: "not a text of 1000000 characters",
    "x" * 1_000_000: "not a text of 1000000 characters",
}


@pytest.mark.parametrize("line", REFUSED, ids=lambda line: line[:30])
def test_bad_lines_are_refused_in_a_sentence(line: str) -> None:
    begin = time.process_time()
    with pytest.raises(PlatformError) as refused:
        find_platform(line)
    assert REFUSED[line] in str(refused.value) and str(refused.value).isprintable()
    assert time.process_time() - begin < 2.0


@pytest.mark.parametrize("name", ["cpu-gpuu", "8gpu-nodes", "snapdragon-8", "", "gpu", "+", ",,,", "\0"])
def test_a_misspelt_name_is_no_line(name: str) -> None:
    assert not names_a_machine(name)
    with pytest.raises(UnknownName, match="unknown platform"):
        find_platform(name)


def test_presets_and_files_come_before_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_platform("cpu-gpu") == hetgym.load_platform("cpu-gpu")
    monkeypatch.chdir(tmp_path)
    Path("RTX 3090").write_text("\n")
    with pytest.raises(PlatformError, match="the file is empty"):
        find_platform("RTX 3090")
    with pytest.raises(PlatformError, match="none.txt: no such file"):
        find_platform("none.txt")
    with pytest.raises(PlatformError, match="a line names its devices itself; leave gpu out"):
        find_platform("RTX 4090, 64GB", gpu="A100")


def test_own_boards_and_no_cpus(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "boards: [{name: Frob 9, device: {kind: gpu, peak_flops: {float32: 1e12}, memory_bandwidth: 1e11}}]"
    )
    found = find_platform("2x frob 9 12GB, 64GB", load_boards(tmp_path / "own.yaml"), cpus=False, name="mine")
    assert memories(found) == {"gpu0": 12, "gpu1": 12} and found.name == "mine"


def test_items_keep_figures_apart_from_products() -> None:
    first, second = items_of("2x RTX 3090 24GB PCIe 4.0 x8, 2x32GB lpddr5x-8000 dual-channel")
    assert (first.product, first.count, first.memory, first.generation, first.lanes) == ("RTX 3090", 2, 24 * GIB, 4, 8)
    assert (second.product, second.memory, second.transfers, second.channels) == ("", 64 * GIB, 8000, 2)


def test_the_command_shows_and_writes_a_line(tmp_path: Path) -> None:
    done = ask("platform", "3090+2080Ti, 64GB ddr4-3600", "--out", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in ("2 channels of DDR4-3600 are assumed", "NVIDIA GeForce RTX 2080 Ti", "gpu1 - host0", "PCIe 3.0 x16"):
        assert words in done.stdout
    assert len(hetgym.load_platform(tmp_path / "mine.yaml")) == 3
    done = ask("platform", "cpu-gpu", "--json", cwd=tmp_path)
    assert [device["name"] for device in json.loads(done.stdout)["devices"]] == ["cpu", "gpu"]
    done = ask("platform", "RTX 3909", cwd=tmp_path)
    assert done.returncode == 2 and "did you mean 'RTX 3090'" in done.stderr and "Traceback" not in done.stderr
