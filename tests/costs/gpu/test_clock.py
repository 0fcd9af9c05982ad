from __future__ import annotations

from dataclasses import replace

import pytest

from hetgym.costs.gpu.clock import Sustained, wide
from hetgym.costs.gpu.fit import law
from hetgym.costs.gpu.work import Gpu
from hetgym.errors import ArtefactError

FREE = Gpu(9e11, 80, 6e6, 14e12, 250, 12e-9, 16)
CAPPED = Gpu(3.2e11, 40, 4e6, 8e12, 64, 12e-9, 16)
WIDE = Gpu(7e11, 56, 4e6, 9e12, 250, 16e-9, 32)


def test_the_clock_by_hand():
    """64 W for 8 TFLOP/s are half of what 16 W for each take; a board with 250 W for 14 TFLOP/s holds its clock."""
    sustained = Sustained(0.9, 0.7, 16e-12)
    assert sustained.clock(CAPPED) == pytest.approx(0.5) and sustained.clock(FREE) == 1.0
    assert [sustained.share(gpu) for gpu in (FREE, CAPPED, WIDE)] == pytest.approx([0.9, 0.45, 0.7])
    assert sustained.clock(replace(CAPPED, process=6e-9)) == pytest.approx(1.0)  # 0.42 of the need
    assert sustained.clock(replace(CAPPED, process=24e-9)) == pytest.approx(0.5 / 2**1.25)
    assert sustained.clock(replace(FREE, clock=0.9)) == 0.9  # the vendor's own figure
    assert sustained.clock(replace(CAPPED, power=0.0)) == sustained.clock(replace(CAPPED, process=0.0)) == 1.0


def test_more_power_and_finer_processes_never_slow_a_board_down():
    sustained = Sustained()
    shares = [sustained.share(replace(CAPPED, power=watts)) for watts in range(10, 300, 10)]
    assert shares == sorted(shares)
    shares = [sustained.share(replace(CAPPED, process=nm * 1e-9)) for nm in (28, 16, 12, 7, 4)]
    assert shares == sorted(shares)


def test_unknown_lanes_are_told_by_the_peak_of_a_multiprocessor():
    assert not wide(replace(FREE, lanes=0.0))
    assert wide(replace(FREE, lanes=0.0, peak=30e12, processors=58))


@pytest.mark.parametrize("power", [0.0, 250.0])
def test_a_higher_peak_never_lowers_the_rate(power):
    """Nor where a board of unknown lanes begins to count as one with many, whose issue share is lower."""
    sustained = Sustained(0.97, 0.75, 16e-12)
    for lanes in (0.0, 16.0, 32.0):
        boards = [replace(FREE, lanes=lanes, power=power, peak=80 * each) for each in range(10**11, 5 * 10**11, 10**9)]
        rates = [sustained.share(gpu) * gpu.peak for gpu in boards]
        assert all(b >= a * (1 - 1e-12) for a, b in zip(rates, rates[1:], strict=False))


def test_the_law_is_found_again():
    truth = Sustained(0.92, 0.74, 15e-12)
    found = law({gpu: truth.share(gpu) for gpu in (FREE, CAPPED, WIDE)})
    assert (found.free, found.full) == pytest.approx((0.92, 0.74), rel=0.01)
    assert found.need == pytest.approx(15e-12, rel=0.01)
    assert law({}) == Sustained()


@pytest.mark.parametrize("figures", [(0.0, 0.7, 1e-11), (0.9, 1.3, 1e-11), (0.9, 0.7, -1.0), ("1", 0.7, 1e-11)])
def test_figures_out_of_range_are_refused(figures):
    with pytest.raises(ArtefactError, match="expected a number in"):
        Sustained(*figures)
