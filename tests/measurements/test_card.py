"""Machine cards: what they read, that they hold nothing private, and what they refuse."""

from __future__ import annotations

import getpass
import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym import HetgymError
from hetgym._input.config import read
from hetgym.measurements.card import GpuCard, MachineCard, asdict_plain, cuda_gpus, gpu_card, library_versions

XEON = """processor\t: 0
model name\t: Intel(R)  Xeon(R) Gold 6148
cpu MHz\t\t: 2400.5
flags\t\t: fpu sse4_2 avx avx2 fma hypervisor avx512f amx_tile

processor\t: 1
model name\t: another
"""
NEOVERSE = "processor\t: 0\nFeatures\t: fp asimd sve bf16\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.fixture
def xeon(tmp_path: Path) -> MachineCard:
    cpu = "sys/devices/system/cpu"
    files = {
        "proc/cpuinfo": XEON,
        "proc/meminfo": "MemTotal:       24684084 kB\nMemFree: 1 kB\n",
        "proc/loadavg": "1.47 0.66 0.26 3/94 21397\n",
        "proc/sys/kernel/osrelease": "6.18.44\n",
        f"{cpu}/online": "0-3,8\n",
        f"{cpu}/smt/active": "1\n",
        f"{cpu}/intel_pstate/no_turbo": "1\n",
        f"{cpu}/cpu2/cpufreq/scaling_governor": "performance\n",
    }
    sizes = [(1, "Data", "48K"), (1, "Instruction", "64K"), (2, "Unified", "2048K"), (3, "Unified", "33M")]
    for index, (level, kind, size) in enumerate(sizes):
        folder = f"{cpu}/cpu2/cache/index{index}"
        files |= {f"{folder}/level": f"{level}\n", f"{folder}/type": f"{kind}\n", f"{folder}/size": f"{size}\n"}
    return MachineCard.collect((2, 3), "avx2", {"python": "3.11"}, (GpuCard("A100"),), tree(tmp_path, files))


def test_reads_what_linux_tells(xeon: MachineCard) -> None:
    assert xeon == MachineCard(
        cpu="Intel(R) Xeon(R) Gold 6148",
        cores=5,
        cores_used=(2, 3),
        memory=24684084 << 10,
        kernel="6.18.44",
        caches={"L1d": 48 << 10, "L2": 2 << 20, "L3": 33 << 20},
        isa=("sse4_2", "avx", "avx2", "fma", "avx512f", "amx_tile"),
        isa_cap="avx2",
        clock=2400.5e6,
        governor="performance",
        turbo=False,
        smt=True,
        hypervisor=True,
        load=(1.47, 0.66, 0.26),
        versions={"python": "3.11"},
        gpus=(GpuCard("A100"),),
    )


def test_reads_arm_and_boost(tmp_path: Path) -> None:
    root = tree(tmp_path, {"proc/cpuinfo": NEOVERSE, "sys/devices/system/cpu/cpufreq/boost": "1\n"})
    card = MachineCard.collect((0,), versions={}, gpus=(), root=root)
    assert (card.cpu, card.isa, card.turbo) == ("ARM implementer 0x41 part 0xd40", ("asimd", "bf16", "sve"), True)
    assert not card.hypervisor


def test_a_machine_that_tells_nothing_has_a_card(tmp_path: Path) -> None:
    card = MachineCard.collect((0,), versions={}, gpus=(), root=tmp_path)
    assert (card.memory, card.governor, card.turbo, card.smt, dict(card.caches)) == (0, "", None, None, {})
    assert card.cpu and card.cores >= 1


def test_this_machine_keeps_its_names_to_itself() -> None:
    card = MachineCard.collect()
    text = json.dumps(asdict_plain(card))
    assert card.memory > 1 << 28 and card.cores >= len(card.cores_used) >= 1 and card.kernel
    assert card.versions["python"].startswith("3.")
    words = text.replace('"', " ").replace(",", " ").split()
    assert not {socket.gethostname(), getpass.getuser()} & set(words)
    assert "/home" not in text and "/root" not in text


def test_versions_of_the_libraries_that_compute() -> None:
    pytest.importorskip("torch")
    versions = library_versions()
    assert versions["torch"][0].isdigit() and all(versions.values())


def test_gpu_cards_follow_torch(tmp_path: Path) -> None:
    properties = SimpleNamespace(
        name="NVIDIA H100",
        total_memory=80 << 30,
        multi_processor_count=132,
        major=9,
        minor=0,
        L2_cache_size=50 << 20,
        clock_rate=1_980_000,
        memory_clock_rate=2_619_000,
    )
    card = gpu_card(properties, "535.104.05")
    assert (card.capability, card.clock, card.memory_clock) == ("9.0", 1.98e9, 2.619e9)
    del properties.clock_rate, properties.memory_clock_rate, properties.L2_cache_size
    assert (gpu_card(properties).clock, gpu_card(properties).cache) == (0.0, 0)


def test_the_driver_is_read_from_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build\n"
    properties = SimpleNamespace(name="T4", total_memory=1, multi_processor_count=40, major=7, minor=5)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: properties)
    assert [gpu.driver for gpu in cuda_gpus(tree(tmp_path, {"proc/driver/nvidia/version": line}))] == ["550.54.14"]


def test_json_round_trip(xeon: MachineCard) -> None:
    again = read(MachineCard, json.loads(json.dumps(asdict_plain(xeon))), "card.json")
    assert again == xeon and hash(again) == hash(xeon)
    assert json.dumps(asdict_plain(again)) == json.dumps(asdict_plain(xeon))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cpus": 1}, "unknown key 'cpus'; did you mean 'cpu'"),
        ({"cores": 0}, "expected 1 or more"),
        ({"cores_used": []}, "expected 1 or more"),
        ({"memory": -1}, "must be finite and at least 0"),
        ({"memory": "much"}, "expected a number"),
        ({"load": [1, 2]}, "has 2 entries, expected 3"),
        ({"load": [1, 2, float("nan")]}, "must be finite and at least 0"),
        ({"cpu": "\x1b[31m red"}, "printable line"),
        ({"versions": {"torch": "x" * 300}}, "printable line"),
        ({"gpus": [{"driver": "1"}]}, "key 'model' is missing"),
        ({"turbo": "yes"}, "expected true or false"),
    ],
)
def test_bad_cards_are_refused_in_a_sentence(xeon: MachineCard, change: dict[str, Any], message: str) -> None:
    with pytest.raises(HetgymError, match=message):
        read(MachineCard, asdict_plain(xeon) | change, "card.json")


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda s: st.dictionaries(st.text(), s)))
def test_any_json_gives_a_card_or_a_typed_error(value: Any) -> None:
    with pytest.raises(HetgymError):
        read(MachineCard, json.loads(json.dumps(value)), "card.json")
