"""Machines that a network joins, as one platform."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import networkx as nx

from hetgym._input.config import check_number
from hetgym.errors import PlatformError
from hetgym.platform import Platform
from hetgym.topology.machine import both_ways

SWITCH = "network"  # Name of the switch between machines

LATENCY = 150e-6
"""Latency of a network in each direction [s]: half the time of a ping over a cable, an assumption."""

ETHERNET_SHARE, THUNDERBOLT_SHARE = 0.94, 0.5
"""Payload over the rate of the cable: frames of 1500 bytes; for IP over Thunderbolt, an assumption."""

THUNDERBOLT = {"3": 40.0, "4": 40.0, "5": 80.0}
"""Version of Thunderbolt -> rate of the cable in each direction [Gbit/s]."""


@dataclass(frozen=True)
class Network:
    """A switch and a cable of each machine to it.

    Args:
        kind: the kind of cable.
        rate: of each cable in each direction [byte/s].
        share: payload over that rate.
        assumed: whether the user named no network.
    """

    kind: str = "1 Gbit Ethernet"
    rate: float = 0.125e9
    share: float = ETHERNET_SHARE
    assumed: bool = True

    @classmethod
    def named(cls, thunderbolt: str, ethernet: str) -> "Network":
        """The network of a version of Thunderbolt, else of a rate of Ethernet [Gbit/s].

        Raises:
            PlatformError: a rate of 0.
        """
        if thunderbolt:
            rate = THUNDERBOLT[thunderbolt] * 0.125e9
            return cls(f"Thunderbolt {thunderbolt}", rate, THUNDERBOLT_SHARE, False)
        check_number(float(ethernet), "the rate of Ethernet [Gbit/s]", PlatformError, positive=True)
        return cls(f"{float(ethernet):g} Gbit Ethernet", float(ethernet) * 0.125e9, ETHERNET_SHARE, False)


def joined(name: str, machines: Sequence[Platform], network: Network) -> Platform:
    """One platform of several; its devices and switches are numbered on, and each machine keeps its own memory."""
    numbers: Counter[str] = Counter()
    devices, links, switches = [], [], []
    for k, machine in enumerate(machines):
        new: dict[str, str] = {}
        for old in (*(device.name for device in machine), *machine.switches):
            stem = re.sub(r"\d+$", "", old)
            new[old] = f"{stem}{numbers[stem]}"
            numbers[stem] += 1
        for device in machine:
            pool = f"{device.memory_pool}{k}" if device.memory_pool else ""
            devices.append(replace(device, name=new[device.name], memory_pool=pool))
        links += [replace(link, start=new[link.start], end=new[link.end]) for link in machine.links]
        switches += [new[switch] for switch in machine.switches]
        gateway = new[machine.switches[0] if machine.switches else machine.devices[0].name]
        links += both_ways(
            gateway,
            "network",
            LATENCY / 2,
            network.rate,
            network.share,
            network.kind,
            "share and latency are assumptions",
        )  # fmt: skip
    first, *rest = zip(*(machine.description.partition("; ")[::2] for machine in machines), strict=True)
    notes = dict.fromkeys(note for found in rest[0] for note in found.split("; ") if note)
    assumed = " is assumed" if network.assumed else ""
    text = "; ".join([" | ".join(first), *notes, f"{network.kind} between machines{assumed}"])
    return Platform(name, tuple(devices), tuple(links), (*switches, SWITCH), text)


def nodes(platform: Platform) -> list[int]:
    """The GPUs, and the CPUs of machines without one."""
    cables = nx.Graph((link.start, link.end) for link in platform.links if SWITCH not in (link.start, link.end))
    cables.add_nodes_from(device.name for device in platform)
    gpus = {device.name for device in platform if device.kind != "cpu"}
    beside = gpus.union(*(machine for machine in nx.connected_components(cables) if machine & gpus))
    return [k for k, device in enumerate(platform) if device.name in gpus or device.name not in beside]
