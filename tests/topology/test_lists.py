"""Lists of devices that programs print: names, memory and what is free of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from topology.samples import (
    LLAMA_AMD,
    LLAMA_LIST,
    LLAMA_LOAD,
    LLAMA_MAC,
    LLAMA_VULKAN,
    NAMES,
    NVIDIA_QUERY,
    ROCM,
    ROCMINFO,
    TABLE,
    VULKANINFO,
)

from hetgym import PlatformError
from hetgym.device import GPU_RESERVE
from hetgym.topology import find_platform, import_platform

MIB = 1 << 20

FOUND = {
    "nvidia-smi": (TABLE, ["NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 2080 Ti"], [24576, 11264], [2345, 1]),
    "nvidia-smi -L": (NAMES, ["NVIDIA A100 SXM4 80 GB"] * 8, [81920] * 8, [0] * 8),
    "one card": (NAMES.splitlines()[0], ["NVIDIA A100 SXM4 80 GB"], [81920], [0]),
    "list": (LLAMA_LIST, ["NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090 Laptop"], [24124, 16075], [4000, 232]),
    "load": (LLAMA_LOAD, ["NVIDIA GeForce RTX 3090", "NVIDIA Tesla P40"], [24576, 24576], [2000, 287]),
    "ROCm": (LLAMA_AMD, ["AMD Radeon RX 7900 XTX"], [24576], [0]),
    "Vulkan": (LLAMA_VULKAN, ["AMD Radeon RX 6800 XT", "Intel Arc A770"], [16384] * 2, [0] * 2),
    "vulkaninfo": (VULKANINFO, ["AMD Radeon RX 7800 XT"], [16384], [0]),
    "rocminfo": (ROCMINFO, ["AMD Radeon RX 7900 XTX"], [24576], [0]),
    "short names": (
        NAMES[: NAMES.index("GPU 2")].replace("NVIDIA A100-SXM4-80GB", "RTX 3090")
        + TABLE.replace("RTX 2080 Ti ", "RTX 208... "),
        ["NVIDIA GeForce RTX 3090"] * 2,
        [24576, 11264],
        [2345, 1],
    ),
}
"""Program -> what it prints, models, their memory and what is in use [MiB]."""


@pytest.mark.parametrize("program", FOUND)
def test_what_is_in_use_is_kept_free_beside_the_usual_reserve(program: str, tmp_path: Path) -> None:
    text, models, capacities, used = FOUND[program]
    (tmp_path / "list.txt").write_text(text)
    found = import_platform(tmp_path / "list.txt")
    assert [device.model for device in found] == models
    assert [device.memory_capacity / MIB for device in found] == capacities
    usable = [(1 - GPU_RESERVE) * size - taken for size, taken in zip(capacities, used, strict=True)]
    assert [device.usable_memory / MIB for device in found] == pytest.approx(usable)
    assert [device.memory_reserve is None for device in found] == [not taken for taken in used]
    pasted = find_platform(text)
    assert [device.usable_memory for device in pasted] == [device.usable_memory for device in found]


def test_other_outputs_that_say_what_is_in_use() -> None:
    busy = NVIDIA_QUERY.replace(
        "Used                              : 0 MiB", "Used                              : 999 MiB"
    )
    for text, used in ((busy, 999 * MIB), (ROCM, 27856896)):
        gpu = find_platform(text)["gpu0"]
        assert gpu.usable_memory == pytest.approx((1 - GPU_RESERVE) * gpu.memory_capacity - used)


def test_the_list_of_a_mac_tells_its_memory() -> None:
    found = find_platform(LLAMA_MAC)
    assert found["gpu0"].model == "Apple M2 Max" and found["cpu"].memory_capacity == 64 << 30
    assert found["gpu0"].usable_memory == pytest.approx(53083 * MIB, rel=0.01)


def test_a_name_of_the_caller_replaces_those_of_a_list() -> None:
    assert {device.model for device in find_platform(TABLE, gpu="RTX 3090")} == {"NVIDIA GeForce RTX 3090"}


BAD = {
    "short": (
        TABLE.replace("RTX 2080 Ti ", "RTX 208... "),
        "'NVIDIA GeForce RTX 208...' is cut short; put the output of",
    ),
    "many": ("".join(f"GPU {k}: RTX 3090 (UUID: x)\n" for k in range(300)), "more than 256 devices"),
    "two": (LLAMA_LIST + LLAMA_LIST.replace("RTX 3090", "RTX 3080"), "a device has the names"),
    "full": (LLAMA_LIST.replace("20124", "10"), "end the programs that use it, and list it again"),
    "unknown": (LLAMA_LIST.replace("RTX 3090", "RTX 3095"), "no data sheet of the device 'NVIDIA GeForce RTX 3095'"),
    "spaces": ("|   0  " + " " * 500_000 + "Off |\n" + "GPU 0: " + " " * 500_000, "no matrix of"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_lists_are_refused_in_a_sentence(case: str, tmp_path: Path) -> None:
    text, message = BAD[case]
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(PlatformError) as refused:
        import_platform(tmp_path / "list.txt")
    assert message in str(refused.value) and "\n" not in str(refused.value)
