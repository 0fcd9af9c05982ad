"""Problem: its arrays, derived values, and invalid input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import strategies
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym import Problem, ProblemError, UnknownName
from hetgym.problem import Routes
from hetgym.workloads import textbook

INF, NAN = float("inf"), float("nan")
COST = [[1.0, 2.0], [3.0, 4.0], [5.0, INF]]
EDGES = [(0, 1, 8.0), (0, 2, 4.0), (1, 2, 0.0)]


def test_arrays() -> None:
    problem = Problem.from_arrays(COST, [EDGES[2], EDGES[0], EDGES[1]], latency=0.5, bandwidth=[[1.0, 2.0], [4.0, 1.0]])
    assert (problem.num_operators, problem.num_edges, problem.num_devices) == (3, 3, 2)
    assert problem.edge_source.tolist() == [0, 0, 1]
    assert problem.edge_target.tolist() == [1, 2, 2]
    assert problem.edge_bytes.tolist() == [8.0, 4.0, 0.0]
    assert problem.latency.tolist() == [[0.0, 0.5], [0.5, 0.0]]
    assert problem.bandwidth.tolist() == [[INF, 2.0], [4.0, INF]]
    assert problem.memory_capacity.tolist() == [INF, INF]
    assert problem.output_bytes.tolist() == [12.0, 0.0, 0.0]
    assert problem.weight_bytes.tolist() == [0.0, 0.0, 0.0]
    assert problem.operator_names == ("op0", "op1", "op2")
    assert problem.operator_kinds == ("Task",) * 3
    assert problem.device_names == ("dev0", "dev1")
    assert problem.mean_cost.tolist() == [1.5, 3.5, 5.0]
    assert problem.mean_communication.tolist() == [0.5 + 8 * 0.375, 0.5 + 4 * 0.375, 0.5]


def test_mean_communication_on_one_device_is_zero() -> None:
    assert Problem.from_arrays([[1.0], [1.0]], [(0, 1, 9.0)], latency=3.0).mean_communication.tolist() == [0.0]


def test_an_infinite_bandwidth_leaves_the_latency() -> None:
    problem = Problem.from_arrays([[1.0, 1.0]] * 2, [(0, 1, 9.0)], latency=3.0, bandwidth=INF)
    assert problem.mean_communication.tolist() == [3.0]


def test_output_bytes_count_a_shared_tensor_once_at_its_largest() -> None:
    edges = [(0, 1, 8.0), (0, 2, 4.0), (0, 2, 3.0)]
    assert Problem.from_arrays(COST, edges, tensors=[5, 5, 6]).output_bytes.tolist() == [11.0, 0.0, 0.0]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no operators": ({"cost": []}, r"cost has shape \(0,\), expected \[operators, devices\]"),
    "no devices": ({"cost": [[], [], []]}, "it needs at least one of each"),
    "ragged cost": ({"cost": [[1.0, 2.0], [3.0], [1.0, 1.0]]}, "cost is not a table of numbers"),
    "ragged tuples": ({"cost": ((1.0, 2.0), (3.0,), (1.0, 1.0))}, "cost is not a table of numbers"),
    "cost of words": ({"cost": np.array([["a", "b"]])}, "cost is not a table of numbers"),
    "negative cost": ({"cost": [[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]]}, r"cost\[1, 1\] is -4.0"),
    "cost not a number": ({"cost": [[1.0, 2.0], [NAN, 4.0], [5.0, 6.0]]}, r"cost\[1, 0\] is nan"),
    "runs nowhere": ({"cost": [[1.0, 2.0], [INF, INF], [5.0, 6.0]]}, r"operator 1 \('op1'\) cannot be placed on any"),
    "negative bytes": ({"edges": [(0, 1, -1.0)]}, r"edge_bytes\[0\] is -1.0"),
    "infinite bytes": ({"edges": [(0, 1, INF)]}, r"edge_bytes\[0\] is inf"),
    "edge to nowhere": ({"edges": [(0, 3, 1.0)]}, r"edge 0 -> 3 leaves the operators 0..2"),
    "edge from nowhere": ({"edges": [(-1, 2, 1.0)]}, r"edge -1 -> 2 leaves"),
    "half an edge end": ({"edges": [(0.5, 2, 1.0)]}, "edge ends must be operator numbers"),
    "huge edge end": ({"edges": [(0, 2**32 + 1, 1.0)]}, "edge ends must be operator numbers"),
    "pairs for edges": ({"edges": [(0, 1)]}, "not .source, target, bytes. triples"),
    "ragged edges": ({"edges": [(0, 1, 1.0), (0, 2)]}, "not .source, target, bytes. triples"),
    "words for edges": ({"edges": [("a", "b", 1.0)]}, "not .source, target, bytes. triples"),
    "a loop": ({"edges": [(1, 1, 1.0)]}, "edge 1 -> 1 is a loop"),
    "a cycle": ({"edges": [(0, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0)]}, "has a cycle: op(1 -> op2 -> op1|2 -> op1 -> op2)"),
    "edge twice": ({"edges": [(0, 1, 1.0), (0, 1, 2.0)]}, "edge 0 -> 1 is given twice; pass tensors"),
    "tensor twice": ({"edges": [(0, 1, 1.0), (0, 1, 2.0)], "tensors": [3, 3]}, "edge 0 -> 1 .* twice for one tensor"),
    "too few tensors": ({"tensors": [1]}, "1 tensor ids for 3 edges"),
    "huge tensor ids": ({"tensors": [1, 2, 2**40]}, "tensor ids must be whole numbers"),
    "half a tensor id": ({"tensors": [1, 2, 2.5]}, "tensor ids must be whole numbers"),
    "tensor ids of words": ({"tensors": ["a", "b", "c"]}, "tensor ids must be whole numbers"),
    "negative latency": ({"latency": -1.0}, r"latency\[0, 0\] is -1.0|latency\[0, 1\] is -1.0"),
    "infinite latency": ({"latency": [[0.0, INF], [0.0, 0.0]]}, r"latency\[0, 1\] is inf"),
    "latency of another size": ({"latency": np.zeros((3, 3))}, r"latency does not fit shape \(2, 2\)"),
    "no bandwidth": ({"bandwidth": [[1.0, 0.0], [1.0, 1.0]]}, r"bandwidth\[0, 1\] is 0; it must be 1e-100 or more"),
    "bandwidth of next to nothing": ({"bandwidth": 1e-300}, r"bandwidth\[0, 1\] is 1e-300; it must be 1e-100 or more"),
    "cost beyond all sums": ({"cost": [[1.0, 2.0], [3.0, 1e307], [5.0, 6.0]]}, r"cost\[1, 1\] is 1e\+307; it must be"),
    "bytes beyond all sums": ({"edges": [(0, 1, 1e301)]}, r"edge_bytes\[0\] is 1e\+301; .* 0 and 1e\+100"),
    "bandwidth not a number": ({"bandwidth": NAN}, r"bandwidth\[0, \d\] is nan"),
    "negative weights": ({"weight_bytes": [0.0, -1.0, 0.0]}, r"weight_bytes\[1\] is -1.0"),
    "infinite outputs": ({"output_bytes": INF}, r"output_bytes\[0\] is inf"),
    "negative capacity": ({"memory_capacity": -1.0}, r"memory_capacity\[0\] is -1.0"),
    "too few operator names": ({"operator_names": ["a"]}, "1 operator names for 3 operators"),
    "too few kinds": ({"operator_kinds": ["Add"]}, "1 operator kinds for 3 operators"),
    "too many device names": ({"device_names": ["a", "b", "c"]}, "3 device names for 2 devices"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_sentence(what: str) -> None:
    change, message = BAD[what]
    with pytest.raises(ProblemError, match=message) as caught:
        Problem.from_arrays(**({"cost": COST, "edges": EDGES, "name": "mine"} | change))
    assert str(caught.value).startswith("problem 'mine'")
    assert "\n" not in str(caught.value)


def test_a_capacity_of_zero_and_an_unlimited_one_are_allowed() -> None:
    assert Problem.from_arrays(COST, EDGES, memory_capacity=[0.0, INF]).memory_capacity.tolist() == [0.0, INF]


@examples(60)
@given(problem=strategies.problems())
def test_everything_is_read_only_and_contiguous(problem: Problem) -> None:
    for array in [*problem.arrays, problem.edge_source, problem.mean_cost, problem.mean_communication]:
        assert not array.flags.writeable
        assert array.flags.c_contiguous


def test_the_callers_arrays_stay_its_own() -> None:
    cost = np.array(COST)
    problem = Problem.from_arrays(cost, EDGES)
    cost[0, 0] = 99.0
    assert problem.cost[0, 0] == 1.0
    assert cost.flags.writeable


@examples(60)
@given(problem=strategies.problems())
def test_neighbour_lists_agree_with_the_edges(problem: Problem) -> None:
    p = problem.arrays
    edges = list(zip(problem.edge_source.tolist(), problem.edge_target.tolist(), strict=True))
    assert edges == sorted(edges)
    for i in range(problem.num_operators):
        out = range(p.successor_pointer[i], p.successor_pointer[i + 1])
        assert [(i, int(p.successor[k])) for k in out] == [edge for edge in edges if edge[0] == i]
        assert [edges[k] for k in out] == [edge for edge in edges if edge[0] == i]
        into = range(p.predecessor_pointer[i], p.predecessor_pointer[i + 1])
        assert sorted((int(p.predecessor[k]), i) for k in into) == sorted(edge for edge in edges if edge[1] == i)
        assert all(edges[p.predecessor_edge[k]] == (p.predecessor[k], i) for k in into)


@given(problem=strategies.problems(max_operators=12), data=st.data())
def test_the_digest_is_of_content_alone(problem: Problem, data: st.DataObject) -> None:
    edges = list(zip(problem.edge_source, problem.edge_target, problem.edge_bytes, strict=True))
    turn = data.draw(st.permutations(range(len(edges))))

    def again(cost: np.ndarray, name: str) -> Problem:
        return Problem.from_arrays(
            cost,
            [edges[k] for k in turn],
            problem.latency,
            problem.bandwidth,
            tensors=[int(problem.edge_tensor[k]) for k in turn],
            output_bytes=problem.output_bytes,
            name=name,
        )

    same = again(problem.cost, "another")
    assert same.digest == problem.digest
    assert same.id == f"another#{problem.digest[:8]}"
    dearer = np.where(np.isfinite(problem.cost), np.nextafter(problem.cost, INF), INF)
    assert again(dearer, problem.name).digest != problem.digest


def test_the_digest_is_pinned() -> None:
    """It names instances in files and reports: a change makes all of them strangers."""
    assert textbook("topcuoglu").digest[:16] == "2a0177c8f3b81161"


def test_whole_occupancy_is_not_part_of_the_digest() -> None:
    plain = Problem.from_arrays([[1.0, 2.0]], [])
    assert Problem.from_arrays([[1.0, 2.0]], [], occupancy=1.0).digest == plain.digest
    assert Problem.from_arrays([[1.0, 2.0]], [], occupancy=[[1.0, 0.5]]).digest != plain.digest


@pytest.mark.parametrize("value", [0.0, 1.5, float("nan"), float("inf")])
def test_occupancy_is_a_share(value: float) -> None:
    with pytest.raises(ProblemError, match=r"occupancy\[0, 1\] is .*; it must be"):
        Problem.from_arrays([[1.0, 2.0]], [], occupancy=[[1.0, value]])


@pytest.mark.parametrize(
    "name", ["price", "power_busy", "occupancy", "memory_capacity", "asynchronous", "weight_bytes"]
)
def test_a_list_of_one_is_no_value_for_all(name: str) -> None:
    problem = Problem.from_arrays(COST, EDGES)
    with pytest.raises(ProblemError, match=rf"{name} .*shape"):
        problem.replace(**{name: [1.0]})
    if name != "asynchronous":
        with pytest.raises(ProblemError, match=rf"{name} does not fit shape .*; it has shape \(1,\)"):
            Problem.from_arrays(COST, EDGES, **{name: [1.0]})


def test_unknown_textbook_problem() -> None:
    with pytest.raises(UnknownName, match="unknown textbook problem 'topcuoglou'; did you mean 'topcuoglu'"):
        textbook("topcuoglou")


def over(link: list[int], hops: list[int], rates: list[float], bandwidth: float, first: int = 0) -> Problem:
    """Two devices whose transfers cross the given links."""
    base = Problem.from_arrays([[1.0, 2.0]], [], bandwidth=bandwidth)
    routes = Routes(np.array([0, first, *np.cumsum(hops), sum(hops)]), np.array(link), np.array(rates))
    return Problem(
        base.cost,
        base.edge_source,
        base.edge_target,
        base.edge_bytes,
        base.edge_tensor,
        base.latency,
        base.bandwidth,
        base.weight_bytes,
        base.output_bytes,
        base.memory_capacity,
        base.operator_names,
        base.operator_kinds,
        base.device_names,
        "routed",
        routes,
    )


def test_routes_agree_with_the_bandwidths() -> None:
    assert over([0, 1, 1], [2, 1], [5.0, 3.0], 3.0).num_devices == 2
    with pytest.raises(
        ProblemError, match=r"bandwidth\[1, 0\] is 3, but the narrowest link of the route carries 5 byte"
    ):
        over([0, 1, 0], [2, 1], [5.0, 3.0], 3.0)


def test_a_route_crosses_a_link_once() -> None:
    with pytest.raises(ProblemError, match="the route from device 1 to 0 crosses link 1 twice"):
        over([0, 1, 1, 0, 1], [2, 3], [5.0, 3.0], 3.0)


def test_the_pointers_of_routes_do_not_fall() -> None:
    with pytest.raises(ProblemError, match="routes must have links"):
        over([0, 1, 1], [2, 1], [5.0, 3.0], 3.0, first=-1)


@pytest.mark.parametrize(
    "arguments",
    [
        {"cost": [[10**400]], "edges": []},
        {"cost": [[1.0], [1.0]], "edges": [(0, 10**400, 1)]},
        {"cost": [[1.0], [1.0]], "edges": [(0, 1, 10**400)]},
        {"cost": [[1.0], [1.0]], "edges": [(0, 1, 1.0)], "tensors": [10**400]},
        {"cost": [[1.0]], "edges": [], "latency": 10**400},
        {"cost": [[1.0]], "edges": [], "memory_capacity": [10**400]},
    ],
    ids=range(6),
)
def test_whole_numbers_beyond_floats_are_one_sentence(arguments):
    with pytest.raises(ProblemError):
        Problem.from_arrays(**arguments)


def test_devices_are_counted_before_tables_between_them_are_made() -> None:
    for make in (Problem.from_arrays, lambda cost, edges: Problem.from_arrays([[1.0]], []).replace(cost=cost)):
        with pytest.raises(ProblemError, match="has 100000 devices; a problem has at most 4096"):
            make(np.ones((1, 100_000)), [])


def test_names_are_not_a_graph_and_a_platform() -> None:
    with pytest.raises(ProblemError, match=r"takes what hetgym.load_graph returns, not the name 'resnet50'"):
        Problem.build("resnet50", "cpu-gpu")  # type: ignore[arg-type]
