"""Copies keep every field that they are not meant to change, also fields that are added later."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from dataclasses import MISSING, fields
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from hetgym import DataflowGraph, Device, Link, Platform, Problem, Schedule
from hetgym.baselines.pipeline.planning import by_memory
from hetgym.envs.dispatch.jobs import side_by_side
from hetgym.graph import from_json, to_json
from hetgym.graph.ops import Operator, Tensor
from hetgym.graph.transforms import cast, fuse, split, training
from hetgym.pipeline import DeviceKind, PipelineProblem, TrainingPipeline
from hetgym.planning.layers import by_layers
from hetgym.problem import Routes
from hetgym.weights import SharedWeights
from hetgym.workloads.perturbing import Neighbourhood

EDGES = {"edge_source", "edge_target", "edge_bytes", "edge_tensor"}
NUMBERS = EDGES | {"cost", "weight_bytes", "output_bytes", "operator_names", "operator_kinds", "occupancy"}

PROBLEM = Problem(
    cost=np.array([[1.0, 2.0], [3.0, 4.0], [5.0, np.inf]]),
    edge_source=np.array([0, 1]),
    edge_target=np.array([1, 2]),
    edge_bytes=np.array([7.0, 8.0]),
    edge_tensor=np.array([0, 1]),
    latency=np.array([[0.0, 0.5], [0.25, 0.0]]),
    bandwidth=np.array([[np.inf, 2.0], [2.0, np.inf]]),
    weight_bytes=np.array([4.0, 5.0, 6.0]),
    output_bytes=np.array([7.0, 8.0, 9.0]),
    memory_capacity=np.array([100.0, 90.0]),
    operator_names=["layers.0.q", "layers.0.k", "layers.1.q"],
    operator_kinds=["Conv", "Gemm", "Add"],
    device_names=["a", "b"],
    name="full",
    routes=Routes(np.array([0, 0, 1, 2, 2], np.int32), np.array([0, 0], np.int32), np.array([2.0])),
    asynchronous=[True, False],
    occupancy=np.full((3, 2), 0.5),
    power_busy=[3.0, 4.0],
    power_idle=[1.0, 2.0],
    price=[0.5, 0.25],
    notes=["a note"],
    shared_weights=SharedWeights.of(3, [([0, 2], 3.0)]),
    memory_pool=[0, 0],
    partition_overhead=[0.5, 0.25],
    synchronous=[True, False],
)
"""A problem none of whose arguments is the default."""

# A device, and so on below, none of whose fields is the default.
DEVICE = Device(
    "a",
    "gpu",
    {"float32": 1.0},
    2.0,
    memory_capacity=3.0,
    memory_reserve=0.5,
    memory_pool="shared",
    launch_overhead=1.0,
    streams=2,
    efficiency={"matmul": 0.5},
    memory_efficiency=0.5,
    processors=4,
    cache_bytes=5.0,
    power_limit=6.0,
    process=7e-9,
    lanes=16,
    costs="xeon-core",
    half_costs="h200",
    model="A1",
    source="a sheet",
    power_busy=8.0,
    power_idle=1.0,
    price=9.0,
    partition_overhead=1.0,
    synchronous=True,
)
LINK = Link("a", "hub", 1.0, 2.0, 0.5, "PCIe", "a sheet")
PLATFORM = Platform("full", (DEVICE,), (LINK,), ("hub",), "about it")

WEIGHT, IMAGE = Tensor((4, 4), constant=True, name="w"), Tensor((4, 4))
GRAPH = DataflowGraph(
    [
        Operator("gemm", "Gemm", (IMAGE, WEIGHT), (IMAGE,), {"transB": 1}),
        Operator("relu", "Relu", (IMAGE,), (IMAGE,)),
        Operator("mean", "ReduceMean", (IMAGE,), (Tensor((1,)),), {"axes": (0, 1)}),
    ],
    [(0, 0, 1), (1, 0, 2)],
    "full",
    ["a note"],
)
PIPELINE = PipelineProblem(
    [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    [(0, 1), (1, 2)],
    [DeviceKind("gpu", 2, 100.0), DeviceKind("cpu", 1, 50.0, transfers=False)],
    transfer=[0.5, 0.25, 0.125],
    size=[4.0, 5.0, 6.0],
    colour=[0, 1, -1],
    backward=[0, 0, 1],
    operator_names=["x", "y", "z"],
    name="full",
    shared=SharedWeights.of(3, [([0, 1], 3.0)]),
)
TRAINING = TrainingPipeline(PIPELINE, [[2.0] * 2] * 3, [[3.0] * 2] * 3, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], 7.0)
SCHEDULE = Schedule(
    [0, 1],
    order=[[0], [1]],
    start=[0.0, 1.0],
    finish=[1.0, 2.0],
    model="links",
    scheduler="mine",
    lower_bound=1.0,
    streams=2,
    speed=[1.0, 0.5],
)


def saved(problem: Problem) -> Problem:
    file = BytesIO()
    problem.save(file)
    file.seek(0)
    return Problem.load(file)


def again(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)


def values(of: Any) -> dict[str, Any]:
    """The arguments of an object's constructor, as its attributes hold them."""
    found: dict[str, Any] = {}
    for name in inspect.signature(type(of)).parameters:
        if name == "routes":
            found |= {part: getattr(of, part) for part in ("route_pointer", "route_link", "link_bandwidth")}
        elif name == "edges" and hasattr(of, "edge_source"):
            found |= {part: getattr(of, part) for part in ("edge_source", "edge_target")}
        elif not name.startswith("_"):
            found[name] = getattr(of, name)
    return found


COPIES: list[tuple[Any, Callable[[Any], Any], set[str]]] = [
    *(
        (PROBLEM, how, set())
        for how in (again, copy.deepcopy, saved, lambda p: p.replace(), lambda p: side_by_side([p]))
    ),
    (PROBLEM, lambda p: Neighbourhood(p).problem(Neighbourhood(p).start()), set()),
    (PROBLEM, lambda p: side_by_side([p, p]), NUMBERS | {"name", "shared_weights"}),
    (PROBLEM, by_layers, NUMBERS | {"shared_weights"}),
    *((DEVICE, how, set()) for how in (again, copy.deepcopy, lambda d: Device(**d.to_dict()))),
    *((PLATFORM, how, set()) for how in (again, copy.deepcopy, lambda p: Platform.from_dict(p.to_dict()))),
    (PLATFORM, lambda p: p.scaled({"a.peak_flops": 1.0}, "full"), set()),
    *((GRAPH, how, set()) for how in (again, copy.deepcopy, lambda g: from_json(to_json(g)))),
    (GRAPH, lambda g: cast(g, "float16"), {"operators"}),
    (GRAPH, lambda g: fuse(g).graph, {"operators", "edge_source", "edge_target"}),
    (GRAPH, lambda g: split(g, "gemm", "batch", 2), {"operators", "edge_source", "edge_target"}),
    (GRAPH, training, {"operators", "edge_source", "edge_target", "name"}),
    (GRAPH.operators[0], again, set()),
    (cast(GRAPH, "float16").operators[0], lambda _: GRAPH.operators[0], {"inputs", "outputs"}),
    *((PIPELINE, how, set()) for how in (again, copy.deepcopy)),
    (PIPELINE, by_memory, {"cost", "transfer"}),
    *((TRAINING, how, {"problem"}) for how in (again, copy.deepcopy)),
    *((SCHEDULE, how, set()) for how in (again, copy.deepcopy, lambda s: Schedule.from_dict(s.to_dict()))),
]


@pytest.mark.parametrize(("whole", "how", "changed"), COPIES)
def test_copies_keep_all_fields(whole: Any, how: Callable[[Any], Any], changed: set[str]) -> None:
    before, after = values(whole), values(how(whole))
    different = {name for name in before if not equal(before[name], after[name])}
    assert different <= changed


@pytest.mark.parametrize("whole", [PROBLEM, DEVICE, LINK, PLATFORM, PIPELINE, SCHEDULE])
def test_no_field_of_the_originals_is_the_default(whole: Any) -> None:
    """So that a copy that drops a field is noticed; a new field needs a value here."""
    sign = inspect.signature(type(whole)).parameters
    usual = {
        name: p.default for name, p in sign.items() if p.default is not p.empty and name not in ("edges", "routes")
    }
    for field in fields(whole) if hasattr(whole, "__dataclass_fields__") else ():
        if field.default_factory is not MISSING:
            usual[field.name] = field.default_factory()
    held = values(whole)
    assert not [name for name, value in usual.items() if name != "priority" and equal(held[name], value)]
