"""Platforms from descriptions of machines, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from cli.commands import ask
from topology.samples import DGX, H100, HWLOC, LSTOPO, NCCL, NCCL_C2C, NCCL_SWITCH, OLD, PCIE

import hetgym
from hetgym import ConfigError, HetgymError, Platform, PlatformError
from hetgym.measurements.dataset import FOLDER
from hetgym.topology import find_platform, import_platform, load_boards
from hetgym.topology.boards import shipped_boards


def read(folder: Path, data: str | bytes, name: str = "topo.txt", **options: object) -> Platform:
    file = folder / name
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return import_platform(file, **options)


def links(platform: Platform) -> dict[tuple[str, str], float]:
    return {(link.start, link.end): link.bandwidth for link in platform.links if link.start < link.end}


def test_a_dgx_is_the_preset_of_it(tmp_path: Path) -> None:
    found = read(tmp_path, DGX, "dgx.txt")
    preset = hetgym.load_platform("8gpu-node")
    assert found.name == "dgx" and len(found) == 8 and "nvswitch" in found.switches
    for ours, theirs in zip(found, preset, strict=True):
        for figure in (
            "model",
            "peak_flops",
            "memory_bandwidth",
            "memory_capacity",
            "processors",
            "cache_bytes",
            "costs",
        ):
            assert getattr(ours, figure) == getattr(theirs, figure)
    assert (found.bandwidth == preset.bandwidth).all() and (found.latency == preset.latency).all()


def test_bridged_pairs_keep_their_links(tmp_path: Path) -> None:
    smi = read(tmp_path, PCIE, gpu="NVIDIA A100 80GB PCIe")
    xml = read(tmp_path, NCCL, "topo.xml")
    for found in (smi, xml):
        assert {device.model for device in found} == {"NVIDIA A100 PCIe 80 GB"}
        direct = {pair: rate for pair, rate in links(found).items() if pair[0].startswith("gpu") and "gpu" in pair[1]}
        assert direct == {("gpu0", "gpu1"): 300e9, ("gpu2", "gpu3"): 300e9}
        assert [link.end for link in found.route("gpu0", "gpu2")] == ["host0", "host1", "host2", "gpu2"]
    assert links(smi) == links(xml)


@pytest.mark.parametrize("card", ["NIC0", "mlx5_bond_0", "bnxt_re0", "rdmap0s6", "ibp24s0", "hfi1_0"])
def test_sockets_are_read_below_their_heading_whatever_network_cards_are_called(tmp_path: Path, card: str) -> None:
    for k, text in enumerate((H100, H100.replace("\t", "   "))):
        found = read(tmp_path, text.replace("NIC0", card), f"{k}.txt", gpu="NVIDIA H100 80GB HBM3")
        assert [found.route(f"gpu{k}", f"gpu{(k + 4) % 8}")[0].end for k in range(8)] == ["nvswitch"] * 8
        assert {(f"gpu{k}", f"host{k // 4}") for k in range(8)} <= links(found).keys()


def test_sockets_of_rows_without_cpu_affinity(tmp_path: Path) -> None:
    bare = PCIE.replace("24-47\t", "\t").replace("48-71\t2", "48-71\t\t2-3").replace("72-95\t3", "N/A\tN/A")
    found = read(tmp_path, bare, gpu="NVIDIA A100 80GB PCIe")
    assert {("gpu1", "host1"), ("gpu2", "host2"), ("gpu3", "host0")} <= links(found).keys()
    old = "\n".join(line.rpartition("\t")[0] for line in PCIE.splitlines())
    assert ("gpu3", "host3") in links(read(tmp_path, old, "old.txt", gpu="NVIDIA A100 80GB PCIe"))


def test_old_drivers_say_sockets_by_cpu_affinity(tmp_path: Path) -> None:
    for k, text in enumerate((OLD, OLD.replace("CPU Affinity", "CPU    Affinity\tNUMA Affinity"))):
        found = read(tmp_path, text.replace("\n", "\tN/A\n") if k else text, f"{k}.txt", gpu="Tesla V100-SXM2-16GB")
        assert {pair for pair in links(found) if "host" in pair[1] and "gpu" in pair[0]} == {
            ("gpu0", "host0"), ("gpu1", "host0"), ("gpu2", "host1"), ("gpu3", "host1"),
        }  # fmt: skip
        assert links(found)["gpu0", "gpu1"] == 25e9 and links(found)["gpu0", "gpu2"] == 50e9


def test_spaces_for_tabs_without_cpu_affinity(tmp_path: Path) -> None:
    text = H100.replace("104-155", "").replace("52-103", "").replace("\t", "    ")
    assert {(f"gpu{k}", f"host{k // 4}") for k in range(8)} <= links(read(tmp_path, text, gpu="H100 HBM3")).keys()


@pytest.mark.parametrize("escape", ["\x1b", ""])
def test_underlined_headings_and_names_of_reports(escape: str, tmp_path: Path) -> None:
    head, _, rows = H100.partition("\n")
    names = "GPU 0,1,2,3,4,5,6,7: NVIDIA H100 80GB HBM3\nGPU 0,1,2,3,4,5,6,7 Compute Capability: 9.0\n"
    found = read(tmp_path, f"{names}\t{escape}[4m{head.strip()}{escape}[0m\n{rows}")
    assert {device.model for device in found} == {"NVIDIA H100 SXM5 80 GB"} and "nvswitch" in found.switches
    report = "GPU 0: Tesla T4\nGPU 0: none\nGPU0\n  clock: 1980 MHz\n"
    one = report + "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-7\t0\t\tN/A\n"
    assert read(tmp_path, one)["gpu0"].model == "NVIDIA T4"


def test_switches_and_stated_rates(tmp_path: Path) -> None:
    found = read(tmp_path, NCCL_SWITCH, "topo.xml")
    assert links(found)["gpu2", "nvswitch"] == 12 * 25e9
    assert links(found)["gpu2", "host2"] == pytest.approx(31.5e9, rel=1e-3)  # 16 lanes of 16 GT/s
    bare = NCCL_SWITCH.replace(' vendor="0x10de" device="0x20b5"', "").replace("0000:c", "fffffff:ff:ff.")
    assert links(read(tmp_path, bare, "bare.xml", gpu="A100 80GB PCIE")) == links(found)
    c2c = read(tmp_path, NCCL_C2C, "c2c.xml")
    assert links(c2c)["gpu1", "host1"] == 5 * 44.712e9
    assert {link.kind for link in c2c.links if "host1" in (link.start, link.end)} == {"C2C", "between sockets"}
    h100 = read(tmp_path, H100, gpu="NVIDIA H100 80GB HBM3")
    assert links(h100)["gpu0", "nvswitch"] == 450e9 and h100["gpu0"].processors == 132


def test_lstopo_names_processors_memory_and_cards(tmp_path: Path) -> None:
    found = read(tmp_path, HWLOC, "machine.xml")
    assert [device.name for device in found] == ["cpu0", "cpu1", "gpu0", "gpu1"]
    assert found["cpu1"].memory_capacity == 270e9 and found["cpu1"].model == "AMD EPYC 7742"
    assert {found["gpu0"].model, found["gpu1"].model} == {"NVIDIA A100 SXM4 80 GB"}
    assert links(found)["gpu0", "host0"] == 31.507692e9 and links(found)["gpu1", "host1"] == 15.753846e9
    assert "links between GPUs are not read" in found.description
    assert read(tmp_path, HWLOC, "m.xml", gpu="V100 SXM2 32GB")["gpu1"].model == "NVIDIA Tesla V100 SXM2 32 GB"
    assert [device.name for device in read(tmp_path, HWLOC, "m.xml", cpus=False)] == ["gpu0", "gpu1"]


def test_a_real_file_of_lstopo_needs_the_data_sheet_of_its_processor(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="no data sheet of the device 'AMD EPYC'; add one by 'hetgym platform this"):
        read(tmp_path, LSTOPO, "this.xml")
    (tmp_path / "own.yaml").write_text(
        "boards: [{name: AMD EPYC, device: {kind: cpu, peak_flops: {float32: 1e11}, memory_bandwidth: 2e10}}]"
    )
    (device,) = read(tmp_path, LSTOPO, "this.xml", boards=load_boards(tmp_path / "own.yaml"))
    assert device.name == "cpu" and device.memory_capacity == 25276502016


def test_profiles_are_platforms() -> None:
    found = import_platform(FOLDER / "xeon-core.csv.gz")
    assert found.name == "xeon-core" and found["cpu"].peak_flops["float32"] == 1.661e11


def test_plan_takes_a_description(tmp_path: Path) -> None:
    (tmp_path / "dgx.txt").write_text(DGX)
    done = ask("plan", "alexnet", "--platform", "dgx.txt", "--schedulers", "heft", cwd=tmp_path)
    assert done.returncode == 0 and "alexnet@dgx" in done.stdout, done.stderr
    assert find_platform("cpu-gpu") == hetgym.load_platform("cpu-gpu")


def test_the_command_writes_a_platform_file(tmp_path: Path) -> None:
    (tmp_path / "topo.xml").write_text(HWLOC)
    done = ask("platform", "topo.xml", "--out", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 x AMD EPYC 7742, 2 x NVIDIA A100 SXM4 80 GB" in done.stdout and "gpu0 - host0" in done.stdout
    again = hetgym.load_platform(tmp_path / "mine.yaml")
    assert again.to_dict() == import_platform(tmp_path / "topo.xml", name="mine").to_dict()
    done = ask("platform", "topo.xml", "--gpus-only", "--json", cwd=tmp_path)
    assert [device["name"] for device in json.loads(done.stdout)["devices"]] == ["gpu0", "gpu1"]
    done = ask("platform", "topo.xml", "--out", "mine.txt", cwd=tmp_path)
    assert done.returncode == 2 and "--out mine.txt: a platform file ends in .yaml" in done.stderr


BOMB = '<!DOCTYPE s [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><system><cpu numaid="&b;"/></system>'

BAD = {
    "nothing.txt": ("none", "no matrix of 'nvidia-smi topo -m'"),
    "empty.txt": ("\n", "the file is empty"),
    "blank.xml": ("", "the file is empty"),
    "text.xml": ("GPU0", "not XML, which begins with '<'"),
    "one-way.txt": (PCIE.replace("NV12", "SYS", 1), "GPU0 is linked to GPU1 by SYS, and GPU1 to GPU0 by NV12"),
    "counts.txt": (PCIE.replace("NV12", "NV4", 1), "GPU0 is linked to GPU1 by NV4, and GPU1 to GPU0 by NV12"),
    "many.txt": (PCIE.replace("NV12", "NV999"), "GPU0 and GPU1 are linked by 'NV999', and a GPU has up to 36"),
    "none.txt": (PCIE.replace("NV12", "NV0"), "GPU0 and GPU1 are linked by 'NV0', and a GPU has up to 36"),
    "self.txt": (PCIE.replace("NV12", " X "), "GPU0 and GPU1 are linked by 'X'"),
    "heading.txt": (PCIE.replace("GPU2\tGPU3\tCPU", "GPU3\tGPU2\tCPU"), "does not name the GPUs from GPU0 to GPU3"),
    "names.txt": (PCIE, "does not name its GPUs; put the output of 'nvidia-smi -L' before it"),
    "entry.txt": (
        DGX.replace("NV12", "NVX", 1),
        "GPU0 and GPU1 are linked by 'NVX', which 'nvidia-smi topo -m' never prints",
    ),
    "rows.txt": (DGX.replace("\nGPU7", "\nGPV7"), "the matrix names 8 GPUs and has 7 rows"),
    "twice.txt": (DGX.replace("\nGPU7", "\nGPU6"), "it has two rows of GPU6; keep one matrix, that of 'topo -m'"),
    "bomb.xml": (BOMB, "declares types of its own"),
    "deep.xml": ("<a>" * 300, "nested deeper than 200"),
    "open.xml": ("<system><cpu>", "not XML"),
    "encoding.xml": ('<?xml version="1.0" encoding="none"?><system/>', "not XML"),
    "other.xml": ("<html/>", "XML of 'html'; lstopo writes 'topology', and NCCL 'system' to NCCL_TOPO_DUMP_FILE"),
    "old.xml": (HWLOC.replace('version="2.0"', ""), "written by hwloc 1"),
    "short.txt": (PCIE.replace("\t0-23\t0", ""), "row 'GPU0' does not fit a matrix of 4 GPUs"),
    "p2p.txt": ("\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n", "linked by 'OK', which 'nvidia-smi topo -m' never prints"),
    "rates.txt": ("   GPU0   GPU1\nGPU0:    -   53.8\nGPU1:  53.8   -\n", "the matrix names 2 GPUs and has 0 rows"),
    "rated.txt": ("GPU0:    -   53.8\nGPU1:  53.8   -\n", "no matrix of 'nvidia-smi topo -m'"),
    "two-machines.txt": (DGX + DGX, "it has two rows of GPU0; keep one matrix, that of 'topo -m'"),
    "sockets.txt": (PCIE.partition("\tCPU")[0] + PCIE[PCIE.index("\n") :], "no column 'CPU Affinity' says on which"),
    "board.txt": (DGX.replace("A100-SXM4-80GB", "L40S"), "GPU 0 has 12 NVLinks, and the data sheet of 'L40S' 0;"),
    "empty.xml": ("<topology version='2.0'/>", "it names no GPU and no CPU"),
    "file.xml": (
        "<system><cpu><pci class='0x030200'/></cpu></system>",
        "take what a run writes to NCCL_TOPO_DUMP_FILE",
    ),
    "graph.xml": ("<graphs version='1'/>", "XML of 'graphs'"),
    "rccl.xml": (NCCL.replace("nvlink", "xgmi"), "written by RCCL, whose xgmi links are not supported"),
    "numbers.xml": (NCCL.replace("vendor", "seller"), "the GPU '0001:00:00.0' has no PCI numbers; name them all by"),
    "hosts.xml": (NCCL.replace("</system>", NCCL[NCCL.index("  <cpu") :]), "duplicate GPU '0001:00:00.0'"),
    "to-itself.xml": (NCCL.replace('target="0002', 'target="0001'), "an nvlink of '0001:00:00.0' leads to itself"),
    "unequal.xml": (NCCL.replace('count="12"', 'count="6"', 1), "GPUs 0 and 1 state 6 and 12 NVLinks"),
    "power.xml": (NCCL_SWITCH.replace("0x068000", "0x068001"), "NVLinks to processors are not supported"),
    "bw.xml": (NCCL_C2C.replace("44712", "fast"), "bw is 'fast', which is not a whole number"),
    "memory.xml": (HWLOC.replace("270000000000", "much", 1), "local_memory is 'much', which is not a whole number"),
    "card.xml": (NCCL.replace("0x20b5", "0xffff"), "no data sheet of the device with PCI numbers 10de:ffff"),
    "count.xml": (NCCL.replace('count="12"', 'count="-1"'), "an nvlink of count '-1'"),
    "links.xml": (NCCL.replace('count="12"', 'count="999"'), "an nvlink of count 999, and a GPU has up to 36"),
    "alone.xml": ("<system><gpu dev='0'/></system>", "a gpu element lies outside cpu and pci"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_descriptions_are_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    data, message = BAD[name]
    with pytest.raises(PlatformError) as refused:
        read(tmp_path, data, name)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    for arguments, message in (
        ({"boards": 3}, "boards is 3, not what hetgym.topology.load_boards returns"),
        ({"boards": ["A100"]}, r"boards is \['A100'\], not what"),
        ({"gpu": 3}, "gpu is 3, not the name of a GPU"),
    ):
        with pytest.raises(PlatformError, match=message):
            read(tmp_path, NCCL, "topo.xml", **arguments)


def test_bad_data_sheets_are_refused(tmp_path: Path) -> None:
    for text, message in (
        ("boards: 3", "boards is 3, expected a list"),
        ("boards: [{name: X, device: {kind: gpu}}]", "key 'peak_flops' is missing"),
        ("boards: [{name: '-', device: {}}]", "a board's name must be text"),
        ("boards: [{name: X, nvlink: -1, device: {}}]", "nvlink is -1.0; it must be positive"),
        ("bords: []", "unknown key 'bords'; did you mean 'boards'?"),
    ):
        (tmp_path / "b.yaml").write_text(text)
        with pytest.raises(HetgymError, match=message.replace("(", "\\(").replace("?", "\\?")):
            load_boards(tmp_path / "b.yaml")
    with pytest.raises(ConfigError, match="no such file"):
        load_boards(tmp_path / "none.yaml")


def test_every_data_sheet_is_found_by_its_model_and_its_numbers() -> None:
    from hetgym.topology.boards import find_board

    boards = shipped_boards()
    assert len({number for board in boards for number in board.pci}) == sum(len(board.pci) for board in boards)
    for board in boards:
        for number in board.pci:
            assert find_board("", number.upper(), (), "x") is board
        assert find_board(f"NVIDIA {board.name}", "", (), "x") is board
        device = board.named("gpu")
        measured = bool(device.costs) and "bfloat16" in device.peak_flops  # no 16-bit operator was before Ampere
        assert device.source and device.half_costs == ("gpu-half" if measured else "")
    assert yaml.safe_load((Path(hetgym.__file__).parent / "configs/boards.yaml").read_text())["boards"]
