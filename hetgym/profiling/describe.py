"""Description of this machine as a platform, with measured rates instead of those of a data sheet."""

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import yaml

from hetgym._input.config import read
from hetgym._input.files import atomic_write
from hetgym.costs.roofline import EFFICIENCY
from hetgym.device import Device
from hetgym.errors import ConfigError
from hetgym.measurements.card import MachineCard
from hetgym.platform import Platform
from hetgym.profiling.host import HostSettings
from hetgym.profiling.links import SIZES, LinkTimes, measure_cuda_link, measure_process_link
from hetgym.profiling.peaks import Peaks, measure_peaks, peaks_here

_DIGITS = 4


def describe_platform(
    hosts: Mapping[str, HostSettings] | None = None,
    *,
    name: str = "this-machine",
    gpus: bool = True,
    sizes: Sequence[int] = SIZES,
    budget: float = 1.0,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Measure devices and links, and describe them in the form of a platform file.

    Rates are sustained ones, and efficiencies are relative to them: 1 for products and for memory; for other families
    the roofline's default fraction over that of products.

    Args:
        hosts: name -> cores and instruction-set cap of the process that is a device; by default one
            device ``cpu`` of all cores that this process may use.
        name: name of the platform.
        gpus: True to include CUDA devices, as ``gpu0``, ``gpu1``, …
        sizes: sizes of the messages with which links are timed [byte].
        budget: time to measure each figure of a device [s].
        progress: called with the name of each device and link before it is measured.

    Returns:
        A mapping for :meth:`hetgym.Platform.from_dict`.

    Raises:
        ConfigError: no devices, or two that share a core.
        ProfilingError: a measuring process failed.
        MissingExtra: torch is not installed.
    """
    chosen = {"cpu": HostSettings(tuple(sorted(os.sched_getaffinity(0))))} if hosts is None else dict(hosts)
    if not chosen:
        raise ConfigError("a platform needs at least one device")
    for (one, first), (other, second) in combinations(chosen.items(), 2):
        if shared := set(first.cores) & set(second.cores):
            raise ConfigError(f"devices {one!r} and {other!r} share core {min(shared)}; each needs cores of its own")
    say = progress or (lambda _: None)
    cards = {device: MachineCard.collect(host.cores, host.label) for device, host in chosen.items()}
    graphics = next(iter(cards.values())).gpus if gpus else ()
    devices = []
    for device, host in chosen.items():
        say(device)
        devices.append(_cpu(device, cards[device], measure_peaks(host, budget), len(chosen)))
    for number in range(len(graphics)):
        say(f"gpu{number}")
        devices.append(_gpu(number, next(iter(cards.values())), peaks_here(f"cuda:{number}", budget)))
    links = []
    for start, end in permutations([*chosen, *(f"gpu{number}" for number in range(len(graphics)))], 2):
        say(f"{start} -> {end}")
        links.append(_link(start, end, _time(start, end, chosen, sizes)))
    described = {
        "name": name,
        "description": _description(next(iter(cards.values()))),
        "devices": devices,
        "links": links,
    }
    Platform.from_dict(described, name)
    return described


def describe_device(device: str, settings: HostSettings, machine: MachineCard, budget: float = 1.0) -> Device:
    """Measure the sustained rates of one device: ``cpu`` of the settings, or a CUDA device such as ``cuda:0``.

    Each figure is measured for ``budget`` [s]. A measuring process that fails is a ProfilingError.
    """
    if device == "cpu":
        return read(Device, _cpu(device, machine, measure_peaks(settings, budget), 1), device)
    number = int(device.partition(":")[2] or 0)
    return read(Device, _gpu(number, machine, peaks_here(device, budget)), device)


def write_platform(path: str | Path, described: Mapping[str, Any]) -> None:
    """Write a description to a YAML file; OSError if the folder cannot be written."""
    text = yaml.safe_dump(dict(described), sort_keys=False, allow_unicode=True, width=110)
    atomic_write(Path(path), lambda file: file.write(text.encode()))


def _time(start: str, end: str, hosts: Mapping[str, HostSettings], sizes: Sequence[int]) -> LinkTimes:
    if start in hosts and end in hosts:
        return measure_process_link(hosts[start], hosts[end], sizes)
    first, second = ("cpu" if side in hosts else f"cuda:{side.removeprefix('gpu')}" for side in (start, end))
    return measure_cuda_link(first, second, sizes)


def _cpu(device: str, card: MachineCard, peaks: Peaks, sharers: int) -> dict[str, Any]:
    cache, cores = card.caches.get("L3") or card.caches.get("L2"), len(card.cores_used)
    return _device(device, "cpu", card.label, card, peaks, card.memory // sharers or 1, cores, cache)


def _gpu(number: int, card: MachineCard, peaks: Peaks) -> dict[str, Any]:
    gpu = card.gpus[number]
    return _device(f"gpu{number}", "gpu", gpu.model, card, peaks, gpu.memory, gpu.processors, gpu.cache)


def _device(
    name: str, kind: str, model: str, card: MachineCard, peaks: Peaks, memory: int, processors: int, cache: int | None
) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "model": model,
        "source": _source(card),
        **_rates(peaks, kind),
        "memory_capacity": memory,
        "processors": processors,
        **({"cache_bytes": float(cache)} if cache else {}),
    }


def _rates(peaks: Peaks, kind: str) -> dict[str, Any]:
    usual = EFFICIENCY[kind]
    return {
        "peak_flops": {dtype: _short(rate) for dtype, rate in peaks.flops.items()},
        "memory_bandwidth": _short(peaks.bandwidth),
        "launch_overhead": _short(peaks.dispatch),
        "efficiency": {family: _short(min(1.0, share / usual["matmul"])) for family, share in usual.items()},
        "memory_efficiency": 1.0,
    }


def _link(start: str, end: str, times: LinkTimes) -> dict[str, Any]:
    return {
        "start": start,
        "end": end,
        "latency": _short(times.latency),
        "bandwidth": _short(times.bandwidth),
        "kind": "shared memory" if times.flag == times.flag else "CUDA copy",
        "source": f"measured, {len(times.sizes)} sizes up to {times.sizes[-1]} bytes; "
        f"their times are {times.misfit:.0%} from this line on average",
    }


def _source(card: MachineCard) -> str:
    libraries = ", ".join(f"{name} {version}" for name, version in card.versions.items() if name in ("torch", "cuda"))
    return f"measured: fastest square product, copy or triad, smallest operator; {libraries}"


def _description(card: MachineCard) -> str:
    return ", ".join(["measured", card.cpu, *(gpu.model for gpu in card.gpus)])


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
