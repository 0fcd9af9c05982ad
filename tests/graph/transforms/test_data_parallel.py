"""Data-parallel training: gradients reach every replica, buckets overlap with backward, memory is per replica."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetgym import (
    ConfigError,
    DataflowGraph,
    Device,
    GraphError,
    Link,
    Platform,
    Problem,
    Runtime,
    Schedule,
    Trace,
    UnknownName,
    load_graph,
    load_platform,
    simulate,
    validate,
)
from hetgym.graph import Operator, Tensor, from_json, to_json
from hetgym.graph.transforms import Replicated, data_parallel, training

X = Tensor((256, 512))
LAYERS = 8


def layer(name: str, weight: str = "") -> Operator:
    shared = Tensor((512, 512), constant=True, name=weight or f"{name}.w")
    return Operator(name, "MatMul", (X, shared), (X,))


def perceptron(layers: int = LAYERS) -> DataflowGraph:
    return DataflowGraph([layer(f"l{i}") for i in range(layers)], [(i, 0, i + 1) for i in range(layers - 1)], "mlp")


def cluster(k: int, bandwidth: float, capacity: float = np.inf) -> Platform:
    devices = [
        Device(f"d{r}", "gpu", {"float32": 1e12}, memory_bandwidth=1e12, memory_capacity=capacity, launch_overhead=1e-6)
        for r in range(k)
    ]
    links = [Link(a.name, b.name, 1e-6, bandwidth) for a in devices for b in devices if a != b]
    return Platform("cluster", tuple(devices), tuple(links))


def run(made: Replicated, platform: Platform, runtime: str | Runtime = "links") -> Trace:
    problem = Problem.build(made.graph, platform)
    schedule = Schedule(made.assignment(), priority=made.priority)
    validate(problem, schedule)
    return simulate(problem, schedule, runtime)


def test_one_replica_is_the_step_itself() -> None:
    step = training(perceptron())
    alone = data_parallel(step, 1)
    assert alone.graph is step and not alone.rank.any() and not alone.collective.any()
    with pytest.raises(UnknownName):
        data_parallel(step, 1, algorithm="star")


@pytest.mark.parametrize("algorithm", ["ring", "tree", "double-tree"])
def test_every_update_waits_for_every_replica_of_its_gradient(algorithm: str) -> None:
    made = data_parallel(training(perceptron(), "adam"), 3, algorithm, bucket_bytes=3 * 2**20, chunks=2)
    number = {op.name: i for i, op in enumerate(made.graph.operators)}
    for i in range(LAYERS):
        for mine in range(3):
            for other in range(3):
                gradient, update = f"replica{other}/l{i}/backward", f"replica{mine}/l{i}.w/update"
                assert made.graph.reaches(number[gradient], number[update])
    # 3 MiB a bucket: a gradient of 1 MiB of the first layer is in the last bucket, of which others need not know
    assert not made.graph.reaches(number["replica0/l0/backward"], number["replica0/l7.w/update"])
    assert from_json(to_json(made.graph)) == made.graph


def test_replicas_compute_what_the_step_computes() -> None:
    step, k = training(load_graph("squeezenet", batch=4), "momentum"), 4
    made = data_parallel(step, k)
    own = ~made.collective
    for rank in range(k):
        mine = own & (made.rank == rank)
        assert mine.sum() == len(step)
        assert made.graph.flops[mine] == pytest.approx(step.flops)
        assert made.graph.bytes_read[mine] == pytest.approx(step.bytes_read)
        assert made.graph.resident_bytes[mine] == pytest.approx(step.resident_bytes)
    assert made.graph.resident_bytes[made.collective].sum() == 0


def test_buckets_fill_in_the_order_of_backward() -> None:
    mebibyte = 2.0**20
    step = training(perceptron())
    made = data_parallel(step, 2, bucket_bytes=2.5 * mebibyte)
    assert made.buckets == (3 * mebibyte, 3 * mebibyte, 2 * mebibyte)  # full once it holds that or more
    number = {op.name: i for i, op in enumerate(made.graph.operators)}
    filled = [
        {made.graph.operators[e.source].name for e in made.graph.edges if e.target == number[f"bucket{b}/rank0/Bucket"]}
        for b in range(3)
    ]
    last = LAYERS - 1
    assert filled == [
        {f"replica0/l{last - i}/backward" for i in range(3)},
        {f"replica0/l{last - i}/backward" for i in range(3, 6)},
        {f"replica0/l{last - i}/backward" for i in range(6, 8)},
    ]
    assert data_parallel(step, 2, bucket_bytes=np.inf).buckets == (8 * mebibyte,)
    assert len(data_parallel(step, 2, bucket_bytes=1).buckets) == LAYERS


def test_dtypes_have_buckets_of_their_own() -> None:
    half = Tensor((512, 512), "float16", constant=True, name="half")
    graph = DataflowGraph([layer("a"), Operator("b", "MatMul", (X, half), (X,)), layer("c")], [(0, 0, 1), (1, 0, 2)])
    made = data_parallel(training(graph), 2)
    assert sorted(made.buckets) == [512 * 512 * 2, 2 * 512 * 512 * 4]


def test_a_shared_weight_is_summed_then_reduced_once() -> None:
    graph = DataflowGraph([layer("a", "w"), layer("b", "w"), layer("c")], [(0, 0, 1), (1, 0, 2)])
    step = training(graph)
    made = data_parallel(step, 2)
    assert made.buckets == (2 * 2.0**20,)
    sums = [op for op in made.graph.operators if op.name.endswith("/sum")]
    assert [op.name for op in sums] == ["replica0/w/sum", "replica1/w/sum"]
    own = ~made.collective
    assert made.graph.flops[own].sum() == 2 * step.flops.sum()
    assert len(data_parallel(training(load_graph("lstm")), 2).buckets) > 1


@pytest.mark.slow
def test_overlap_hides_communication_behind_backward() -> None:
    """With one bucket the links wait for backward, then the devices for the links."""
    step = training(perceptron())
    for runtime in ("links", "fair", Runtime(communication="fifo", streams=2)):
        slow = cluster(4, 4e9)
        several = run(data_parallel(step, 4, bucket_bytes=2**20), slow, runtime).makespan
        single = run(data_parallel(step, 4, bucket_bytes=np.inf), slow, runtime).makespan
        alone = run(data_parallel(step, 1), cluster(1, 1e9), runtime).makespan
        assert alone < several < 0.8 * single


def test_the_exposed_all_reduce_of_a_single_bucket() -> None:
    """One bucket after backward: the step is compute, then the ring, then the updates."""
    k, bandwidth = 4, 1e9
    step = training(perceptron())
    trace = run(data_parallel(step, k, bucket_bytes=np.inf), cluster(k, bandwidth))
    size = LAYERS * 2.0**20
    adding = 1e-6 + 3 * size / k / (0.8 * 1e12)
    ring = 2 * (k - 1) * (1e-6 + size / k / bandwidth) + (k - 1) * adding
    alone = run(data_parallel(step, 1), cluster(1, 1e9)).makespan
    assert trace.makespan == pytest.approx(alone + ring, rel=1e-9)


def test_scaling_ends_where_links_are_slow() -> None:
    step = training(perceptron())
    alone = run(data_parallel(step, 1), cluster(1, 1e9)).makespan
    efficiency = [alone / run(data_parallel(step, 4), cluster(4, rate)).makespan for rate in (1e12, 1e10, 1e9)]
    assert 0.9 < efficiency[0] <= 1 and efficiency[0] > efficiency[1] > efficiency[2] and efficiency[2] < 0.5


def test_memory_is_that_of_the_step_on_every_device_and_the_buckets() -> None:
    step, k = training(load_graph("squeezenet", batch=8), "adam"), 4
    track = Runtime(communication="fifo", memory="track")
    alone = run(data_parallel(step, 1), load_platform("8gpu-node"), track).memory.peak[0]
    made = data_parallel(step, k)
    peak = run(made, load_platform("8gpu-node"), track).memory.peak
    assert (peak[k:] == 0).all() and (peak[:k] >= made.graph.model_bytes / k).all()
    assert (np.abs(peak[:k] - alone) <= 2 * sum(made.buckets)).all()  # received chunks beside one's own


@pytest.mark.parametrize("runtime", ["classic", "links", "fair", "framework", "donf"])
def test_every_runtime_takes_it(runtime: str) -> None:
    step = training(perceptron(3))
    trace = run(data_parallel(step, 4), load_platform("two-level-cluster"), runtime)
    assert np.isfinite(trace.makespan) and (trace.finish >= trace.start).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replicas": 0}, "replicas is 0; it must be a whole number of at least 1"),
        ({"replicas": 2.0}, "replicas is 2.0"),
        ({"chunks": 0}, "chunks is 0"),
        ({"bucket_bytes": 0}, "bucket_bytes is 0; it must be positive"),
        ({"bucket_bytes": float("nan")}, "bucket_bytes is nan"),
        ({"bucket_bytes": "25MB"}, "bucket_bytes is '25MB'; it must be a number of bytes"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        data_parallel(training(perceptron(2)), **({"replicas": 2} | options))  # type: ignore[arg-type]


def test_a_graph_that_learns_nothing() -> None:
    with pytest.raises(GraphError, match=r"graph 'mlp' updates no weights; turn it into a step"):
        data_parallel(perceptron(), 2)
    with pytest.raises(UnknownName, match="did you mean 'tree'"):
        data_parallel(training(perceptron()), 2, algorithm="tre")


def test_the_example_of_the_documentation_runs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "studies" / "data-parallel.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, "docs/studies/data-parallel.md", "exec"), names)
    assert {t.source for t in names["trace"].transfers} == set(names["gpus"])
