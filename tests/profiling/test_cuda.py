"""CudaTimer on a simulated device, and on a real one where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hetgym.errors import ConfigError, MissingExtra
from hetgym.profiling import cuda, links
from hetgym.profiling.cuda import BATCH, GRAPH_BELOW, MOST_CALLS, CudaTimer, calls_at_once
from hetgym.profiling.links import LinkTimes, measure_cuda_link

LAUNCH, REPLAY, FLUSH = 8e-6, 5e-6, 30e-6


class Simulated:
    """A stream as a clock: eager work takes its launch at least, a captured graph only the sum of its parts."""

    def __init__(self, capturable: bool = True) -> None:
        self.now = 0.0
        self.parts: list[float] | None = None
        self.capturable = capturable
        self.launches = self.flushes = 0
        device = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                assert device.parts is None, "events cannot be timed inside a capture"
                self.moment = device.now

            def synchronize(self) -> None: ...

            def elapsed_time(self, end: Any) -> float:
                return float((end.moment - self.moment) * 1e3)

        class CUDAGraph:
            parts: list[float]

            def replay(self) -> None:
                device.now += REPLAY + sum(self.parts)

        @contextmanager
        def graph(captured: CUDAGraph, stream: Any) -> Iterator[None]:
            if not device.capturable:
                raise RuntimeError("operation not permitted when stream is capturing")
            device.parts = captured.parts = []
            yield
            device.parts = None

        properties = SimpleNamespace(L2_cache_size=1 << 20)
        self.torch = SimpleNamespace(
            uint8="uint8",
            no_grad=nullcontext,
            zeros=lambda size, device: None,
            sum=lambda rows, dim, out: self.flush(),
            cuda=SimpleNamespace(
                is_available=lambda: True,
                device_count=lambda: 1,
                get_device_properties=lambda number: properties,
                Event=Event,
                CUDAGraph=CUDAGraph,
                graph=graph,
                synchronize=lambda: None,
                device=nullcontext,
                Stream=lambda: SimpleNamespace(wait_stream=lambda other: None),
                stream=nullcontext,
                current_stream=lambda: None,
            ),
        )

    def flush(self) -> None:
        self.flushes += 1
        self.launch(FLUSH)

    def launch(self, seconds: float) -> None:
        self.launches += 1
        if self.parts is None:
            self.now += max(LAUNCH, seconds)
        else:
            self.parts.append(seconds)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Simulated:
    simulated = Simulated()
    monkeypatch.setattr(cuda, "require", lambda *_: simulated.torch)
    return simulated


def test_short_kernels_are_replayed_and_lose_their_launch(device: Simulated) -> None:
    found = CudaTimer().time(lambda: device.launch(4e-6))
    assert found.method == "graph" and 100 <= found.calls <= 256
    assert found.timing.seconds == pytest.approx(4e-6, rel=0.03)


def test_long_kernels_are_timed_by_events(device: Simulated) -> None:
    found = CudaTimer().time(lambda: device.launch(2e-3))
    assert (found.method, found.calls) == ("events", 1)
    assert found.timing.seconds == pytest.approx(2e-3)


@pytest.mark.parametrize("seconds", [4e-6, 2e-3])
def test_flushes_are_not_counted(device: Simulated, seconds: float) -> None:
    found = CudaTimer(flush=True).time(lambda: device.launch(seconds))
    assert found.timing.seconds == pytest.approx(seconds, rel=0.02)
    assert device.flushes >= found.calls


def test_what_cannot_be_captured_is_launched(device: Simulated) -> None:
    device.capturable = False
    found = CudaTimer().time(lambda: device.launch(4e-6))
    assert found.method == "loop"
    assert found.timing.seconds == pytest.approx(LAUNCH)


def test_calls_fill_a_batch() -> None:
    for seconds in (1e-7, 3e-6, 3e-5, 3e-4, 3e-3):
        calls = calls_at_once(seconds)
        assert 1 <= calls <= MOST_CALLS
        assert calls == MOST_CALLS or (calls - 1) * seconds < BATCH <= calls * seconds


def test_a_device_that_is_not_there_is_refused(device: Simulated) -> None:
    with pytest.raises(ConfigError, match="no CUDA device 1; there are 1"):
        CudaTimer(1)


def test_without_cuda_the_message_says_so() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(MissingExtra, match="needs a GPU"):
        CudaTimer()
    with pytest.raises(MissingExtra, match="needs a GPU"):
        measure_cuda_link("cpu", "cuda:0")


def test_a_profile_of_a_device_that_is_not_there_is_refused_before_anything_runs(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from hetgym.profiling.session import Profile

    with pytest.raises(ConfigError, match="device 'gpu0': expected cpu, or a CUDA device such as cuda:0"):
        Profile(tmp_path / "p.csv.gz", device="gpu0")
    missing, reason = (ConfigError, "no CUDA device 99") if torch.cuda.is_available() else (MissingExtra, "needs a GPU")
    with pytest.raises(missing, match=reason):
        Profile(tmp_path / "p.csv.gz", device="cuda:99")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ends", [("cpu", "cpu"), ("cpu", "disk"), ("cuda:0", "cuda:0")])
def test_ends_of_a_cuda_link(ends: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match="at least one of CUDA"):
        measure_cuda_link(*ends)


def test_copies_are_timed_by_events(device: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """10 us and 10 GB/s; page-locked memory on the host's side."""
    made = []

    def ones(size: int, dtype: str, **where: Any) -> Any:
        made.append(where)
        return SimpleNamespace(size=size, copy_=lambda source, non_blocking: device.launch(1e-5 + source.size * 1e-10))

    device.torch.ones = ones
    monkeypatch.setattr(links, "require", lambda *_: device.torch)
    link = measure_cuda_link("cpu", "cuda:0")
    assert isinstance(link, LinkTimes)
    assert (link.latency, link.bandwidth) == (pytest.approx(1e-5), pytest.approx(1e10))
    assert made[:2] == [{"pin_memory": True}, {"device": "cuda:0"}]


def gpu() -> Any:
    """Torch, where it sees a GPU; elsewhere the test is skipped."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    return torch


def test_a_real_device() -> None:
    torch = gpu()
    x = torch.ones(256, 256, device="cuda")
    short, long = torch.ones(8, device="cuda"), torch.ones(1 << 28, device="cuda")
    timer = CudaTimer(flush=True)
    assert timer.time(lambda: short + 1).method == "graph"
    assert timer.time(lambda: long + 1).timing.seconds > GRAPH_BELOW
    assert timer.time(lambda: (x @ x).sum().item()).method in ("loop", "events")  # synchronises
    assert measure_cuda_link("cpu", "cuda:0", [1 << 12, 1 << 22]).bandwidth > 1e8


def test_a_profile_of_a_real_device(tmp_path: Path) -> None:
    """Operators, gradients and a graph; one operator that is too large for the limit, and one that torch lacks."""
    gpu()
    from hetgym.graph import DataflowGraph, Operator, Tensor
    from hetgym.profiling.session import Item, Profile

    x, w, huge = Tensor((64, 512)), Tensor((512, 512), constant=True), Tensor((1 << 30,))
    product = Operator("product", "MatMul", (x, w), (x,))
    relu, again = (Operator(name, "Relu", (x,), (x,)) for name in ("relu", "again"))
    items = [
        Item("one", product),
        Item("one", product, direction="backward"),
        Item("one", Operator("huge", "Relu", (huge,), (huge,))),
        Item("one", Operator("task", "Task", (x,), (x,))),
        Item("chain", graph=DataflowGraph([product, relu, again], [(0, 0, 1), (1, 0, 2)], "chain")),
    ]
    profile = Profile(tmp_path / "p.csv.gz", memory_limit=1e10, device="cuda:0", rounds=5)
    table = profile.run([*items[:2], *items[3:]])
    tight = Profile(tmp_path / "q.csv.gz", memory_limit=1e10, device="cuda:0")
    tight.memory_limit = 2e9  # the estimate passes, the device refuses
    assert [row.status for row in tight.run([items[2]])] == ["memory"]
    status = {(row.operator.kind, row.direction, row.context): row.status for row in table}
    assert status.pop(("Task", "forward", "isolated")) == "unsupported"
    assert set(status.values()) == {"ok"} and len(status) == 5
    assert all(1e-7 < row.seconds < 5e-5 for row in table.timed() if row.operator.kind != "Graph")  # no launches
    parts = sum(row.seconds * row.count for row in table.timed() if row.operator.kind in ("MatMul", "Relu"))
    assert table.graphs()["chain"] > parts / 3


def test_peaks_of_a_real_device() -> None:
    gpu()
    from hetgym.profiling.peaks import peaks_here

    peaks = peaks_here("cuda:0", 0.2)
    assert peaks.flops["float16"] > peaks.flops["float32"] > 1e11
    assert peaks.bandwidth > 1e10 and 1e-7 < peaks.dispatch < 1e-4
