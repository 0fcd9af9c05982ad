"""Resharding: steps that are executed on the arrays of simulated ranks, and prices by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetgym.errors import ConfigError
from hetgym.graph.ops import Tensor
from hetgym.sharding import Mesh, P, Placement, R, S, local_bytes, resharding
from hetgym.sharding.resharding import resharding_seconds
from tests.mesh_tools import cut, run_step, whole
from tests.sharding.test_placement import placements

TENSOR = Tensor((8, 16))
MESHES = (Mesh((2,)), Mesh((2, 2)), Mesh((2, 4)), Mesh((4, 2)), Mesh((2, 2, 2)), Mesh((2, 1, 2)))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Mesh, Placement, Placement]:
    mesh = draw(st.sampled_from(MESHES))
    source, target = (draw(placements(len(mesh.shape), 2)) for _ in range(2))
    return mesh, source, target


@settings(max_examples=300, deadline=None)
@given(cases())
def test_steps_move_the_tensor(case: tuple[Mesh, Placement, Placement]) -> None:
    """Ranks that carry out the steps end up with the target's parts, and send what the steps say."""
    mesh, source, target = case
    steps = resharding(TENSOR, source, target, mesh)
    if any(b == P != a for a, b in zip(source, target, strict=True)):
        assert steps is None
        return
    assert steps is not None and len(steps) <= 3 * len(mesh.shape)
    array = np.arange(128.0).reshape(8, 16)
    parts = cut(array, source, mesh, np.random.default_rng(0))
    for step in steps:
        parts, counted = run_step(parts, step, mesh)
        assert step.bytes == 4.0 * counted
        assert step.seconds == (mesh.seconds(step.kind, step.bytes, step.axis) if step.kind != "slice" else 0)
    assert np.allclose(whole(parts, target, mesh), array)
    assert {4.0 * a.size for a in parts} == {local_bytes(TENSOR, target, mesh.shape)}
    assert bool(steps) == (source != target)


def kinds(source: Placement, target: Placement, mesh: Mesh = MESHES[1]) -> list[tuple[str, int, float]]:
    return [(step.kind, step.axis, step.bytes) for step in resharding(TENSOR, source, target, mesh) or ()]


def test_by_hand() -> None:
    """A tensor of 512 bytes on 2x2."""
    assert kinds((R, R), (S(0), S(1))) == [("slice", 1, 0.0), ("slice", 0, 0.0)]
    assert kinds((S(0), S(1)), (R, R)) == [("all-gather", 0, 256.0), ("all-gather", 1, 512.0)]
    assert kinds((S(0), S(0)), (R, R)) == [("all-gather", 1, 256.0), ("all-gather", 0, 512.0)]  # the innermost first
    assert kinds((P, R), (R, R)) == [("all-reduce", 0, 512.0)]
    assert kinds((P, R), (R, S(0))) == [("slice", 1, 0.0), ("all-reduce", 0, 256.0)]
    assert kinds((P, S(1)), (S(0), R)) == [("reduce-scatter", 0, 256.0), ("all-gather", 1, 256.0)]
    assert kinds((S(0), R), (S(1), R)) == [("all-to-all", 0, 256.0)]
    assert kinds((P, P), (S(0), S(0))) == [("reduce-scatter", 0, 512.0), ("reduce-scatter", 1, 256.0)]
    # The inner shard is in the way: it is gathered, and sliced again once the outer one is gone.
    assert kinds((S(0), S(0)), (R, S(0))) == [("all-gather", 1, 256.0), ("all-gather", 0, 512.0), ("slice", 1, 0.0)]
    assert kinds((R, S(0)), (S(0), S(0))) == [("all-gather", 1, 512.0), ("slice", 0, 0.0), ("slice", 1, 0.0)]


def test_large_sums_are_reduced_hierarchically() -> None:
    """64 MB on 2 nodes of 4: only a quarter of them is reduced between the nodes."""
    mesh, large = Mesh((2, 4), links=("network", "nvlink3")), Tensor((4096, 4096))
    steps = resharding(large, (P, P), (R, R), mesh)
    assert steps is not None and [(step.kind, step.axis, step.bytes / 2**20) for step in steps] == [
        ("reduce-scatter", 1, 64.0), ("all-reduce", 0, 16.0), ("all-gather", 1, 64.0)
    ]  # fmt: skip
    small = resharding(Tensor((8,)), (P, P), (R, R), mesh)
    assert small is not None and [step.kind for step in small] == ["all-reduce", "all-reduce"]  # fewer latencies


def test_partial_sums_cannot_be_made() -> None:
    assert resharding(TENSOR, (R, R), (P, R), MESHES[1]) is None
    assert resharding(TENSOR, (S(0), P), (P, P), MESHES[1]) is None
    assert resharding_seconds(TENSOR, (R, R), (P, R), MESHES[1]) == float("inf")
    assert resharding(TENSOR, (P, R), (P, R), MESHES[1]) == ()


@given(st.integers(0, 1), st.integers(0, 1))
def test_gathers_and_slices_are_inverse(axis: int, dim: int) -> None:
    """S -> R takes one all-gather of the full size, and R -> S goes back for nothing."""
    sharded = tuple(S(dim) if at == axis else R for at in range(2))
    (gather,) = resharding(TENSOR, sharded, (R, R), MESHES[2]) or ()
    assert (gather.kind, gather.bytes) == ("all-gather", TENSOR.bytes) and gather.seconds > 0
    assert resharding_seconds(TENSOR, (R, R), sharded, MESHES[2]) == 0.0


def test_axes_of_one_rank_cost_nothing() -> None:
    assert resharding_seconds(TENSOR, (P, S(0)), (R, R), Mesh((1, 1))) == 0.0


def test_mistakes() -> None:
    with pytest.raises(ConfigError, match="a placement of 1 entries on a mesh of 2 axes"):
        resharding(TENSOR, (R,), (R, R), MESHES[1])
    with pytest.raises(ConfigError, match="does not cut"):
        resharding(Tensor((3,)), (S(0), R), (R, R), MESHES[1])
