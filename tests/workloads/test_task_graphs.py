"""Task graphs in STG, DOT and networkx: hand-checked times, and damage in one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetgym
from hetgym import HetgymError, Problem, ProblemError, load_problem
from hetgym.errors import HetgymWarning
from hetgym.workloads import from_networkx, load_suite
from tests.effort import examples

HERE = Path(__file__).parent

PLAIN = """          4
          0          0          0
          1          3          1          0
          2          4          1          0
          3          2          2          1          2
          4          5          1          1
          5          0          2          3          4
# Standard Task Graph Set Project
#   Tasks             : 4 (+dummy tasks : 2)
"""
"""On two processors 1 and then 4 on one, 2 and then 3 on the other: the critical path 3 + 5 is the makespan."""

COMMUNICATION = """# five tasks on two processors
  5  2
  0  3  0
  1  5  1
        0  2
  2  2  1
        0  10
  3  4  2
        1  1
        2  0
  4  1  2
        2  4
        3  7
"""

DOT = """# costs of Graphviz's own language
strict digraph "a task graph" {
    rankdir = LR; node [shape=box, cost="4, inf"]  // the default
    graph [label="x"]
    load [Weight=2] /* 2 s
        anywhere */
    "solve it" [kind=MatMul, cost="6 3"]
    load -> "solve it" -> store [weight=1.5, color=red];
    store; 7 -> store
}
"""


def loaded(tmp_path: Path, text: str, name: str = "tiny.stg", devices: int | None = None) -> Problem:
    (tmp_path / name).write_text(text)
    return load_problem(tmp_path / name, devices)


def edges(problem: Problem) -> list[tuple[int, int, float]]:
    return [
        (int(u), int(v), float(size))
        for u, v, size in zip(problem.edge_source, problem.edge_target, problem.edge_bytes, strict=True)
    ]


# The Standard Task Graph Set


def test_a_task_graph_without_communication(tmp_path: Path) -> None:
    problem = loaded(tmp_path, PLAIN, devices=2)
    assert problem.cost.tolist() == [[0, 0], [3, 3], [4, 4], [2, 2], [5, 5], [0, 0]]
    assert edges(problem) == [(0, 1, 0), (0, 2, 0), (1, 3, 0), (1, 4, 0), (2, 3, 0), (3, 5, 0), (4, 5, 0)]
    assert problem.operator_names[4] == "T4" and problem.device_names == ("P0", "P1")
    for devices, optimum in ((1, 14.0), (2, 8.0), (3, 8.0)):
        assert hetgym.baselines.get("heft")(loaded(tmp_path, PLAIN, devices=devices)).makespan == optimum


def test_tasks_may_be_counted_from_1_and_processors_given(tmp_path: Path) -> None:
    problem = loaded(tmp_path, "3 2\n1 14 0\n2 20 1 1\n3 7 0\n4 0 2 2 3\n")
    assert problem.cost.tolist() == [[14, 14], [20, 20], [7, 7], [0, 0]]
    assert problem.operator_names[0] == "T1" and edges(problem)[0] == (0, 1, 0.0)
    assert loaded(tmp_path, "3 2\n1 14 0\n2 20 1 1\n3 7 0\n4 0 2 2 3\n", devices=5).num_devices == 5


def test_transfers_take_the_time_that_the_file_gives(tmp_path: Path) -> None:
    problem = loaded(tmp_path, COMMUNICATION)
    assert edges(problem) == [(0, 1, 2), (0, 2, 10), (1, 3, 1), (2, 3, 0), (2, 4, 4), (3, 4, 7)]
    # All on one processor takes 15. Task 2 on the other starts after 3 + 10; its results come back at 15 and 19.
    together = hetgym.Schedule([0] * 5, [[0, 1, 2, 3, 4], []])
    apart = hetgym.Schedule([0, 0, 1, 0, 0], [[0, 1, 3, 4], [2]])
    assert hetgym.simulate(problem, together).makespan == 15.0
    assert hetgym.simulate(problem, apart).makespan == 20.0
    pytest.importorskip("ortools")
    assert hetgym.baselines.get("cp-sat")(problem).makespan == 15.0


def test_a_copy_whose_first_line_counts_the_dummies(tmp_path: Path) -> None:
    texts = {"a.stg": PLAIN, "b.stg": PLAIN.replace("4", "6", 1)}
    usual, copy = (loaded(tmp_path, text, name, devices=2) for name, text in texts.items())
    assert copy.cost.tolist() == usual.cost.tolist() and edges(copy) == edges(usual)


def test_a_graph_as_graphviz_writes_it_after_its_layout() -> None:
    """graphviz.dot is what ``dot -Tdot`` of Graphviz 2.43 printed, with attributes of its own over several lines."""
    problem = load_problem(HERE / "graphviz.dot")
    assert problem.operator_names == ("load", "solve it", "7") and problem.operator_kinds[0] == "Load"
    assert problem.cost.tolist() == [[2, 3], [6, np.inf], [4.5, 1e-5]]
    assert edges(problem) == [(0, 1, 8.0), (1, 2, 1.5)]


PYDOT = """strict digraph "net" {
load [cost="2 3", kind=Load];
"solve it" [cost="6 inf"];
7 [weight=4.5, cost="4.5 1e-5"];
load -> "solve it" [bytes=8.0];
"solve it" -> 7 [weight=1.5, label="a\\"b"];
}
"""
"""What ``networkx.nx_pydot.write_dot`` wrote for the same graph, with pydot 4."""


def test_a_graph_as_networkx_writes_it(tmp_path: Path) -> None:
    ours, theirs = loaded(tmp_path, PYDOT, "net.dot"), load_problem(HERE / "graphviz.dot")
    assert ours.cost.tolist() == theirs.cost.tolist() and edges(ours) == edges(theirs)
    assert ours.operator_names == theirs.operator_names


def test_a_graph_in_dot(tmp_path: Path) -> None:
    problem = loaded(tmp_path, DOT, "tiny.dot")
    assert problem.operator_names == ("load", "solve it", "store", "7")
    assert problem.operator_kinds == ("Task", "MatMul", "Task", "Task")
    inf = np.inf
    assert problem.cost.tolist() == [[2, 2], [6, 3], [4, inf], [4, inf]]
    assert edges(problem) == [(0, 1, 1.5), (1, 2, 1.5), (3, 2, 0)]
    assert loaded(tmp_path, DOT, "tiny.gv").digest == problem.digest


def test_numbers_with_an_exponent_need_no_quotes_in_dot(tmp_path: Path) -> None:
    text = "digraph { a [cost=1e-5]; b [cost=2.5E+1]; e [cost=.5e1]; a -> b [bytes=1e9]; a->e }"
    problem = loaded(tmp_path, text, "c.dot", devices=1)
    assert problem.cost.tolist() == [[1e-5], [25.0], [5.0]] and edges(problem) == [(0, 1, 1e9), (0, 2, 0)]


def test_devices_of_a_graph_in_dot(tmp_path: Path) -> None:
    chain = "digraph { a [weight=3]; b [weight=.5]; a -> b [weight=2] }"
    assert loaded(tmp_path, chain, "c.dot", devices=3).cost.tolist() == [[3.0] * 3, [0.5] * 3]
    with pytest.raises(ProblemError, match=r"c\.dot: every cost is one number for all devices: give devices"):
        loaded(tmp_path, chain, "c.dot")
    with pytest.raises(ProblemError, match=r"tiny\.dot: node 'solve it': 2 costs for 3 devices"):
        loaded(tmp_path, DOT, "tiny.dot", devices=3)


# networkx


def test_a_networkx_graph_with_costs() -> None:
    graph = nx.DiGraph(name="net")
    graph.add_node(5, cost=2, kind="Load")
    graph.add_node(("b", 1), cost=np.array([6.0, np.inf, 3.0]))
    graph.add_edge(5, ("b", 1), bytes=8)
    problem = from_networkx(graph, latency=1.0, bandwidth=4.0)
    assert problem.name == "net" and problem.operator_names == ("5", "('b', 1)")
    assert problem.operator_kinds == ("Load", "Task")
    assert problem.cost.tolist() == [[2, 2, 2], [6, np.inf, 3]] and edges(problem) == [(0, 1, 8.0)]
    assert problem.latency[0, 1] == 1.0 and problem.bandwidth[0, 1] == 4.0
    assert hetgym.simulate(problem, hetgym.Schedule([0, 2], [[0], [], [1]])).makespan == 2 + 1 + 2 + 3


def test_parallel_edges_carry_a_tensor_each() -> None:
    graph = nx.MultiDiGraph()
    graph.add_node("a", weight=1)
    graph.add_node("b", weight=1)
    graph.add_edges_from([("a", "b", {"weight": 2.0}), ("a", "b", {"weight": 3.0})])
    problem = from_networkx(graph, 2)
    assert edges(problem) == [(0, 1, 2.0), (0, 1, 3.0)] and problem.output_bytes.tolist() == [5.0, 0.0]


def nodes(*costs: object) -> nx.DiGraph:
    graph = nx.DiGraph()
    for label, cost in enumerate(costs):
        graph.add_node(label, cost=cost)
    return graph


@pytest.mark.parametrize(
    ("graph", "devices", "message"),
    [
        (nx.Graph(), 1, "expected a networkx.DiGraph or MultiDiGraph, got Graph"),
        (3, 1, "got int"),
        (nx.DiGraph(), 1, "has 0 operators"),
        (nodes(1), None, "give devices, their number"),
        (nodes(1), 0, "devices is 0, not a whole number from 1"),
        (nodes(1), 10**9, "devices is 1000000000, not"),
        (nodes([1, 2], [1, 2, 3]), None, "one node has costs of 2 devices, another of 3"),
        (nodes([]), None, "devices is 0, not"),
        (nodes("x"), 1, "node 0: cost is 'x', not a non-negative number, or one for each device"),
        (nodes(1, -1.0), 1, "node 1: cost is -1.0, not"),
        (nodes([1, np.nan]), None, "cost is .*nan.*, not"),
        (nodes([[1]]), None, r"cost is \[\[1\]\], not"),
        (nodes(10**400), 1, "cost is a huge number, not"),
        (nodes(None), 1, "cost is None, not"),
        (nodes(np.inf), 2, "cannot be placed on any device"),
        (nx.path_graph(2, nx.DiGraph), 1, "node 0 has no cost"),
        (nx.DiGraph(nodes(1, 1), name=7), 2, "^$"),
    ],
)
def test_bad_graphs(graph: object, devices: int | None, message: str) -> None:
    if message == "^$":
        assert from_networkx(graph, devices).name == "7"
        return
    with pytest.raises(ProblemError, match=message):
        from_networkx(graph, devices)


def test_bad_edges() -> None:
    for weight in (-1, np.nan, np.inf, "2", [1.0]):
        graph = nodes(1, 1)
        graph.add_edge(0, 1, weight=weight)
        with pytest.raises(ProblemError, match="weight is|edge_bytes"):
            from_networkx(graph, 2)
    graph = nodes(1, 1)
    graph.add_edges_from([(0, 1), (1, 0)])
    with pytest.raises(ProblemError, match="has a cycle: 0 -> 1 -> 0|has a cycle: 1 -> 0 -> 1"):
        from_networkx(graph, 2)


# Damage

SHORT = PLAIN.partition("          4          5          1          1\n")[0]
"""Without the last task and the dummy at the exit."""

BAD = [
    ("a.stg", "", "a.stg: ends before the number of tasks"),
    ("a.stg", "2 1\n0 1 0\n", "a.stg: 2 tasks are announced, but 1 follow, dummies included"),
    ("a.stg", PLAIN.partition("5          0")[0], "line 7: ends before a time|5 follow"),
    ("a.stg", PLAIN.replace("4", "6", 1).partition("5          0")[0], "6 tasks are announced, but 5 follow"),
    ("a.stg", SHORT, "4 tasks are announced, and as many follow with the dummy at the entry.* lines are missing"),
    ("a.stg", "999999999 1\n0 1 0\n", "line 1: the number of tasks is '999999999', not a whole number from 1 to 1"),
    ("a.stg", "1 999999\n0 1 0\n", "the number of processors is '999999'"),
    ("a.stg", "1 1\n0 -1 0\n", "line 2: a time is '-1', not a number from 0"),
    ("a.stg", "1 1\n0 nan 0\n", "a time is 'nan'"),
    ("a.stg", "1 1\n0 one 0\n", "a time is 'one'"),
    ("a.stg", "1 1\n0 1\n", "line 2: ends before the number of predecessors"),
    ("a.stg", "1 1\n0 1 99999999\n", "the number of predecessors is '99999999'"),
    ("a.stg", "2 1\n0 1 0\n1 1 3 0 0\n", "line 3: 5 numbers, not 6"),
    ("a.stg", "2 1\n0 1 0 0\n", "line 2: 4 numbers, not 3"),
    ("a.stg", "2 1\n0 1 0\n1 1 1 7\n", "a predecessor is '7', not a whole number from 0 to 2"),
    ("a.stg", "2 1\n0 1 0\n1 1 1\n", "a.stg: ends before predecessor 1 of task 1"),
    ("a.stg", "2 1\n0 1 0\n1 1 1\n0 1 1\n", "line 4: 3 numbers, not 2"),
    ("a.stg", "2 1\n0 1 0\n1 1 1\n0 -3\n", "line 4: the time of a transfer is '-3'"),
    ("a.stg", "2 1\n0 1 0\n2 1 0\n", "line 3: task 2 stands where task 1 is expected"),
    ("a.stg", "1 1\n0 1 0\n1 0 0\n2 0 0\n", "line 4: the file continues after 2 tasks"),
    ("a.stg", "2 1\n0 1 1 1\n1 1 1 0\n", "problem 'a' has a cycle"),
    ("a.stg", "2 1\n0 1 0\n1 1 2 0 0\n", "edge 0 -> 1 is given twice"),
    ("a.dot", "", "a.dot, line 1: 'the end of the file' stands where 'digraph' is expected"),
    ("a.dot", "graph { a -- b }", "'graph' stands where 'digraph' is expected"),
    ("a.dot", "digraph { a -- b }", "'--' stands where a name is expected"),
    ("a.dot", "digraph {\n a -> b", "line 2: 'the end of the file' stands where a name is expected"),
    ("a.dot", "digraph {\n subgraph c { a } }", "line 2: 'subgraph' stands where a name is expected"),
    ("a.dot", "digraph {\n\n { a } }", "line 3: '{' stands where a name"),
    ("a.dot", "digraph { a [label=<b>] }", "line 1: '<b>] }' cannot be read"),
    ("a.dot", 'digraph { a [label="b] }', "cannot be read"),
    ("a.dot", "digraph { /* }", "cannot be read"),
    ("a.dot", "digraph { a [cost] }", "']' stands where '=' is expected"),
    ("a.dot", "digraph { a\n [cost=-1] }", "line 2: cost is '-1', not a number from 0"),
    ("a.dot", "digraph { a [cost=nan] }", "cost is 'nan'"),
    ("a.dot", "digraph { a [cost=1e] }", "'e' stands where '=' is expected|']' stands where '=' is expected"),
    ("a.dot", "digraph { a [cost=1e999] }", "cost is '1e999', not a number from 0"),
    ("a.dot", 'digraph { a [cost=""] }', "cost is '', not"),
    ("a.dot", 'digraph { a [cost="1 x"] }', "cost is '1 x', not"),
    ("a.dot", 'digraph { a [cost="1 1"]; a -> b }', "a.dot: node 'b' has no cost"),
    ("a.dot", 'digraph { a [cost="1 1"]; b [cost="1 1"]; a -> b\n a -> b }', "line 2: the edge .* appears twice"),
    ("a.dot", 'digraph { node [cost="1 1"]; a -> b -> a }', "has a cycle"),
    ("a.dot", 'digraph { node [cost="1 1"]; a -> a }', "is a loop"),
    ("a.dot", 'digraph { node [cost="1 1"]; a -> b [weight="1 2"] }', "edge 'a' -> 'b': bytes is"),
    ("a.dot", 'digraph { a [cost="1 1"] } b', "'b' stands where the end of the file is expected"),
    ("a.dot", "digraph { node [cost=\"" + "1 " * 2000 + '"]; a }', "devices is 2000, not a whole number from 1 to"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "message"), BAD)
def test_bad_files_are_refused_with_file_and_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    devices = 2 if name == "a.stg" and not text.partition("\n")[0].strip().count(" ") else None
    with pytest.raises(ProblemError, match=message) as caught:
        loaded(tmp_path, text, name, devices)
    assert str(caught.value).isprintable()


def test_a_task_graph_needs_devices(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=r"tiny\.stg: the file does not say how many processors"):
        loaded(tmp_path, PLAIN)


JUNK = st.sampled_from(["", "-1", "9" * 30, "nan", "1e999", '"', "{", "[", "->", "\n", "\\", "é", "# "])


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("digraph { a [cost=1, shape=box, label=x]; graph [size=3]; a -> b [bytes=2, color=red]; b [cost=2] }", None),
        ("digraph { a [cost=1, memory=7]; node [Rank=2] }", "attributes that are not read: 'memory', 'rank'"),
    ],
)
def test_attributes_that_nobody_draws_are_noted(tmp_path: Path, text: str, note: str | None) -> None:
    (tmp_path / "g.dot").write_text(text)
    if note is None:
        assert load_problem(tmp_path / "g.dot", 2, strict=True).notes == ()
        return
    with pytest.warns(HetgymWarning, match=note):
        assert load_problem(tmp_path / "g.dot", 2).notes == (note,)
    with pytest.raises(ProblemError, match=note):
        load_problem(tmp_path / "g.dot", 2, strict=True)


@pytest.mark.filterwarnings("ignore::hetgym.errors.HetgymWarning")
@examples(200)
@given(data=st.data())
def test_any_damage_is_a_problem_or_one_sentence(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    name, text = data.draw(st.sampled_from([("p.stg", PLAIN), ("c.stg", COMMUNICATION), ("d.dot", DOT)]))
    for _ in range(data.draw(st.integers(1, 4))):
        at, length = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 6))
        junk = data.draw(JUNK)
        text = text[:at] + junk + text[at + length :]
    try:
        loaded(tmp_path_factory.mktemp("damage"), text, name, 2 if name == "p.stg" else None)
    except HetgymError as error:
        assert str(error).isprintable()


# The door


def test_suites_and_environments_take_task_graphs(tmp_path: Path) -> None:
    (tmp_path / "g.stg").write_text(PLAIN)
    (tmp_path / "c.stg").write_text(COMMUNICATION)
    (tmp_path / "s.yaml").write_text("problems:\n  - {files: ['*.stg'], devices: 3}\n  - files: [c.stg]\n")
    specs = load_suite(tmp_path / "s.yaml").specs
    assert [spec.name for spec in specs] == ["c@3-devices", "g@3-devices", "c"]
    assert [spec.platform for spec in specs] == ["3-devices", "3-devices", "-"]
    assert [spec.build().num_devices for spec in specs] == [3, 3, 2]


def test_edges_are_limited_over_all_tasks_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PLAIN has seven edges, of which no task has more than two."""
    module = sys.modules["hetgym.workloads.stg"]
    monkeypatch.setattr(module, "MOST_EDGES", 7)
    assert loaded(tmp_path, PLAIN, devices=2).num_edges == 7
    monkeypatch.setattr(module, "MOST_EDGES", 6)
    with pytest.raises(ProblemError, match="the number of predecessors is '2', not a whole number from 0 to 1"):
        loaded(tmp_path, PLAIN, devices=2)


def test_what_an_edge_or_node_of_dot_says_counts_before_the_defaults(tmp_path: Path) -> None:
    defaults = "node [cost=3, kind=A]; edge [bytes=5]"
    text = f"digraph {{ {defaults}; a; b [cost=4]; a -> b; b -> c [bytes=6]; edge [bytes=7]; a -> c }}"
    problem = loaded(tmp_path, text, "g.dot", 1)
    assert problem.cost.tolist() == [[3.0], [4.0], [3.0]] and set(problem.operator_kinds) == {"A"}
    ends = zip(problem.edge_source.tolist(), problem.edge_target.tolist(), problem.edge_bytes.tolist(), strict=True)
    assert sorted(ends) == [(0, 1, 5.0), (0, 2, 7.0), (1, 2, 6.0)]


def test_nodes_of_dot_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["hetgym.workloads.dot"], "MOST_OPERATORS", 2)
    assert loaded(tmp_path, "digraph { a [cost=1]; b [cost=1] }", "g.dot", 1).num_operators == 2
    with pytest.raises(ProblemError, match="more than 2 nodes"):
        loaded(tmp_path, "digraph { a [cost=1]; b [cost=1]; c [cost=1] }", "g.dot", 1)
