"""Collectives against their closed forms: results, links used, and times."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from hetgym import (
    ConfigError,
    Device,
    Link,
    Platform,
    Problem,
    Schedule,
    Trace,
    UnknownName,
    load_platform,
    simulate,
    validate,
)
from hetgym.costs import Roofline
from hetgym.graph import FusionClass, from_json, to_json
from hetgym.graph.transforms import COLLECTIVES, Replicated, collective, fuse

LATENCY, BANDWIDTH = 3e-6, 10e9
COUNT = 840 * 1024  # elements; divides by all ranks and chunks used here


def device(name: str) -> Device:
    return Device(name, "gpu", {"float32": 1e13}, memory_bandwidth=1e12, launch_overhead=1e-6)


def mesh(k: int, slow: dict[tuple[int, int], float] | None = None) -> Platform:
    """A link of its own for every ordered pair of devices."""
    links = [
        Link(f"d{a}", f"d{b}", LATENCY, (slow or {}).get((a, b), BANDWIDTH))
        for a in range(k)
        for b in range(k)
        if a != b
    ]
    return Platform("mesh", tuple(device(f"d{r}") for r in range(k)), tuple(links))


def switch(k: int, bus: bool = False) -> Platform:
    """One port for each device; or all of them on one bus, which carries what goes either way."""
    ends = [("hub", "bus"), ("bus", "out")] if bus else []
    links = [Link(f"d{r}", "hub", LATENCY / 2, BANDWIDTH) for r in range(k)]
    links += [Link("out" if bus else "hub", f"d{r}", LATENCY / 2, BANDWIDTH) for r in range(k)]
    links += [Link(a, b, 0.0, BANDWIDTH) for a, b in ends]
    return Platform(
        "star", tuple(device(f"d{r}") for r in range(k)), tuple(links), ("hub", "bus", "out") if bus else ("hub",)
    )


def run(made: Replicated, platform: Platform, runtime: str = "links", devices: Sequence[int] | None = None) -> Trace:
    problem = Problem.build(made.graph, platform, Roofline())
    schedule = Schedule(made.assignment(devices), priority=made.priority)
    validate(problem, schedule)
    return simulate(problem, schedule, runtime)


def adding(size: float) -> float:
    """Seconds to add a chunk: it and one's own are read, the sum is written."""
    return 1e-6 + 3 * size / (0.8 * 1e12)


SIZE = 4.0 * COUNT


@pytest.mark.parametrize("runtime", ["classic", "links", pytest.param("fair", marks=pytest.mark.slow)])
@pytest.mark.parametrize("k", [2, 3, 4, 5, 8])
def test_ring_all_reduce_takes_what_patarasuk_and_yuan_say(k: int, runtime: str) -> None:
    trace = run(collective("all-reduce", k, COUNT), mesh(k), runtime)
    expected = 2 * (k - 1) * (LATENCY + SIZE / k / BANDWIDTH) + (k - 1) * adding(SIZE / k)
    assert trace.makespan == pytest.approx(expected, rel=1e-12 if runtime != "fair" else 1e-9)


@pytest.mark.parametrize("k", [2, 3, 4, 8])
def test_halves_of_the_ring(k: int) -> None:
    step = LATENCY + SIZE / k / BANDWIDTH
    scatter = run(collective("reduce-scatter", k, COUNT), mesh(k)).makespan
    gather = run(collective("all-gather", k, COUNT), mesh(k)).makespan
    assert scatter == pytest.approx((k - 1) * (step + adding(SIZE / k)), rel=1e-12)
    assert gather == pytest.approx((k - 1) * step, rel=1e-12)


@pytest.mark.parametrize("platform", [mesh, switch])
@pytest.mark.parametrize("k", [2, 4, 8, 16])
def test_tree_all_reduce_takes_two_logarithms(k: int, platform: Callable[[int], Platform]) -> None:
    """A binomial tree never asks more of a port than one transfer at a time, so a switch is as good as a mesh."""
    rounds, step = math.ceil(math.log2(k)), LATENCY + SIZE / BANDWIDTH
    halves = {
        name: run(collective(name, k, COUNT, algorithm="tree"), platform(k)).makespan
        for name in ("all-reduce", "reduce", "broadcast")
    }
    assert halves["all-reduce"] == pytest.approx(2 * rounds * step + rounds * adding(SIZE), rel=1e-12)
    assert halves["reduce"] == pytest.approx(rounds * (step + adding(SIZE)), rel=1e-12)
    assert halves["broadcast"] == pytest.approx(rounds * step, rel=1e-12)


@pytest.mark.parametrize("k", [3, 5, 6, 7, 11])
def test_trees_of_any_number_broadcast_in_ceil_log2_rounds(k: int) -> None:
    trace = run(collective("broadcast", k, COUNT, algorithm="tree"), switch(k))
    assert trace.makespan <= math.ceil(math.log2(k)) * (LATENCY + SIZE / BANDWIDTH) * (1 + 1e-12)


@pytest.mark.parametrize("algorithm", ["ring", "tree", "double-tree"])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("chunks", [1, 3])
def test_all_reduce_brings_everything_to_everybody(algorithm: str, k: int, chunks: int) -> None:
    """Each rank ends with the sum of all ranks' chunks, each counted once, chunk by chunk."""
    made = collective("all-reduce", k, COUNT, algorithm=algorithm, chunks=chunks)
    graph, parts = made.graph, chunks * {"ring": k, "tree": 1, "double-tree": 2}[algorithm]
    sums: dict[tuple[int, int], Counter[tuple[int, int]]] = {}
    for i in graph.topological_order.tolist():
        op = graph.operators[i]
        reads = [sums[e.source, e.slot] for e in graph.edges if e.target == i]
        if op.kind == "Bucket":
            for c in range(parts):
                sums[i, c] = Counter({(int(made.rank[i]), c): 1})
        elif op.kind == "Unbucket":
            total = sum(reads, Counter())
            assert total == Counter({(rank, c): 1 for rank in range(k) for c in range(parts)})
        else:
            sums[i, 0] = sum(reads, Counter())
            assert len(reads) == (2 if op.kind == "RecvReduce" else 1)
    assert [op.kind for op in graph.operators].count("Unbucket") == k
    assert from_json(to_json(graph)) == graph


@pytest.mark.parametrize("k", [2, 3, 4, 8])
def test_what_each_device_sends(k: int) -> None:
    """On the ring 2 (k - 1) / k of the buffer, the least there is; the two trees share the work of inner ranks."""
    sent = {}
    for algorithm in ("ring", "tree", "double-tree"):
        made = collective("all-reduce", k, COUNT, algorithm=algorithm)
        graph, rank = made.graph, made.rank
        crosses = rank[graph.edge_source] != rank[graph.edge_target]
        sent[algorithm] = np.bincount(rank[graph.edge_source[crosses]], graph.edge_bytes[crosses], minlength=k)
        assert sent[algorithm].sum() == pytest.approx(2 * (k - 1) * SIZE)
    assert sent["ring"] == pytest.approx(np.full(k, 2 * (k - 1) / k * SIZE))
    assert sent["tree"].max() == (k - 1).bit_length() * SIZE  # the root, on the way down
    assert sent["double-tree"].max() <= 2 * SIZE


def test_the_ring_goes_in_the_order_of_the_devices() -> None:
    made, order = collective("all-reduce", 4, COUNT), [2, 0, 3, 1]
    trace = run(made, mesh(4), devices=order)
    pairs = {(t.source, t.target) for t in trace.transfers}
    assert pairs == {(2, 0), (0, 3), (3, 1), (1, 2)}


def test_the_slowest_link_of_a_ring_sets_its_pace() -> None:
    k, slow = 4, BANDWIDTH / 8
    made, one = collective("all-reduce", k, COUNT), SIZE / k
    around = run(made, mesh(k, {(1, 2): slow})).makespan
    assert around > 2 * (k - 1) * one / slow  # all but two chunks of the buffer cross it twice
    assert run(made, mesh(k, {(2, 1): slow})).makespan == run(made, mesh(k)).makespan  # nobody goes that way
    assert run(made, mesh(k, {(1, 2): slow}), devices=[0, 2, 1, 3]).makespan < around / 2  # nor here


@pytest.mark.parametrize("runtime", ["links", pytest.param("fair", marks=pytest.mark.slow)])
def test_rings_contend_where_routes_meet(runtime: str) -> None:
    """A switch has a port for each direction of each device; on a bus the k transfers of a step take turns."""
    k = 4
    made, size = collective("all-gather", k, COUNT), SIZE / k
    apart, star, bus = (run(made, platform, runtime).makespan for platform in (mesh(k), switch(k), switch(k, bus=True)))
    assert star == pytest.approx(apart, rel=1e-9)
    assert bus >= k * (k - 1) * size / BANDWIDTH
    assert run(made, switch(k, bus=True), "classic").makespan == pytest.approx(apart, rel=1e-9)


def test_chunks_follow_one_another() -> None:
    """Chunks of a tree overlap, two trees do better than one; the ring is best for large buffers, trees for small."""
    k, many = 8, COUNT * 16
    times = {
        (algorithm, chunks): run(
            collective("all-reduce", k, many, algorithm=algorithm, chunks=chunks), mesh(k)
        ).makespan
        for algorithm in ("tree", "double-tree")
        for chunks in (1, 16)
    }
    assert times["tree", 16] < 0.3 * times["tree", 1]
    assert times["double-tree", 1] < 0.6 * times["tree", 1] and times["double-tree", 16] < times["tree", 16]
    for count, quickest in ((many, "ring"), (64, "tree")):
        made = {name: collective("all-reduce", k, count, algorithm=name) for name in ("ring", "tree")}
        took = {name: run(graph, switch(k)).makespan for name, graph in made.items()}
        assert took[quickest] < min(took[name] for name in took if name != quickest) / 2


def test_chunks_of_odd_sizes_add_up() -> None:
    graph = collective("all-reduce", 4, 10).graph
    assert [t.shape for t in graph.operators[0].outputs] == [(3,), (3,), (2,), (2,)]
    assert graph.operators[-1].outputs[0].shape == (10,)


def test_operators_of_collectives_are_priced_and_never_fused() -> None:
    graph = collective("all-reduce", 2, COUNT).graph
    assert (graph.fusion_class == FusionClass.OPAQUE).all() and len(fuse(graph).graph) == len(graph)
    for op in graph.operators:
        assert (op.flops, op.bytes_read) == ((COUNT / 2, SIZE) if op.kind == "RecvReduce" else (0.0, 0.0))


@pytest.mark.parametrize(
    ("error", "message", "options"),
    [
        (UnknownName, "unknown collective 'allreduce'; did you mean 'all-reduce'", {"name": "allreduce"}),
        (UnknownName, "unknown all-reduce algorithm 'rings'; did you mean 'ring'", {"algorithm": "rings"}),
        (UnknownName, "unknown dtype 'float31'", {"dtype": "float31"}),
        (ConfigError, "broadcast cannot use the algorithm 'ring'; known for it: tree, double", {"name": "broadcast"}),
        (ConfigError, "ranks is 0; it must be a whole number of at least 1", {"ranks": 0}),
        (ConfigError, "count is 2.5", {"count": 2.5}),
        (ConfigError, "chunks is True", {"chunks": True}),
    ],
)
def test_bad_options(error: type[Exception], message: str, options: dict[str, object]) -> None:
    with pytest.raises(error, match=message):
        collective(**({"name": "all-reduce", "ranks": 4, "count": 64} | options))  # type: ignore[arg-type]


@pytest.mark.parametrize("devices", [[0], [0, 0], [0, -1], [0, 1.5], ["a", "b"]])
def test_bad_devices(devices: list[int]) -> None:
    with pytest.raises(ConfigError, match="devices must be"):
        collective("all-reduce", 2, 64).assignment(devices)


def test_every_collective_can_be_built() -> None:
    for name in COLLECTIVES:
        algorithm = "ring" if name in ("reduce-scatter", "all-gather", "all-reduce") else "tree"
        assert run(collective(name, 4, COUNT, algorithm=algorithm), mesh(4)).makespan > 0


NCCL = {  # bytes -> seconds of an all-reduce over 8 A100 SXM4; NCCL 2.27.3, NVIDIA aiconfigurator, Apache-2.0
    131072: 27.41e-6,
    2097152: 53.70e-6,
    16777216: 216.5e-6,
    67108864: 595.3e-6,
    536870912: 4225.9e-6,
}


def test_the_ring_beside_nccl_on_eight_a100() -> None:
    """The preset agrees where bandwidth dominates; small messages are slow, as each step is launched by itself."""
    platform = load_platform("8gpu-node")
    ratio = {
        size: run(collective("all-reduce", 8, size // 2, "float16"), platform).makespan / known
        for size, known in NCCL.items()
    }
    assert all(1.0 < ratio[size] < 1.25 for size in ratio if size > 1e7)
    assert 1.5 < ratio[2097152] < ratio[131072] < 4.5
