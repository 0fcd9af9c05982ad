"""Meshes: ranks, groups, times of collectives, and bad input."""

from __future__ import annotations

from typing import Any

import pytest

from hetgym.costs import LINKS, all_gather_seconds, all_reduce_seconds, all_to_all_seconds, reduce_scatter_seconds
from hetgym.device import Device
from hetgym.errors import ConfigError, HetgymError, PlatformError, UnknownName
from hetgym.sharding import Mesh

DEVICE = Device("gpu", "gpu", {"float32": 1e12}, 1e11)


def test_ranks_are_row_major() -> None:
    mesh = Mesh((2, 3, 2))
    assert mesh.size == 12 and [mesh.coordinates(r) for r in (0, 1, 2, 6, 11)] == [
        (0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 2, 1)
    ]  # fmt: skip
    assert mesh.groups(2)[:2] == [(0, 1), (2, 3)]  # neighbours
    assert mesh.groups("dp")[:2] == [(0, 2, 4), (1, 3, 5)]
    assert mesh.groups("axis0") == [(r, r + 6) for r in range(6)]


def test_defaults_and_names() -> None:
    assert Mesh((4,)).names == ("tp",) and Mesh((2, 4)).names == ("dp", "tp")
    assert Mesh((2, 4), links=("network", "nvlink4"), device="h100").processor.name == "h100"
    assert Mesh((1,), device=DEVICE).processor is DEVICE
    assert Mesh((2, 4)) == Mesh([2, 4]) and hash(Mesh((2, 4))) == hash(Mesh((2, 4)))  # type: ignore[arg-type]


def test_times_are_those_of_collectives() -> None:
    mesh = Mesh((2, 4), links=("network", "nvlink4"))
    links = LINKS["nvlink4"]
    for kind, seconds in {
        "all-reduce": all_reduce_seconds, "all-gather": all_gather_seconds,
        "reduce-scatter": reduce_scatter_seconds, "all-to-all": all_to_all_seconds,
    }.items():  # fmt: skip
        assert mesh.seconds(kind, 2e7, "tp") == seconds(2e7, 4, links)
        assert mesh.seconds(kind, 2e7, "dp") == seconds(2e7, 2, links, 2)


def test_groups_with_a_stride_have_a_share_of_the_adapters_each() -> None:
    """Four groups of two that send at once take as long as one group of a node with a single GPU and adapter."""
    alone = Mesh((2, 1), links=("network", "nvlink3"))
    beside = Mesh((2, 4), links=("network", "nvlink3"))
    size = 1e9
    assert beside.seconds("all-reduce", size, "dp") == alone.seconds("all-reduce", size, "dp")
    # Each GPU sends size bytes (2 (k - 1) / k of it) through 25 GB/s, at 93 % of the bandwidth.
    assert beside.seconds("all-reduce", size, "dp") == pytest.approx(size / 25e9 / 0.93, rel=0.02)


def test_an_axis_of_one_rank_costs_nothing() -> None:
    mesh = Mesh((1, 2))
    assert mesh.seconds("all-reduce", 1e9, 0) == 0.0 < mesh.seconds("all-reduce", 1e9, 1)
    assert Mesh((2,), links=("network",)).seconds("all-gather", 1e6, 0) > 0


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"shape": ()}, ConfigError, "mesh: shape is (); it must be a number of ranks for each axis"),
        ({"shape": 4}, ConfigError, "mesh: shape is 4; it must be a number of ranks for each axis"),
        ({"shape": (2, 0)}, ConfigError, "mesh: an axis has 0 ranks; it must be a whole number of at least 1"),
        ({"shape": (2.0,)}, ConfigError, "mesh: an axis has 2.0 ranks; it must be a whole number of at least 1"),
        ({"names": ("a",)}, ConfigError, "mesh: names are ['a']; 2 axes need one each"),
        ({"names": ("a", "a")}, ConfigError, "mesh: two axes have the same name in ['a', 'a']"),
        ({"links": "nvlink3"}, ConfigError, "mesh: links are ['nvlink3']; 2 axes need one each"),
        (
            {"links": ("nvlink33", "nvlink3")},
            PlatformError,
            "mesh: axis 'dp' has the unknown link 'nvlink33'; did you mean 'nvlink3'",
        ),
        (
            {"links": ("nvlink3", "network")},
            PlatformError,
            "mesh: the network of axis 'tp' is inside a node; put axes between nodes before the others",
        ),
        ({"device": "a1000000"}, PlatformError, "mesh: no known board is called 'a1000000'; "),
        ({"device": 3}, PlatformError, "mesh: device is 3; it must be a Device or the name of a board"),
    ],
)  # fmt: skip
def test_mistakes(arguments: dict[str, Any], error: type[HetgymError], words: str) -> None:
    with pytest.raises(error) as found:
        Mesh(**{"shape": (2, 4), **arguments})
    assert str(found.value).startswith(words)


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match="unknown axis 'pp'; its axes are dp, tp"):
        Mesh((2, 4)).seconds("all-reduce", 1, "pp")
    with pytest.raises(UnknownName, match="unknown collective"):
        Mesh((2, 4)).seconds("reduce", 1, "tp")
