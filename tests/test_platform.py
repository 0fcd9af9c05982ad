from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import hetgym
from hetgym import ConfigError, PlatformError, UnknownName
from hetgym.costs import AutoCosts, LearnedCosts, load_costs
from hetgym.graph import load_graph
from hetgym.platform import Device, Link, Platform, load_platform, platform_names


def device(name="gpu", **changes):
    return Device(**{"name": name, "kind": "gpu", "peak_flops": {"float32": 1e12}, "memory_bandwidth": 1e11, **changes})


def both_ways(a, b, latency=1.0, bandwidth=1e9):
    return [Link(a, b, latency, bandwidth), Link(b, a, latency, bandwidth)]


@pytest.mark.parametrize("name", platform_names())
def test_presets_are_complete(name):
    platform = load_platform(name)
    d = len(platform)
    assert platform.name == name
    assert platform.description
    assert platform.latency.shape == platform.bandwidth.shape == (d, d)
    off = ~np.eye(d, dtype=bool)
    assert (platform.latency[off] > 0).all() and (np.diag(platform.latency) == 0).all()
    assert np.isfinite(platform.bandwidth[off]).all() and np.isinf(np.diag(platform.bandwidth)).all()
    assert (platform.latency == platform.latency.T).all() and (platform.bandwidth == platform.bandwidth.T).all()
    for item in platform:
        assert item.model and item.source
        assert math.isfinite(item.memory_capacity)
        assert item.launch_overhead > 0
        assert "float32" in item.peak_flops or item.kind == "npu"
    assert all(link.source and link.kind for link in platform.links)


def test_there_are_presets_for_each_situation():
    assert {"cpu-gpu", "cpu-gpu-balanced", "cpu-2gpu-nvlink", "cpu-gpu-npu", "8gpu-node", "two-level-cluster"} <= set(
        platform_names()
    )


def test_preset_ratios_are_what_the_presets_are_for():
    balanced, usual = load_platform("cpu-gpu-balanced"), load_platform("cpu-gpu")
    ratio = {p.name: p["gpu"].peak_flops["float32"] / p["cpu"].peak_flops["float32"] for p in (balanced, usual)}
    assert 3.9 < ratio["cpu-gpu-balanced"] < 4.1 < ratio["cpu-gpu"] < 8
    nvlink = load_platform("cpu-2gpu-nvlink")
    assert nvlink.bandwidth[1, 2] > 5 * nvlink.bandwidth[0, 1]
    cluster = load_platform("two-level-cluster")
    inside, across = cluster.latency[1, 2], cluster.latency[1, 4]
    assert inside < across
    assert [link.kind for link in cluster.route("node0-gpu0", "node1-gpu1")] == [
        "PCIe 3.0 x16",
        "InfiniBand EDR",
        "InfiniBand EDR",
        "PCIe 3.0 x16",
    ]


def test_routes_sum_latencies_and_take_the_narrowest_link():
    links = [
        Link("a", "s", 1.0, 10.0, efficiency=0.5),
        Link("s", "b", 2.0, 8.0),
        Link("b", "a", 0.25, 3.0),
    ]
    platform = Platform("p", (device("a"), device("b")), tuple(links), ("s",))
    assert platform.route("a", "b") == (links[0], links[1])
    assert platform.route(1, 0) == (links[2],)
    assert platform.route(0, "a") == ()
    np.testing.assert_array_equal(platform.latency, [[0, 3], [0.25, 0]])
    np.testing.assert_array_equal(platform.bandwidth, [[np.inf, 5], [3, np.inf]])


def test_equal_latencies_go_by_hops_then_by_names():
    devices = (device("a"), device("b"))
    links = [x for s in ("s2", "s1") for end in ("a", "b") for x in both_ways(end, s, 0.5)]
    platform = Platform("p", devices, tuple(links), ("s2", "s1"))
    assert platform.route("a", "b")[0].end == "s1"
    direct = Platform("p", devices, (*links, *both_ways("a", "b", 1.0)), ("s2", "s1"))
    assert len(direct.route("a", "b")) == 1
    far = [*both_ways("a", "r1", 0.25), *both_ways("r1", "r2", 0.25), *both_ways("r2", "b", 0.5), *links]
    assert len(Platform("p", devices, tuple(far), ("s2", "s1", "r1", "r2")).route("a", "b")) == 2


def test_no_routes_are_looked_for_between_too_many_devices():
    with pytest.raises(PlatformError, match="platform 'p' has 1025 devices; a platform has at most 1024"):
        Platform("p", tuple(device(f"d{i}") for i in range(1025)))


def test_devices_do_not_forward():
    devices = (device("a"), device("b"), device("c"))
    links = (*both_ways("a", "b"), *both_ways("b", "c"))
    with pytest.raises(PlatformError, match="platform 'p': no route from 'a' to 'c'"):
        Platform("p", devices, links)


@given(st.integers(0, 2**32 - 1))
def test_routes_are_shortest_by_an_independent_search(seed):
    rng = np.random.default_rng(seed)
    names, switches = [f"d{i}" for i in range(4)], [f"s{i}" for i in range(3)]
    nodes = names + switches
    links = [x for n in nodes if n != "s0" for x in both_ways(n, "s0", 9.0)]
    for u in nodes:
        for v in nodes:
            if u != v and "s0" not in (u, v) and rng.random() < 0.4:
                links.append(Link(u, v, float(rng.integers(0, 5)), float(rng.integers(1, 5))))
    platform = Platform("p", tuple(device(n) for n in names), tuple(links), tuple(switches))
    for a, u in enumerate(names):
        for b, v in enumerate(names):
            usable = nx.DiGraph()
            inner = {u, v, *switches}
            usable.add_weighted_edges_from([(x.start, x.end, x.latency) for x in links if {x.start, x.end} <= inner])
            assert platform.latency[a, b] == nx.shortest_path_length(usable, u, v, weight="weight")
            route = platform.route(a, b)
            assert [x.start for x in route] + [v] == [u] + [x.end for x in route]
            if route:
                assert platform.bandwidth[a, b] == min(x.bandwidth for x in route)


def test_devices_are_found_by_number_and_name():
    platform = load_platform("cpu-gpu")
    assert platform[0] is platform["cpu"] and platform[-1] is platform["gpu"]
    assert platform.index("gpu") == 1 and len(list(platform)) == 2
    with pytest.raises(UnknownName, match="unknown device of platform 'cpu-gpu' 'gpuu'; did you mean 'gpu'"):
        platform["gpuu"]


@pytest.mark.parametrize("name", platform_names())
def test_platforms_survive_dictionaries_yaml_pickle_and_copies(name):
    platform = load_platform(name)
    for twin in (
        Platform.from_dict(platform.to_dict()),
        Platform.from_dict(yaml.safe_load(yaml.safe_dump(platform.to_dict()))),
        pickle.loads(pickle.dumps(platform)),
        copy.deepcopy(platform),
    ):
        assert twin == platform and hash(twin) == hash(platform)
        np.testing.assert_array_equal(twin.latency, platform.latency)
        assert not twin.bandwidth.flags.writeable


def test_scaled_figures_are_multiplied_and_nothing_else():
    platform = load_platform("cpu-gpu")
    factors = {"gpu.peak_flops": 2, "gpu.launch_overhead": 0.5, "cpu.memory_capacity": 3, "links.bandwidth": 4}
    scaled = platform.scaled(factors)
    assert scaled.name == "cpu-gpu-gpu.peak_flops=2-gpu.launch_overhead=0.5-cpu.memory_capacity=3-links.bandwidth=4"
    assert scaled["gpu"].peak_flops == {dtype: 2 * rate for dtype, rate in platform["gpu"].peak_flops.items()}
    assert scaled["gpu"].launch_overhead == platform["gpu"].launch_overhead / 2
    assert scaled["cpu"].memory_capacity == 3 * platform["cpu"].memory_capacity
    assert scaled.bandwidth[0, 1] == 4 * platform.bandwidth[0, 1] and (scaled.latency == platform.latency).all()
    undone = scaled.scaled({key: 1 / factor for key, factor in factors.items()}, platform.name)
    assert undone.to_dict() == platform.to_dict()


def test_nothing_can_be_changed():
    platform = load_platform("cpu-gpu")
    with pytest.raises(dataclasses.FrozenInstanceError):
        platform[0].launch_overhead = 0.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        platform[0].peak_flops["float32"] = 1.0  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        platform.latency[0, 1] = 0
    rates = {"float32": 1.0}
    item = device(peak_flops=rates)
    rates["float32"] = 2.0
    assert item.peak_flops["float32"] == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ""}, "empty name"),
        ({"kind": "gpux"}, "unknown kind 'gpux'; did you mean 'gpu'"),
        ({"peak_flops": {}}, "peak_flops is empty"),
        ({"peak_flops": {"flot32": 1.0}}, "unknown dtype 'flot32'; did you mean 'float32'"),
        ({"peak_flops": {"float32": -1.0}}, "peak_flops of float32 is -1.0; it must be positive"),
        ({"memory_bandwidth": math.nan}, "memory_bandwidth is nan"),
        ({"memory_capacity": 0.0}, "memory_capacity is 0.0"),
        ({"launch_overhead": math.inf}, "launch_overhead is inf"),
        ({"streams": 0}, "streams is 0; it must be at least 1"),
        ({"efficiency": {"conf": 0.5}}, "unknown family 'conf'; did you mean 'conv'"),
        ({"efficiency": {"conv": 1.5}}, "efficiency of conv is 1.5; it must be positive and at most 1"),
        ({"memory_efficiency": 0.0}, "memory_efficiency is 0.0"),
    ],
)
def test_bad_devices(changes, message):
    with pytest.raises(PlatformError, match=message):
        device(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"end": "a"}, "link 'a' -> 'a' connects a device with itself"),
        ({"latency": -1.0}, "link 'a' -> 'b': latency is -1.0"),
        ({"bandwidth": 0.0}, "bandwidth is 0.0; it must be positive"),
        ({"bandwidth": math.nan}, "bandwidth is nan"),
        ({"efficiency": 2.0}, "efficiency is 2.0"),
    ],
)
def test_bad_links(changes, message):
    with pytest.raises(PlatformError, match=message):
        Link(**{"start": "a", "end": "b", "latency": 1.0, "bandwidth": 1.0, **changes})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"devices": ()}, "platform 'p' has no devices"),
        ({"devices": (device("a"), device("a"))}, "the name 'a' is used twice"),
        ({"switches": ("b",)}, "the name 'b' is used twice"),
        ({"links": (Link("a", "bb", 1, 1),)}, "link 'a' -> 'bb' ends at unknown device or switch 'bb'; did you mean"),
        ({"links": (*both_ways("a", "b"), Link("a", "b", 2, 2))}, "link 'a' -> 'b' is given twice"),
        ({"links": (Link("a", "b", 1, 1),)}, "no route from 'b' to 'a'"),
    ],
)
def test_bad_platforms(fields, message):
    with pytest.raises(PlatformError, match=message):
        Platform(**{"name": "p", "devices": (device("a"), device("b")), "links": both_ways("a", "b"), **fields})


GOOD = """
name: mine
devices:
  - {name: a, kind: cpu, peak_flops: {float32: 8e9}, memory_bandwidth: 8.0e9}
  - {name: b, kind: gpu, peak_flops: {float32: 8e12}, memory_bandwidth: 1e11}
links:
  - {between: [a, b], latency: 1e-5, bandwidth: 1e9}
"""


def test_a_platform_file(tmp_path):
    file = tmp_path / "file.yaml"
    file.write_text(GOOD)
    platform = load_platform(file)
    assert platform.name == "mine" and platform["a"].peak_flops["float32"] == 8e9
    assert platform == load_platform(str(file))
    file.write_text(GOOD.replace("name: mine\n", ""))
    assert load_platform(file).name == "file"
    file.write_text(GOOD.replace("between: [a, b]", "start: a, end: b"))
    with pytest.raises(PlatformError, match=r"file\.yaml: platform 'mine': no route from 'b' to 'a'"):
        load_platform(file)


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ("kind: gpu", "kind: gqu", ConfigError, r"devices\[1\]\.kind is 'gqu'; did you mean 'gpu'"),
        ("8e12}, memory_b", "8e12}, memroy_b", ConfigError, r"devices\[1\]: unknown key 'memroy_bandwidth'; did you"),
        ("8e9}", "fast}", ConfigError, r"devices\[0\]\.peak_flops\.float32 is 'fast', expected a number"),
        ("8e9}", ".nan}", PlatformError, r"devices\[0\]: device 'a': peak_flops of float32 is nan"),
        ("1e-5", "-1", PlatformError, r"links\[0\]: link 'a' -> 'b': latency is -1"),
        ("between: [a, b]", "between: [a, b], start: a", PlatformError, r"links\[0\]: a link has either between"),
        ("between: [a, b], ", "", PlatformError, r"links\[0\]: a link has either between"),
        ("between: [a, b]", "between: [a]", ConfigError, r"links\[0\]\.between has 1 entries, expected 2"),
        ("devices:", "device:", ConfigError, r"unknown key 'device'; did you mean 'devices'"),
    ],
)
def test_bad_platform_files_name_the_place(tmp_path, old, new, error, message):
    file = tmp_path / "file.yaml"
    file.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(error, match=r"file\.yaml: " + message):
        load_platform(file)


def test_unknown_presets_and_missing_files(tmp_path):
    with pytest.raises(UnknownName, match="unknown platform 'cpu-gpuu'; did you mean 'cpu-gpu'"):
        load_platform("cpu-gpuu")
    with pytest.raises(ConfigError, match="no such file"):
        load_platform(tmp_path / "none.yaml")


def test_what_is_tagged_a_time_and_is_none_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text("name: !!timestamp x\n")
    with pytest.raises(ConfigError, match=r"odd\.yaml"):
        load_platform(str(path))


def test_reserves_and_shared_memories() -> None:
    """Real GPUs keep 5 % for context, allocator and buffers unless told otherwise."""
    rates = {"peak_flops": {"float32": 1e12}, "memory_bandwidth": 1e9}
    card = Device("g", "gpu", memory_capacity=40e9, model="NVIDIA A100 SXM4 40 GB", **rates)
    assert card.usable_memory == 38e9 and dataclasses.replace(card, memory_reserve=1e9).usable_memory == 39e9
    assert (
        dataclasses.replace(card, model="").usable_memory == dataclasses.replace(card, kind="cpu").usable_memory == 40e9
    )
    with pytest.raises(PlatformError, match=r"memory_reserve is 4e\+10; memory_capacity, 4e\+10, must be more"):
        dataclasses.replace(card, memory_reserve=40e9)
    platform = load_platform("snapdragon-8-elite")
    assert platform.memory_pool == [0] * len(platform)
    problem = hetgym.Problem.build(hetgym.load_graph("squeezenet"), platform)
    assert problem.total_memory == platform["cpu"].memory_capacity
    assert load_platform("cpu-gpu").memory_pool == [0, 1]
    usual = hetgym.Problem.build(hetgym.load_graph("squeezenet"), load_platform("cpu-gpu"))
    assert usual.pools == [] and usual.memory_capacity[1] == 0.95 * load_platform("cpu-gpu")["gpu"].memory_capacity


def test_a_cost_model_lies_beside_the_platform_that_names_it(tmp_path: Path) -> None:
    """From whatever folder the platform is loaded."""
    costs = load_costs("xeon-core")
    assert isinstance(costs, LearnedCosts)
    costs.save(tmp_path / "mine.npz")
    device = {"name": "a", "kind": "cpu", "peak_flops": {"float32": 1e12}, "memory_bandwidth": 1e11}
    devices = [{**device, "costs": "mine.npz"}, {**device, "name": "b", "costs": "xeon-core"}]
    link = {"between": ["a", "b"], "latency": 1e-6, "bandwidth": 1e10}
    (tmp_path / "p.yaml").write_text(yaml.safe_dump({"devices": devices, "links": [link]}))
    first, second = load_platform(tmp_path / "p.yaml").devices
    assert first.costs == str(tmp_path / "mine.npz") and second.costs == "xeon-core"
    operator = load_graph("alexnet").operators[0]
    assert AutoCosts().predict([operator], first) == AutoCosts().predict([operator], second)
