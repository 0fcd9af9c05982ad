"""The reference of a cut problem: single devices and equal cuts, or whatever fits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from pipeline_tools import small_chain

from hetgym import ProblemError
from hetgym.pipeline import DeviceKind, Objective, PipelineProblem, Stage, cut_problem
from hetgym.pipeline.reference import last_stages_first


def test_equal_cuts_by_hand() -> None:
    """4 + 1 + 0.5 and 0.5 + 1 + 2 seconds against 8 on one device; two rounds of four equal stages."""
    chain = PipelineProblem.chain([[4.0], [1.0], [1.0], [2.0]], [DeviceKind("gpu", 2)], transfer=0.5)
    cuts = cut_problem(chain)
    assert (cuts.alone, cuts.reference) == (8.0, 5.5) and cuts.reference_cut == (Stage(0, 2, 0), Stage(2, 4, 1))
    even = PipelineProblem.chain(np.full((8, 1), 0.5), [DeviceKind("gpu", 4)])
    step = cut_problem(even, Objective("training", schedule="interleaved", micro_batches=8))
    assert step.reference_cut == tuple(Stage(k, k + 1, k % 4) for k in range(8)) and step.reference == 28.5


def test_equal_cuts_differ_by_one_block_at_most() -> None:
    """Five blocks on four devices: the last stage has two, of one second each."""
    cuts = cut_problem(PipelineProblem.chain([[2.0], [2.0], [2.0], [1.0], [1.0]], [DeviceKind("gpu", 4)]))
    assert cuts.reference_cut == (Stage(0, 1, 0), Stage(1, 2, 1), Stage(2, 3, 2), Stage(3, 5, 3))
    assert cuts.reference == 2.0


def test_of_equal_cuts_the_first_that_is_tried_counts() -> None:
    """A single device is tried before two, and device 0 before device 1."""
    cuts = cut_problem(PipelineProblem.chain([[2.0], [0.0]], [DeviceKind("gpu", 2)]))
    assert cuts.reference_cut == (Stage(0, 2, 0),) and cuts.reference == cuts.alone == 2.0


def test_the_kind_that_is_faster_alone() -> None:
    kinds = [DeviceKind("slow", 2), DeviceKind("fast", 2)]
    cuts = cut_problem(PipelineProblem.chain([[9.0, 1.0]] * 4, kinds))
    assert cuts.reference_cut == (Stage(0, 2, 2), Stage(2, 4, 3)) and (cuts.alone, cuts.reference) == (4.0, 2.0)


@examples(80)
@given(seed=st.integers(0, 2**32 - 1), objective=st.sampled_from([Objective(), Objective("training")]))
def test_a_cut_that_fits_is_found(seed: int, objective: Objective) -> None:
    """Whenever the table of room says that something fits, the walk through it ends with a cut that does."""
    try:
        cuts = cut_problem(small_chain(np.random.default_rng(seed)), objective)
    except ProblemError:
        return
    cut = last_stages_first(cuts)
    assert [stage.first for stage in cut] == [0, *(stage.end for stage in cut[:-1])] and cut[-1].end == 6
    assert cuts.fits(cut) and len({stage.device for stage in cut}) == len(cut)
    assert cuts.fits(list(cuts.reference_cut))
    assert cuts.reference == cuts.evaluate(list(cuts.reference_cut)).value <= cuts.alone


def test_where_neither_one_device_nor_equal_parts_fit() -> None:
    chain = PipelineProblem.chain([[1.0]] * 4, [DeviceKind("gpu", 2, 6.0)], size=[4.0, 2.0, 1.0, 1.0])
    cuts = cut_problem(chain)
    assert cuts.reference_cut == (Stage(0, 2, 0), Stage(2, 4, 1)) and cuts.alone == math.inf
    uneven = cut_problem(PipelineProblem.chain([[1.0]] * 4, [DeviceKind("gpu", 2, 6.0)], size=[6.0, 2.0, 1.0, 1.0]))
    assert uneven.reference_cut == (Stage(0, 1, 0), Stage(1, 4, 1)) and uneven.reference == 3.0


def test_what_cannot_be_cut() -> None:
    inf, kinds = math.inf, [DeviceKind("a"), DeviceKind("b")]
    with pytest.raises(ProblemError, match="no contiguous cut puts all operators where they can run"):
        cut_problem(PipelineProblem.chain([[1, inf], [inf, 1], [1, inf]], kinds))
    trained = PipelineProblem([[1.0], [1.0]], [(0, 1)], [DeviceKind("gpu")], backward=[False, True])
    with pytest.raises(ProblemError, match="backward operators of its own"):
        cut_problem(trained, Objective("training"))
    many = [DeviceKind(f"d{k}", 1, float(k + 1)) for k in range(24)]
    with pytest.raises(ProblemError, match="too many to know what fits on them"):
        cut_problem(PipelineProblem.chain(np.ones((4, 24)), many))
