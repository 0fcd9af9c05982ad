"""Devices as a command line names them."""

from __future__ import annotations

import os

import pytest

from hetgym.errors import ConfigError
from hetgym.execution import ExecutionDevice, parse_devices
from hetgym.execution.devices import check_cores, shares_cores
from hetgym.profiling.host import HostSettings


def test_entries() -> None:
    full, wide, gpu = parse_devices("cpu0, cpu1+2:avx2, cuda3@cpu4")
    assert (full.host, full.processor, full.staged) == (HostSettings((0,), "full"), "cpu", False)
    assert wide.host == HostSettings((1, 2), "avx2")
    assert (gpu.host.cores, gpu.processor, gpu.staged) == ((4,), "cuda:3", True)
    assert not shares_cores((full, wide, gpu))
    assert shares_cores(parse_devices("cpu0:full,cpu0+1:avx2"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not an entry"),
        ("gpu0", "is not an entry"),
        ("cpu", "is not an entry"),
        ("cuda0+1", "is not an entry"),
        ("cpu0:avx3", "unknown instruction set"),
        ("cpu0,cpu0", "two execution devices"),
        ("cpu0+0", "each once"),
    ],
)
def test_what_is_no_device_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_devices(text)


def test_cores_must_exist() -> None:
    check_cores([ExecutionDevice("here", HostSettings((min(os.sched_getaffinity(0)),)))])
    with pytest.raises(ConfigError, match=r"device 'cpu4000:full': core 4000 is unavailable; this process may use \d"):
        check_cores(parse_devices("cpu4000:full"))


def test_a_device_is_a_cpu_or_a_gpu() -> None:
    with pytest.raises(ConfigError, match="neither cpu nor cuda"):
        ExecutionDevice("a", processor="tpu")
    with pytest.raises(ConfigError, match="empty name"):
        ExecutionDevice("")
