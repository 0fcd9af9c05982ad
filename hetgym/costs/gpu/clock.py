"""Rate that a GPU sustains in long float32 products: the data sheet's peak, less issue slots and power.

rate = peak x issue share x clock share

A scheduler with 16 lanes issues a multiply-add in every other cycle at most, since a warp of 32 threads takes two, and
has the slots between for loads; one with 32 lanes issues one in every cycle (NVIDIA's tuning guides of Volta to
Hopper). Hence two issue shares. On Pascal, whose schedulers have 32 lanes and two dispatch units each, the share of the
other boards with 32 lanes is an assumption, which the measured shares of P4 and P100 bear out.

A board whose power limit is below the need of its chip lowers the clock in proportion, as the voltage is at its minimum
there. The need for each FLOP/s shrinks with the manufacturing process to the power :data:`SHRINK`: NVIDIA states 1.5
times the efficiency from 16 nm (Pascal) to 12 nm (Volta) and, in two steps of 1.9 and 2, about 3.8 times from 12 nm
(Turing) to 4 nm (Ada); TSMC states 0.4 of the power from 16 to 7 nm.
"""

from dataclasses import dataclass, replace

from hetgym.costs.gpu.work import Gpu
from hetgym.errors import ArtefactError

SHRINK = 1.25  # Power of the process size with which the energy of a FLOP shrinks
REFERENCE = 12e-9  # Process at which Sustained.need is stated [m]
WIDE = 32  # Lanes of a scheduler from which on a multiply-add takes every issue slot
DENSE = 2.56e11  # Peak of a multiprocessor that 64 lanes do not reach, as that would take a clock of 2 GHz [FLOP/s]


@dataclass(frozen=True, slots=True)
class Sustained:
    """What long products reach; ArtefactError about a figure out of range."""

    free: float = 0.95  # issue share of schedulers with fewer than WIDE lanes, in (0, 1]
    full: float = 0.75  # issue share of schedulers with WIDE lanes or more, in (0, 1]
    need: float = 16e-12  # board power that holds the boost clock, for a chip of 12 nm [W s / FLOP]

    def __post_init__(self) -> None:
        for name, most in (("free", 1.0), ("full", 1.0), ("need", 1.0)):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0.0 < value <= most:
                raise ArtefactError(f"{name} is {value!r}; expected a number in (0, {most}]")

    def clock(self, gpu: Gpu) -> float:
        """Share of the boost clock that the power limit allows, in (0, 1].

        It is the vendor's own figure where there is one, and 1 if power or process are unknown.
        """
        if gpu.clock:
            return gpu.clock
        if not gpu.power or not gpu.process:
            return 1.0
        need = self.need * (gpu.process / REFERENCE) ** SHRINK
        return float(min(1.0, gpu.power / gpu.peak / need))

    def share(self, gpu: Gpu) -> float:
        """Share of the peak that long products reach; the rate never falls when the peak rises.

        A board whose lanes are unknown is no slower than the densest one with few lanes.
        """
        share = (self.full if wide(gpu) else self.free) * self.clock(gpu)
        if gpu.lanes or not wide(gpu):
            return share
        few = replace(gpu, peak=DENSE * gpu.processors)
        return max(share, self.free * self.clock(few) * few.peak / gpu.peak)


def wide(gpu: Gpu) -> bool:
    """True if a multiply-add takes every issue slot; if lanes are unknown, four schedulers are assumed."""
    return gpu.lanes >= WIDE if gpu.lanes else gpu.peak / gpu.processors > DENSE
