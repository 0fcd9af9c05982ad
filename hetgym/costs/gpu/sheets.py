"""Board power, process and scheduler lanes of well-known GPUs, for device descriptions that name a product alone."""

import re
from dataclasses import dataclass

from hetgym.device import Device


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a data sheet says beyond rates."""

    power: float = 0.0  # power limit of the board [W]; 0 = unknown
    process: float = 0.0  # manufacturing process that NVIDIA names [m]; 0 = unknown
    lanes: float = 0.0  # float32 lanes of a warp scheduler; 0 = unknown
    clock: float = 0.0  # share of the peak's clock that long loads get, where the vendor states it; 0 = not stated
    delivered: float = 1.0  # memory bandwidth that kernels get, relative to that of other boards with the same figure


SHEETS: dict[str, Sheet] = {
    "P4": Sheet(75, 16e-9, 32), "P40": Sheet(250, 16e-9, 32), "P100 PCIE": Sheet(250, 16e-9, 32, 0.0, 0.82),
    "P100 SXM2": Sheet(300, 16e-9, 32, 0.0, 0.82), "V100 PCIE": Sheet(250, 12e-9, 16),
    "V100 SXM2": Sheet(300, 12e-9, 16), "T4": Sheet(70, 12e-9, 16), "A100 PCIE 40GB": Sheet(250, 7e-9, 16, 0.9),
    "A100 PCIE 80GB": Sheet(300, 7e-9, 16, 0.9), "A100 SXM4": Sheet(400, 7e-9, 16), "H100 PCIE": Sheet(350, 4e-9, 32),
    "H100 HBM3": Sheet(700, 4e-9, 32), "H100 SXM5": Sheet(700, 4e-9, 32), "H200": Sheet(700, 4e-9, 32),
    "L4": Sheet(72, 4e-9, 32), "L40": Sheet(300, 4e-9, 32), "L40S": Sheet(350, 4e-9, 32),
    "RTX 4090": Sheet(450, 4e-9, 32),
}  # fmt: skip
"""Words of a product's name -> its figures, from NVIDIA's data sheets and architecture whitepapers.

A multiprocessor has 64 or 128 float32 lanes and four schedulers, on the P100 two. NVIDIA announced the A100 for PCIe
(40 GB, June 2020) with the peaks of the SXM4 board and 90 % of its delivered performance. The same is assumed of the
one of 80 GB, which has 50 W more but faster memory to feed. NVIDIA states 1.5 times the delivered bandwidth of the
P100 for the V100; the data sheets have 900 over 732 GB/s, which leaves 0.82 of the figure. That it is the P100 that
falls short, and as far on every board with its chip, is an assumption.
"""


def sheet(device: Device) -> Sheet:
    """The figures of a device: its own, else those of the product that its model or name states, else unknown.

    >>> gpu = Device("NVIDIA L4", "gpu", {"float32": 30.3e12}, 300e9)
    >>> sheet(gpu).power
    72.0
    """
    known = Sheet()
    for text in (device.model, device.name):
        words = set(re.split(r"[^A-Z0-9]+", re.sub(r"(\d) GB\b", r"\1GB", text.upper())))
        fitting = [name for name in SHEETS if words.issuperset(name.split())]
        if fitting:
            known = SHEETS[max(fitting, key=lambda name: len(name.split()))]
            break
    return Sheet(
        float(device.power_limit or known.power),
        float(device.process or known.process),
        float(device.lanes or known.lanes),
        known.clock if device.power_limit in (None, known.power) else 0.0,
        known.delivered,
    )
