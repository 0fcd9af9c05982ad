"""Tables of data sheets: boards of a series, whose rates are multiples of float32, and processors of a family."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from hetgym._input.config import read
from hetgym._input.parts import part
from hetgym._input.yaml import load_yaml

BOARDS, PROCESSORS = part("configs") / "board_series.yaml", part("configs") / "processors.yaml"

SMALL_CORE = 0.5  # FLOPs of a small core in a cycle, over those of a large one of the same chip


@dataclass(frozen=True)
class _Series:
    """Boards whose rates follow one law; rows are float32 [TFLOP/s], memory [GB/s] and [GiB], multiprocessors."""

    maker: str
    source: str
    boards: Mapping[str, tuple[float, ...]]
    device: Mapping[str, Any]  # fields of Device that they share
    rates: Mapping[str, float] = field(default_factory=dict)  # dtype -> multiple of float32
    pcie: float = 15.75e9
    pcie_lanes: int = 16
    nvlinks: int = 0
    nvlink: float = 25e9

    def sheets(self) -> Iterator[dict[str, Any]]:
        links = {key: getattr(self, key) for key in ("pcie", "pcie_lanes", "nvlinks", "nvlink")}
        for name, (single, bandwidth, memory, *processors) in self.boards.items():
            device: dict[str, Any] = {
                "kind": "gpu", "model": f"{self.maker} {name}", "source": self.source,
                "peak_flops": {"float32": single * 1e12} | {k: x * single * 1e12 for k, x in self.rates.items()},
                "memory_bandwidth": bandwidth * 1e9, **self.device,
            }  # fmt: skip
            device |= {"memory_capacity": memory * 2.0**30} if memory else {}
            device |= {"processors": int(processors[0])} if processors else {}
            yield {"name": name.upper(), "device": device, **links}


@dataclass(frozen=True)
class _Family:
    """Processors with the same cores and memory; rows are cores and clock [GHz], then those of small cores."""

    maker: str
    flops: int  # float32 FLOPs of a core in a cycle
    channels: int
    transfers: float  # of a channel [MT/s]
    processors: Mapping[str, tuple[float, ...]]
    share: float = 1.0  # of the clock that long vectors allow
    suffixes: tuple[str, ...] = ()

    def sheets(self) -> Iterator[dict[str, Any]]:
        memory = f"{self.channels} channels at {self.transfers:.0f} MT/s"
        for name, (cores, clock, *small) in self.processors.items():
            count, slow = small or (0, 0)
            peak = (cores * clock + SMALL_CORE * count * slow) * self.flops * self.share * 1e9
            also = f" and {count:.0f} x {self.flops * SMALL_CORE:.0f} FLOP x {slow} GHz" if small else ""
            device = {
                "kind": "cpu", "peak_flops": {"float32": peak, "float64": peak / 2}, "launch_overhead": 2e-6,
                "memory_bandwidth": self.channels * 8 * self.transfers * 1e6, "processors": int(cores + count),
                "source": f"{cores:.0f} cores x {self.flops} FLOP x {self.share * clock:.3g} GHz{also}, {memory}; "
                "no figure verified; 2026-11",
            }  # fmt: skip
            for suffix in ("", *self.suffixes):
                yield {
                    "name": f"{name}{suffix}".upper(), "device": {**device, "model": f"{self.maker} {name}{suffix}"},
                    "channels": self.channels, "transfers": self.transfers,
                }  # fmt: skip


@dataclass(frozen=True)
class _Boards:
    series: tuple[_Series, ...]


@dataclass(frozen=True)
class _Processors:
    families: tuple[_Family, ...]
    generic: Mapping[str, int]


@cache
def _processors() -> _Processors:
    return read(_Processors, load_yaml(PROCESSORS), str(PROCESSORS))


def generic_channels() -> Mapping[str, int]:
    """Word that names a family of processors alone, such as ``EPYC`` -> its channels of memory."""
    return _processors().generic


def sheets() -> list[dict[str, Any]]:
    """All rows of the shipped tables, in the form of ``configs/boards.yaml``."""
    series = read(_Boards, load_yaml(BOARDS), str(BOARDS)).series
    tables: tuple[_Series | _Family, ...] = (*series, *_processors().families)
    return [sheet for table in tables for sheet in table.sheets()]
