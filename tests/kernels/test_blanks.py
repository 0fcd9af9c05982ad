"""Blank records: arrays of zeros of the types and shapes that records state."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest

from hetgym._kernels.blanks import blank, example
from hetgym._types import BoolArray, FloatArray, IntArray


class Inner(NamedTuple):
    load: Annotated[FloatArray, "d"]
    known: Annotated[BoolArray, "2, n + 1"]


class Outer(NamedTuple):
    order: Annotated[IntArray, "n"]
    rows: Annotated[Inner, "m, 2"]
    inner: Inner
    size: Annotated[FloatArray, "n, 2 d k + 3"]


def test_shapes_and_types_are_those_that_the_fields_state() -> None:
    found = blank(Outer, n=4, d=2, m=3, k=5)
    assert found.order.shape == (4,) and found.order.dtype == np.int32
    assert found.rows.load.shape == (3, 2, 2) and found.rows.known.shape == (3, 2, 2, 5)
    assert found.inner.known.shape == (2, 5) and found.inner.known.dtype == np.bool_
    assert found.size.shape == (4, 23) and not found.size.any()


def test_what_is_given_is_taken_as_it_is_and_needs_no_size() -> None:
    rows = example(Inner)
    found = blank(Outer, {"rows": rows}, n=1, d=1, k=1)
    assert found.rows is rows


def test_a_size_that_is_missing_is_refused() -> None:
    with pytest.raises(KeyError, match="m"):
        blank(Outer, n=1, d=1, k=1)


def test_a_dtype_is_found_whatever_names_the_array_type() -> None:
    """NumPy 2.5 has made an alias of ``NDArray``, whose arguments are not those of ``ndarray``."""

    class Named(NamedTuple):
        start: Annotated[np.dtype[np.int8], "n"]

    assert blank(Named, n=3).start.dtype == np.int8


def test_an_example_has_all_types_and_dimensions() -> None:
    found = example(Outer)
    assert (found.order.ndim, found.rows.load.ndim, found.size.ndim) == (1, 3, 2)


@pytest.mark.parametrize("name", ["HetSchedule-v0", "HetDispatch-v0", "HetSplit-v0", "HetPipeline-v0", "HetImprove-v0"])
def test_observations_have_the_shapes_that_their_records_state(name: str) -> None:
    lanes: Any = gym.make_vec(name, num_envs=2).lanes  # type: ignore[attr-defined]
    seen = lanes._lanes[0].observation
    sizes = {f"{size[0].upper()}": most for size, most in lanes.padding.sizes.items()}
    sizes |= {"L": 2, "A": lanes.mask.shape[1], "N": sizes.get("O", sizes.get("B", 0))}
    sizes["K"] = (sizes["A"] - 1) // sizes["D"]
    for key, array in blank(type(seen), **sizes)._asdict().items():
        found = getattr(seen, key)
        assert (found.shape, found.dtype) == (array.shape, array.dtype), key
