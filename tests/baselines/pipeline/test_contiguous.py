"""Cutting along one order: equal parts by hand, optimal ones against all assignments."""

from __future__ import annotations

import numpy as np
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from pipeline_tools import best_of_all, distinct_colours

from hetgym.baselines.pipeline import contiguous_dp, equal_cut
from hetgym.pipeline import DeviceKind, PipelineProblem


@examples(40)
@given(n=st.integers(1, 7), seed=st.integers(0, 2**32 - 1))
def test_chains_on_different_devices(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = [DeviceKind("a"), DeviceKind("b", memory=float(rng.integers(3, 20))), DeviceKind("c", transfers=False)]
    chain = PipelineProblem.chain(
        rng.integers(1, 9, (n, 3)), kinds, transfer=rng.integers(0, 4, n), size=rng.integers(0, 4, n)
    )
    assert chain.max_load(contiguous_dp(chain)) == best_of_all(distinct_colours(chain))


def test_equal_cut_by_hand() -> None:
    chain = PipelineProblem.chain(np.ones((6, 2)) * [[3.0, 1.0]], [DeviceKind("slow", 1), DeviceKind("fast", 3)])
    assert equal_cut(chain).tolist() == [1, 1, 2, 2, 3, 3]
    assert chain.max_load(equal_cut(chain)) == 2.0
    short = PipelineProblem.chain([[1.0]], [DeviceKind("gpu", 4)])
    assert equal_cut(short).tolist() == [0]
