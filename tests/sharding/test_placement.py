"""Placements: parts and their sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetgym.errors import ConfigError
from hetgym.graph.ops import Tensor
from hetgym.sharding import Entry, Mesh, P, Placement, R, S, local_bytes, local_shape
from hetgym.sharding.placement import divides
from tests.mesh_tools import cut, part, whole

MESH = Mesh((2, 2))


@st.composite
def placements(draw: st.DrawFn, axes: int, rank: int, partial: bool = True) -> Placement:
    """Placements of a tensor of some dimensions."""
    entries: list[Entry] = [R, *map(S, range(rank)), *([P] if partial else [])]
    return tuple(draw(st.sampled_from(entries)) for _ in range(axes))


def test_axes_that_shard_one_dimension_are_outer_major() -> None:
    array = np.arange(8)
    assert [part(array, (S(0), S(0)), MESH, rank).tolist() for rank in range(4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert local_shape((8,), (S(0), S(0)), MESH.shape) == (2,)


@given(placements(2, 2))
def test_local_shapes_are_those_of_parts(placement: Placement) -> None:
    array, rng = np.arange(32.0).reshape(4, 8), np.random.default_rng(0)
    parts = cut(array, placement, MESH, rng)
    assert {a.shape for a in parts} == {local_shape(array.shape, placement, MESH.shape)}
    assert np.allclose(whole(parts, placement, MESH), array)


def test_bytes() -> None:
    tensor = Tensor((8, 4), "float16")
    assert local_bytes(tensor, (R, R), (2, 4)) == local_bytes(tensor, (P, R), (2, 4)) == 64.0
    assert local_bytes(tensor, (S(0), S(1)), (2, 4)) == 8.0
    assert local_bytes(Tensor(()), (R, P), (2, 4)) == 4.0


def test_only_equal_parts() -> None:
    assert not divides((6,), (S(0), S(0)), (2, 2)) and not divides((6,), (S(1), R), (2, 2))
    with pytest.raises(
        ConfigError, match=r"^\[S\(0\), R\] does not cut a tensor of shape \(3,\) evenly on axes of \[2, 2\]$"
    ):
        local_shape((3,), (S(0), R), (2, 2))
    with pytest.raises(ConfigError, match="does not cut"):
        local_shape((3,), (S(4), R), (2, 2))


def test_text() -> None:
    assert str((S(1), R, P)) == "(S(1), R, P)"
