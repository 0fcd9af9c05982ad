"""Sum trees against plain sums."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from steps import callable_step

from hetgym.search import sum_tree

weigh, weight_of, draw_leaf = map(callable_step, (sum_tree.weigh, sum_tree.weight_of, sum_tree.draw_leaf))

WEIGHT = st.sampled_from([0.0, 1e-9, 0.3, 1.0, 2.5, 1e9])


@given(leaves=st.integers(1, 9), data=st.data())
def test_leaves_come_by_their_weights(leaves: int, data: st.DataObject) -> None:
    tree, plain = sum_tree.new_tree(leaves), np.zeros(leaves)
    for leaf, weight in data.draw(st.lists(st.tuples(st.integers(0, leaves - 1), WEIGHT), min_size=1, max_size=20)):
        weigh(tree, leaf, weight)
        plain[leaf] = weight
        assert [weight_of(tree, k) for k in range(leaves)] == plain.tolist()
    assert np.isclose(tree[1], plain.sum(), rtol=1e-12)
    if plain.sum() > 0:
        for share in (0.0, 0.25, 0.7, float(np.nextafter(1.0, 0.0))):
            leaf = draw_leaf(tree, share)
            assert 0 <= leaf < leaves and plain[leaf] > 0.0
            before, at = plain[:leaf].sum(), share * plain.sum()
            assert before * (1 - 1e-9) - 1e-12 <= at <= (before + plain[leaf]) * (1 + 1e-9) + 1e-12


def test_weights_that_change_often_leave_no_rounding_behind() -> None:
    tree, rng = sum_tree.new_tree(5), np.random.default_rng(0)
    for _ in range(1_000):
        weigh(tree, int(rng.integers(5)), float(np.exp(rng.normal(0.0, 20.0))))
    for leaf in range(5):
        weigh(tree, leaf, 0.0)
    assert tree[1] == 0.0
