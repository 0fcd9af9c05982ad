"""Layouts against cuts: values, memory, changes, starts, and the bound from paths that were critical before."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from pipeline_tools import small_chain
from steps import callable_step

from hetgym import ProblemError, load_graph, load_platform
from hetgym.pipeline import CutProblem, Objective, RandomChains, Stage, cut_problem, training_pipeline
from hetgym.pipeline import changes as all_changes
from hetgym.pipeline import layout as module
from hetgym.pipeline.changes import KINDS, MOST_SLID, ROUNDS
from hetgym.pipeline.layout import new_layouts, pass_tables, read, write
from hetgym.pipeline.objective import THROUGHPUT, TRAINING
from hetgym.pipeline.remainders import with_remainders
from hetgym.pipeline.starts import starts

OBJECTIVES = [
    Objective(),
    Objective("latency", requests=5),
    *(Objective("training", schedule=name, micro_batches=8) for name in ("gpipe", "1f1b", "interleaved", "zb-h1")),
]

change, draw_place, fits, least, price, set_times = (
    callable_step(function)
    for function in (
        all_changes.change,
        all_changes.draw_place,
        module.fits,
        module.least,
        module.price,
        module.set_times,
    )
)


class Bench:
    """A problem with room for a few layouts, and its steps by name."""

    def __init__(self, cuts: CutProblem) -> None:
        self.cuts, self.t, self.code = cuts, cuts.tables, cuts.objective.code
        self.passes = pass_tables(cuts.objective, len(self.t.capacity), len(self.t.wall) - 1)
        self.layouts = new_layouts(cuts, self.passes, 2)

    def fits(self, row: int) -> bool:
        return bool(fits(self.t, self.layouts, row))

    def bound(self, row: int) -> float:
        set_times(self.t, self.layouts, row, self.code == TRAINING)
        return float(least(self.layouts, row, len(self.t.capacity), np.inf))

    def price(self, row: int) -> float:
        set_times(self.t, self.layouts, row, self.code == TRAINING)
        return float(price(self.passes, self.layouts, row, self.code == THROUGHPUT))

    def wander(self, rng: np.random.Generator, steps: int) -> Iterator[tuple[int, float]]:
        """Random changes that fit, from the reference on; yields each kind and its bound, with the layout in row 1."""
        write(self.layouts, 0, self.cuts.reference_cut)
        for _ in range(steps):
            kind = int(rng.integers(KINDS))
            place = draw_place(self.layouts, 0, kind, rng)
            if change(self.t, self.layouts, 0, 1, kind, place, rng.random() < 0.5, rng) and self.fits(1):
                yield kind, self.bound(1)
                write(self.layouts, 0, read(self.layouts, 1))


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_values_and_memory_are_those_of_cuts(objective: Objective) -> None:
    """Layouts along a random walk are priced as :meth:`CutProblem.evaluate` prices them; paths bound from below."""
    rng, seen, close = np.random.default_rng(1), set(), 0
    for seed in range(4):
        bench = Bench(cut_problem(RandomChains()(np.random.default_rng(seed)), objective))
        for kind, bound in bench.wander(rng, 300):
            cut = read(bench.layouts, 1)
            value = bench.price(1)
            seen.add(kind)
            assert bench.cuts.fits(cut)
            assert value == pytest.approx(bench.cuts.evaluate(cut).value, rel=1e-12)
            assert bound <= value * (1 + 1e-12)
            if objective.code != THROUGHPUT:
                assert bench.bound(1) == pytest.approx(value, rel=1e-12)  # its own path is known now
                close += bound > 0.99 * value
    assert len(seen - {ROUNDS}) >= 7 and (ROUNDS in seen) == (objective.rounds > 1)
    assert close > 100 or objective.code == THROUGHPUT  # the bound is worth its time


def test_blocks_of_a_network_have_the_values_of_cuts() -> None:
    network = training_pipeline(load_graph("resnet50"), load_platform("cpu-gpu-npu"))
    for objective in OBJECTIVES:
        bench = Bench(cut_problem(network, objective))
        for _ in bench.wander(np.random.default_rng(2), 150):
            value = bench.cuts.evaluate(read(bench.layouts, 1)).value
            assert bench.price(1) == pytest.approx(value, rel=1e-9)


@examples(60)
@given(seed=st.integers(0, 2**32 - 1), chunks=st.integers(1, 3))
def test_a_layout_fits_if_its_cut_does(seed: int, chunks: int) -> None:
    """All cuts of a small chain with tight memory and blocks that a device cannot run."""
    objective = Objective("training", schedule="interleaved", micro_batches=6, chunks=chunks)
    try:
        bench = Bench(cut_problem(small_chain(np.random.default_rng(seed), 6), objective))
    except ProblemError:
        return
    for p, v in itertools.product((1, 2, 3), range(1, chunks + 1)):
        if v > 1 and (p == 1 or p * v > 6):
            continue
        for ends in itertools.combinations(range(1, 6), p * v - 1):
            limits = [0, *ends, 6]
            for devices in itertools.permutations(range(3), p):
                cut = [Stage(limits[k], limits[k + 1], devices[k % p]) for k in range(p * v)]
                write(bench.layouts, 0, cut)
                assert read(bench.layouts, 0) == tuple(cut)
                assert bench.fits(0) == bench.cuts.fits(cut)


def test_changes_are_small() -> None:
    """Ends move by 1, 2, 4 or 8 blocks; swaps and replacements keep the ends; every device has one stage."""
    objective = Objective("training", schedule="interleaved", micro_batches=12, chunks=3)
    bench = Bench(cut_problem(RandomChains((20, 30), 3, 3)(np.random.default_rng(4)), objective))
    rng, seen = np.random.default_rng(0), set()
    write(bench.layouts, 0, bench.cuts.reference_cut)
    for _ in range(3000):
        kind = int(rng.integers(KINDS))
        before = read(bench.layouts, 0)
        place, back = draw_place(bench.layouts, 0, kind, rng), rng.random() < 0.5
        if not change(bench.t, bench.layouts, 0, 1, kind, place, back, rng):
            continue
        after = read(bench.layouts, 1)
        assert read(bench.layouts, 0) == before
        assert after != before
        ends = [stage.end for stage in after]
        devices = [stage.device for stage in after]
        p = len(set(devices))
        assert [0, *ends[:-1]] == [stage.first for stage in after] and ends[-1] == before[-1].end
        assert all(stage.first < stage.end for stage in after)
        assert devices == devices[:p] * (len(after) // p)
        moved = [new - old.end for new, old in zip(ends, before, strict=False) if new != old.end]
        stages = p - len({stage.device for stage in before})
        if kind < 4:
            assert [abs(by) for by in moved] == [2**kind] and stages == 0
        elif kind == all_changes.SLIDE:
            assert set(moved) in ({1}, {-1}) and len(moved) <= MOST_SLID
        elif kind in (all_changes.SWAP, all_changes.REPLACE):
            assert not moved and stages == 0
        else:
            assert stages == {all_changes.DROP: -1, all_changes.ADD: 1, ROUNDS: 0}[kind]
        seen.add((kind, len(after) // p))
        if bench.fits(1) and rng.random() < 0.3:
            write(bench.layouts, 0, after)
    assert {kind for kind, _ in seen} == set(range(KINDS)) and {rounds for _, rounds in seen} == {1, 2, 3}


@examples(40)
@given(seed=st.integers(0, 2**32 - 1), objective=st.sampled_from(OBJECTIVES))
def test_starts_have_the_values_of_the_tables(seed: int, objective: Objective) -> None:
    """The start without a limit on the largest load has the least sum of loads that the tables know; all fit."""
    try:
        cuts = with_remainders(cut_problem(small_chain(np.random.default_rng(seed), 7), objective))
    except ProblemError:
        return
    found = starts(cuts)
    assert found and len(set(found)) == len(found)
    assert all(cuts.fits(cut) for cut in found)
    t = cuts.tables
    least = t.rest_sum[-1, -1, int(t.free[0]), 0]
    values = [cuts.evaluate(cut) for cut in found]
    sums = [(value.forward + value.backward) for value in values]
    loads = [each.max() if objective.code == THROUGHPUT else each.sum() for each in sums]
    assert min(loads) == pytest.approx(least)


def test_without_tables_there_are_no_starts() -> None:
    assert starts(cut_problem(RandomChains()(np.random.default_rng(0)))) == []
