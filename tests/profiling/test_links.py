"""Links and peaks: lines through times, measuring processes and what becomes of them, platforms."""

from __future__ import annotations

import itertools
import mmap
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetgym import load_platform
from hetgym.errors import ConfigError, ProfilingError
from hetgym.graph import Operator, Tensor
from hetgym.measurements.card import GpuCard, MachineCard
from hetgym.profiling import describe, peaks, pingpong
from hetgym.profiling.child import Child
from hetgym.profiling.describe import describe_platform, write_platform
from hetgym.profiling.host import HostSettings
from hetgym.profiling.links import SIZES, LinkTimes, fit_line, measure_process_link
from hetgym.profiling.peaks import Peaks

CORES = sorted(os.sched_getaffinity(0))
HERE = HostSettings((CORES[0],))


@pytest.mark.parametrize(("latency", "bandwidth"), [(0.0, 1e9), (2e-6, 7e9), (1e-3, 1e8)])
def test_lines_are_recovered(latency: float, bandwidth: float) -> None:
    noise = np.random.default_rng(0).uniform(0.98, 1.02, len(SIZES))
    found = fit_line(SIZES, (latency + np.array(SIZES) / bandwidth) * noise)
    assert found[0] == pytest.approx(latency, rel=0.05, abs=1e-7)
    assert found[1] == pytest.approx(bandwidth, rel=0.03)
    assert found[2] < 0.02


def test_lines_stay_physical() -> None:
    """Caches make small messages faster than any line through the origin; noise can make times fall."""
    latency, bandwidth, misfit = fit_line([1e3, 1e6], [1e-9, 1e-3])
    assert latency == 0 and 0 < bandwidth < np.inf and misfit > 0.1
    assert fit_line([1e3, 1e6], [2e-6, 1e-6])[:2] == (0.0, pytest.approx(1e12))


def test_lines_through_the_origin_by_hand() -> None:
    """Twice the size takes three times as long: the slope s that minimises (s - 1)^2 + (2 s / 3 - 1)^2 is 15 / 13."""
    assert fit_line([1.0, 2.0], [1.0, 3.0]) == pytest.approx((0.0, 13 / 15, (2 + 3) / 13 / 2))
    assert fit_line([1.0, 2.0], [3.0, 1.0])[:2] == (0.0, 2.0)  # only the largest bounds the rate


def test_the_better_of_two_rates_is_the_bandwidth() -> None:
    assert [Peaks({"float32": 1.0}, *rates, 1e-6).bandwidth for rates in ((3.0, 4.0), (4.0, 3.0))] == [4.0, 4.0]


def test_rates_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of a second for anything: 2 n^3 FLOPs of the largest product, 8 and 12 bytes of each number."""
    pytest.importorskip("torch")
    monkeypatch.setattr(peaks, "_clock", lambda device: lambda work, budget: 0.25)
    assert peaks.memory_rates(size=4000) == (8.0 * 1000 / 0.25, 12.0 * 1000 / 0.25)
    assert peaks.product_rate("float32", budget=5.0) == 2.0 * 256**3 / 0.25  # twice the rows would take 2 s of 5


class Mirror(pingpong.End):
    """An end that is answered at once."""

    def wait(self, word: int, value: int) -> None:
        self.words[pingpong.STAMP] = pingpong.perf_counter_ns()


def test_flags_are_half_round_trips_and_tensors_whole_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by a microsecond whenever it is read."""
    ticks = itertools.count()
    monkeypatch.setattr(pingpong, "perf_counter_ns", lambda: 1000 * next(ticks))
    area = 2 * mmap.PAGESIZE
    descriptor = os.memfd_create("mirror")
    os.posix_fallocate(descriptor, 0, pingpong.memory_size(area))
    flags, times = pingpong.send(Mirror(descriptor, area, False, 1e9), [64, 128], 2)
    os.close(descriptor)
    assert flags.tolist() == pytest.approx([1e-6] * 40)  # the mirror reads the clock, too: 2 us both ways
    assert times.tolist() == [pytest.approx([1e-6] * 6)] * 2


@pytest.mark.parametrize(
    ("sizes", "seconds"), [([1], [1.0]), ([1, 1], [1.0, 2.0]), ([1, 2], [0.0, 1.0]), ([1, 2], [1.0, np.nan]), ([1], [])]
)
def test_lines_through_nothing_are_refused(sizes: list[int], seconds: list[float]) -> None:
    with pytest.raises(ProfilingError, match="link's"):
        fit_line(sizes, seconds)


def test_two_processes_exchange_tensors() -> None:
    """On two cores where there are two; else the processes take turns, which is slow but works."""
    link = measure_process_link(HERE, HostSettings((CORES[-1],)), [1 << 10, 1 << 22], rounds=1)
    assert link.sizes == (1 << 10, 1 << 22) and link.bandwidth > 0 and link.flag > 0
    assert 1e-5 < link.seconds[1] < 10.0  # 4 MiB cannot be written faster than a core's registers empty
    assert (link.start, link.end) == (f"core {CORES[0]}", f"core {CORES[-1]}")


@pytest.mark.parametrize(("sizes", "rounds"), [([], 1), ([0, 8], 1), ([8, 1 << 31], 1), ([8, 16], 0)])
def test_impossible_messages_are_refused(sizes: list[int], rounds: int) -> None:
    with pytest.raises(ConfigError, match="at least 1 round"):
        measure_process_link(HERE, HERE, sizes, rounds)


def test_a_child_that_fails_says_why() -> None:
    with Child("hetgym.profiling.nowhere", {}, HERE) as child, pytest.raises(ProfilingError, match="No module named"):
        child.answer(60)


def test_a_child_that_says_nothing_sensible() -> None:
    with Child("this", {}, HERE) as child, pytest.raises(ProfilingError, match="printed no answer"):
        child.answer(60)


def test_a_child_that_hangs_is_ended() -> None:
    descriptor = os.memfd_create("test")
    try:
        os.truncate(descriptor, 1 << 14)
        asked = {"descriptor": descriptor, "area": 1 << 12, "crowded": True, "patience": 600, "sizes": [8], "rounds": 1}
        start = time.monotonic()
        with Child("hetgym.profiling.pingpong", asked | {"sends": True}, HERE, (descriptor,)) as child:
            pid = child._process.pid
            with pytest.raises(ProfilingError, match="did not answer within"):
                child.answer(1.0)
        assert time.monotonic() - start < 300  # the child itself is patient for twice as long
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    finally:
        os.close(descriptor)


def test_an_end_whose_partner_never_comes_gives_up() -> None:
    descriptor = os.memfd_create("test")
    try:
        os.truncate(descriptor, 1 << 14)
        asked = {"descriptor": descriptor, "area": 1 << 12, "crowded": True, "patience": 0.2, "sizes": [8], "rounds": 1}
        with (
            Child("hetgym.profiling.pingpong", asked | {"sends": False}, HERE, (descriptor,)) as child,
            pytest.raises(ProfilingError, match="other end of the link does not answer"),
        ):
            child.answer(60)
    finally:
        os.close(descriptor)


FIGURES = {"flops": {"float32": 1e11}, "copy": 1e10, "triad": 2e10, "dispatch": 1e-6}


def test_answers_become_peaks() -> None:
    assert Peaks.of(FIGURES).bandwidth == 2e10
    for change in ({"copy": 0}, {"flops": {}}, {"flops": 3}, {"triad": float("nan")}, {"dispatch": None}):
        with pytest.raises(ProfilingError):
            Peaks.of(FIGURES | change)


def test_figures_of_this_machine_are_plausible() -> None:
    pytest.importorskip("torch")
    from hetgym.profiling.peaks import dispatch_cost, memory_rates, product_rate

    assert 1e8 < product_rate("float32", budget=0.02) < 1e15
    assert product_rate("bool", budget=0.02) == 0.0  # torch does not multiply booleans
    copy, triad = memory_rates(budget=0.02, size=1 << 20)
    assert min(copy, triad) > 1e8 and max(copy, triad) < 1e13
    assert 1e-8 < dispatch_cost(rounds=3) < 1e-3


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A machine of two cores and a GPU, whose measurements are made up."""
    asked: list[Any] = []

    def link(start: Any, end: Any, sizes: Any) -> LinkTimes:
        asked.append((start, end))
        return LinkTimes.of("a", "b", sizes, [1e-6 + size / 8e9 for size in sizes])

    card = MachineCard(
        "Xeon",
        2,
        (0,),
        1 << 34,
        caches={"L2": 1 << 21},
        versions={"torch": "2"},
        gpus=(GpuCard("T4", memory=1 << 34, processors=40),),
    )
    monkeypatch.setattr(describe.MachineCard, "collect", lambda *_: card)
    monkeypatch.setattr(describe, "measure_peaks", lambda *_: Peaks.of(FIGURES))
    monkeypatch.setattr(describe, "peaks_here", lambda *_: Peaks.of(FIGURES | {"flops": {"float32": 8e12}}))
    monkeypatch.setattr(describe, "measure_process_link", link)
    monkeypatch.setattr(describe, "measure_cuda_link", link)
    return asked


def test_a_machine_becomes_a_platform(measured: list[Any], tmp_path: Path) -> None:
    hosts = {"full": HostSettings((0,)), "capped": HostSettings((1,), "avx2")}
    told: list[str] = []
    write_platform(tmp_path / "box.yaml", describe_platform(hosts, name="box", progress=told.append))
    platform = load_platform(tmp_path / "box.yaml")
    assert [device.name for device in platform] == ["full", "capped", "gpu0"]
    assert platform["gpu0"].peak_flops["float32"] == 8e12 and platform["full"].cache_bytes == 1 << 21
    assert platform.bandwidth[0, 1] == pytest.approx(8e9) and platform.latency[0, 2] == pytest.approx(1e-6)
    assert set(measured) == {
        (hosts["full"], hosts["capped"]),
        (hosts["capped"], hosts["full"]),
        ("cpu", "cuda:0"),
        ("cuda:0", "cpu"),
    }
    assert told == [
        "full",
        "capped",
        "gpu0",
        "full -> capped",
        "full -> gpu0",
        "capped -> full",
        "capped -> gpu0",
        "gpu0 -> full",
        "gpu0 -> capped",
    ]


def test_measured_rates_are_not_discounted_again(measured: list[Any]) -> None:
    """A product costs its FLOPs at the measured rate, a copy its bytes: both rates are what was sustained."""
    from hetgym.costs import Roofline
    from hetgym.platform import Platform

    described = describe_platform({"cpu": HostSettings((0,))}, gpus=False)
    (device,) = Platform.from_dict(described)
    x = Tensor((1024, 1024))
    product, copy = Operator("p", "MatMul", (x, x), (x,)), Operator("c", "Concat", (x,), (x,))
    seconds = Roofline().predict([product, copy], device) - device.launch_overhead
    np.testing.assert_allclose(seconds, [2 * 1024**3 / 1e11, 2 * x.bytes / 2e10], rtol=1e-6)


def test_devices_with_cores_in_common_are_refused(measured: list[Any]) -> None:
    with pytest.raises(ConfigError, match="share core 1"):
        describe_platform({"a": HostSettings((0, 1)), "b": HostSettings((1,))})
    with pytest.raises(ConfigError, match="one device"):
        describe_platform({})


@pytest.mark.slow
def test_this_machine_can_be_described() -> None:
    pytest.importorskip("torch")
    described = describe_platform({"cpu": HERE}, gpus=False, budget=0.02)
    assert described["devices"][0]["processors"] == 1 and not described["links"]
