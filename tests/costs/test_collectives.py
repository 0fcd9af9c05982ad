"""Times of collectives: laws, limits by hand, and the public tables where they are at hand."""

from __future__ import annotations

import importlib.util
import os
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym.costs.collectives import (
    CURVES,
    CUSTOM_LIMIT,
    KINDS,
    KNOTS,
    LINKS,
    Links,
    all_gather_seconds,
    all_reduce_seconds,
    all_to_all_seconds,
    collective_seconds,
    latency_of,
    reduce_scatter_seconds,
    seconds_per_byte,
    send_seconds,
)
from hetgym.errors import PlatformError, UnknownName

SIZES = 2.0 ** np.arange(0.0, 45.0, 0.125)
GROUPS = [(2, 1), (3, 1), (5, 1), (8, 1), (72, 1), (4, 4), (16, 2), (256, 32)]


@pytest.mark.parametrize("ring", LINKS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_larger_message_is_never_faster(ring, kind):
    for gpus, nodes in GROUPS:
        seconds = collective_seconds(kind, SIZES, gpus, LINKS[ring], nodes)
        assert np.isfinite(seconds).all() and (seconds > 0).all()
        if kind == "custom-all-reduce" and nodes == 1:  # another algorithm from 8 MiB on
            seconds = seconds[SIZES < CUSTOM_LIMIT]
        assert (np.diff(seconds) >= -1e-12 * seconds[1:]).all()


@given(st.sampled_from(KINDS), st.floats(1e9, 1e12), st.floats(1.01, 10), st.integers(2, 64), st.floats(1, 1e10))
def test_a_faster_link_is_never_slower(kind, bandwidth, factor, gpus, size):
    slow = Links(bandwidth, 5e-6, 1e-6, network=bandwidth / 8)
    fast = replace(slow, bandwidth=bandwidth * factor, network=slow.network * factor)
    for nodes in (1, gpus):
        before, after = (collective_seconds(kind, size, gpus, links, nodes)[0] for links in (slow, fast))
        assert after <= before * (1 + 1e-12)


def test_the_ends_are_latency_and_bandwidth():
    links = Links(100e9, 5e-6, 1e-6)
    assert all_reduce_seconds(1, 8, links) == pytest.approx(5e-6 + 14e-6, rel=0.02)
    assert all_gather_seconds(1, 4, links) == pytest.approx(5e-6 + 3e-6, rel=0.02)
    share = 2 * 7 / 8 * 2**40 / all_reduce_seconds(2**40, 8, links) / 100e9
    assert 0.7 < share < 0.8  # rings reach three quarters of NVLink
    assert 2 * 7 / 8 * 2**40 / all_reduce_seconds(2**40, 8, replace(links, switch=True)) > 0.95 * 100e9
    assert reduce_scatter_seconds(2**30, 8, links) == all_gather_seconds(2**30, 8, links)
    assert send_seconds(2**20, links) == all_to_all_seconds(2**21, 2, links)


def test_between_nodes_the_adapters_count():
    links = LINKS["nvlink3"]
    assert latency_of("all-reduce", 256, links, 32) == pytest.approx(8.1e-6 + 2 * (7 * 1e-6 + 5 * 5e-6))
    assert seconds_per_byte("all-reduce", 16, links, 2) == pytest.approx(2 * 15 / 16 / (8 * 25e9))
    assert seconds_per_byte("all-to-all", 16, links, 2) == pytest.approx(8 / 16 / 25e9)
    half = replace(links, network=links.network / 2)
    once, twice = (all_reduce_seconds(2**32, 4, which, 4) for which in (links, half))
    assert twice / once == pytest.approx(2, rel=0.02)
    assert 0.9 < 2 * 3 / 4 * 2**32 / once / links.network < 0.95


def test_an_all_reduce_by_direct_reads_ends_at_its_limit():
    links = LINKS["nvlink3"]
    assert [latency_of("custom-all-reduce", gpus, links) for gpus in (2, 8)] == pytest.approx([4.9e-6, 5.5e-6])
    sizes = np.array([CUSTOM_LIMIT / 4, CUSTOM_LIMIT])
    library, direct = (collective_seconds(kind, sizes, 2, links) for kind in ("all-reduce", "custom-all-reduce"))
    assert direct[0] < library[0] and direct[1] == library[1]
    quick = replace(links, direct=1e-9)  # would be faster beyond the limit, too
    assert collective_seconds("custom-all-reduce", CUSTOM_LIMIT, 2, quick) == library[1]
    assert (
        collective_seconds("custom-all-reduce", sizes, 4, links, 2)
        == collective_seconds("all-reduce", sizes, 4, links, 2)
    ).all()


def test_switches_add_numbers_within_one_node():
    with_switch, without = LINKS["nvlink4"], replace(LINKS["nvlink4"], switch=False)
    assert all_reduce_seconds(2**28, 8, with_switch) < all_reduce_seconds(2**28, 8, without)
    assert all_reduce_seconds(2**28, 16, with_switch, 2) == all_reduce_seconds(2**28, 16, without, 2)
    assert all_gather_seconds(2**28, 8, with_switch) == all_gather_seconds(2**28, 8, without)


def test_what_moves_nothing_takes_no_time():
    assert all_reduce_seconds(2**30, 1, LINKS["pcie4"]) == 0
    assert collective_seconds("all-gather", [0, -1, 8], 8, LINKS["nvlink4"])[:2].tolist() == [0, 0]


def test_curves_have_a_number_for_each_knot():
    assert set(CURVES) == {"ring", "half", "all-to-all", "switch", "custom"}
    for rows in CURVES.values():
        assert all(len(curve) == len(KNOTS) for curve in rows.values())


def test_bad_input_is_refused():
    with pytest.raises(UnknownName, match="did you mean 'all-reduce'"):
        collective_seconds("all-reduc", 8, 2, LINKS["nvlink3"])
    with pytest.raises(PlatformError, match="3 GPUs cannot be spread evenly over 2 nodes"):
        all_reduce_seconds(8, 3, LINKS["nvlink3"], 2)
    with pytest.raises(PlatformError, match="number of GPUs"):
        all_reduce_seconds(8, 0, LINKS["nvlink3"])
    with pytest.raises(PlatformError, match="links: bandwidth"):
        Links(0.0, 1e-6, 1e-6)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path, old = Path(__file__).parents[2] / "scripts" / "fit" / "nccl.py", list(sys.path)
    spec = importlib.util.spec_from_file_location("benchmark_costs_nccl", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    sys.path[:] = old
    return module


def test_the_fit_finds_what_made_the_rows(script):
    truth = {board: LINKS[ring] for board, ring in script.RING.items()}
    rows = [
        script.Row(board, op, gpus, 2.0**power, 0.0, True)
        for board in ("a100", "h100")
        for op in ("all_reduce", "all_gather", "alltoall")
        for gpus in (2, 4, 8)
        for power in range(7, 30)
    ]
    times = script.predicted(rows, truth, CURVES)
    rows = [replace(row, seconds=float(time)) for row, time in zip(rows, times, strict=True)]
    fitted = script.latencies(rows)
    assert fitted["a100"].start == pytest.approx(8.1e-6, rel=0.05)
    again = script.predicted(rows, fitted, script.curves_of(rows, fitted))
    assert np.abs(again / times - 1).mean() < 0.04


@pytest.mark.skipif("HETGYM_DATA" not in os.environ, reason="needs HETGYM_DATA")
def test_the_shipped_curves_are_those_of_the_data(script):
    pytest.importorskip("pyarrow")
    rows = script.rows_of(Path(os.environ["HETGYM_DATA"]) / "aiconfigurator")
    fitted = script.latencies(rows)
    assert {f: dict(c) for f, c in script.curves_of(rows, fitted).items()} == {f: dict(c) for f, c in CURVES.items()}
    guess = script.predicted(rows, {board: LINKS[ring] for board, ring in script.RING.items()}, CURVES)
    every = {row["what"]: row["mean"] for row in script.scores(rows, guess, "fitted")}
    assert every["all_reduce"] < 0.06 and every["all of NCCL"] < 0.07
