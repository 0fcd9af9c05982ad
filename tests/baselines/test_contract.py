"""The contract of every registered scheduler."""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import strategies
from brief import brief
from effort import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hetgym import ConfigError, Problem, Schedule, UnknownName, simulate, validate
from hetgym.baselines import get, heft, lower_bound, names, single_device
from hetgym.planning import Baseline, aliases
from hetgym.workloads import textbook

VARIANTS = [alias for alias, meant in aliases().items() if ":" in meant]
NAMES = [name for name in (*names(), *VARIANTS) if get(name).kind != "exact"]  # those: test_exact.py, small problems
SLOW = [*VARIANTS, *(name for name in NAMES if "torch" in get(name).needs)]
FAST = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in NAMES]
"""Slow: published names of others with options, whose code is that of the others, and networks of PyTorch."""
ROUNDING = 1 + 1e-12  # bounds and makespans add the same numbers in other orders

ID_DEPENDENT = {
    "random": "devices are drawn operator by operator",
    "round-robin": "devices are dealt in Kahn's order, smallest ids first",
    "graham": "the list is Kahn's order, smallest ids first",
    "peft": "all exits have rank 0, and ties go to Kahn's order",
    "peft-again": "as peft",
    "donf": "priorities are sums of 1 / in-degree, equal in most graphs, and ties go to Kahn's order",
    "donf-w": "as donf",
    "donf-classic": "as donf",
    "m-topo": "devices are filled in Kahn's order, smallest ids first",
    "m-sct": "of several optimal solutions of the linear program the solver returns one",
    "donf-l": "as donf",
    "donf-m": "as donf",
    "donf2": "as donf",
    "gdl": "sums over edges are rounded in the order of ids, which decides near ties",
    "heft-donf": "as gdl",
    "planned-dispatch": "changes of its plan are drawn operator by operator",
    "adon": "as donf",
    "fifo-donf": "what becomes ready at one moment goes in Kahn's order, smallest ids first",
    "hcpt": "all operators without edges have the same latest start, and ties go to Kahn's order",
    "mct": "operators come in Kahn's order, smallest ids first",
    "met": "as mct",
    "olb": "as mct",
    "fcfs": "entries are ready at the same moment, and ties go to Kahn's order",
    "mor": "operators with as many behind them are equal, and ties go to Kahn's order",
    "annealing": "operators to move are drawn by number, or by their place in an order with ties in Kahn's",
    "pilot-annealing": "as annealing",
    "lns": "as annealing",
    "region-annealing": "as annealing",
    "portfolio": "as annealing",
    "tabu": "as annealing",
    "place-v1": "sums over the operators of a graph are rounded in their order",
    "place-v1-search": "as annealing",
    **{name: "as place-v1, in float32" for name in names("policy") if "torch" in get(name).needs},
    "place-v2": "as annealing",
    "place-v2-search": "as annealing",
    "rand-heft": "noise is drawn operator by operator in Kahn's order",
}
"""Schedulers whose result may change when operators are numbered anew, and why."""


def assert_keeps_the_contract(scheduler: Baseline, problem: Problem) -> None:
    schedule = scheduler(problem)
    report = validate(problem, schedule)
    assert report.makespan == schedule.makespan
    assert schedule.scheduler == scheduler.name
    assert schedule.order is not None, "schedulers give an order, so that any runtime can run them"
    assert schedule.makespan * ROUNDING >= lower_bound(problem)
    trace = simulate(problem, schedule, "classic")
    if schedule.model == "classic":
        assert trace.start.tolist() == schedule.start.tolist()
        assert trace.makespan == schedule.makespan
    else:  # planned with contention: without it nothing can be later
        assert (trace.finish <= schedule.finish).all()


@pytest.mark.parametrize("name", FAST)
@examples(40)
@given(problem=strategies.problems())
def test_any_problem(name: str, problem: Problem) -> None:
    assert_keeps_the_contract(brief(name), problem)


@functools.cache
def large(operators: int = 1000, devices: int = 8) -> Problem:
    """A layered graph with transfers about as long as operators, and some operators bound to some devices."""
    rng = np.random.default_rng(7)
    cost = rng.uniform(1.0, 9.0, (operators, devices))
    cost[rng.random(cost.shape) < 0.05] = np.inf
    cost[:, 0] = 10.0
    edges = {(int(rng.integers(max(0, j - 40), j)), j) for j in range(1, operators) for _ in range(3)}
    return Problem.from_arrays(cost, [(i, j, float(rng.uniform(0, 9))) for i, j in sorted(edges)], latency=0.1)


ONLY = {
    "one operator": Problem.from_arrays([[2.0, 1.0]], []),
    "no edges": Problem.from_arrays([[2.0, 1.0], [1.0, 2.0], [3.0, 3.0]], []),
    "one device": Problem.from_arrays([[2.0], [1.0], [3.0]], [(2, 0, 5.0), (0, 1, 5.0)], latency=9.0),
    "one place each": Problem.from_arrays(
        [[2.0, np.inf], [np.inf, 1.0], [3.0, np.inf]], [(0, 1, 5.0), (1, 2, 5.0)], latency=9.0
    ),
    "no costs": Problem.from_arrays(np.zeros((6, 3)), [(5, 4, 0.0), (4, 3, 0.0), (3, 0, 0.0), (5, 0, 0.0)]),
    "no costs but transfers": Problem.from_arrays(np.zeros((4, 2)), [(3, 2, 1.0), (2, 1, 1.0), (3, 0, 1.0)]),
    "1000 operators": large(),
}


FAR = ("dispatch", "planned-dispatch", "dispatch-v1", "dispatch-v2", "place-v1", "place-v1-search", "giph", "placeto")
"""Schedulers that price each decision to the end."""


@pytest.mark.parametrize("case", ONLY)
@pytest.mark.parametrize("name", FAST)
def test_edge_cases(name: str, case: str) -> None:
    problem = ONLY[case]
    if problem.num_operators == 1000 and name in FAR:
        problem = large(150)
    assert_keeps_the_contract(brief(name), problem)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name in FAR])
def test_large_problems_with_decisions_that_are_priced_to_the_end(name: str) -> None:
    assert_keeps_the_contract(get(name), large(500))


@pytest.mark.parametrize("name", FAST)
@settings(max_examples=10)
@given(problem=strategies.problems())
def test_the_same_twice(name: str, problem: Problem) -> None:
    assert brief(name)(problem).to_dict() == brief(name)(problem).to_dict()


@functools.cache
def fingerprint(every: bool = True) -> str:
    """Fingerprint of the schedules of all schedulers, or of those that are not slow, for two problems."""
    problems = (textbook("topcuoglu"), large(100, 5))
    taken = NAMES if every else [name for name in NAMES if name not in SLOW]
    schedules = [brief(name)(problem).to_dict() for name in taken for problem in problems]
    return hashlib.sha256(json.dumps(schedules).encode()).hexdigest()


@pytest.mark.parametrize("seed", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_the_same_in_any_process(seed: str) -> None:
    call, every = "print(test_contract.fingerprint({}))", seed == "2"
    script = f"import sys; sys.path[:0] = sys.argv[1:]; import test_contract; {call.format(every)}"
    here = os.path.dirname(__file__)
    run = subprocess.run(
        [sys.executable, "-c", script, here, os.path.dirname(here)],
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == fingerprint(every)


def renumbered(problem: Problem, new: np.ndarray) -> Problem:
    """The same problem, operator i being called new[i]."""
    cost = np.empty_like(problem.cost)
    cost[new] = problem.cost
    edges = zip(new[problem.edge_source], new[problem.edge_target], problem.edge_bytes, strict=True)
    tensors = problem.edge_tensor.tolist()
    return Problem.from_arrays(cost, list(edges), problem.latency, problem.bandwidth, tensors=tensors)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ID_DEPENDENT])
@examples(40)
@given(problem=strategies.problems(costs=("continuous",), allow_zero=False), seed=st.integers(0, 2**32 - 1))
def test_numbers_of_operators_do_not_matter(name: str, problem: Problem, seed: int) -> None:
    new = np.random.default_rng(seed).permutation(problem.num_operators)
    assert get(name)(renumbered(problem, new)).makespan == get(name)(problem).makespan


@examples(100)
@given(case=strategies.cases(("order",)), seed=st.integers(0, 2**32 - 1))
def test_renumbering_problem_and_schedule_changes_no_time(case: tuple[Problem, Schedule], seed: int) -> None:
    problem, schedule = case
    assert schedule.order is not None
    new = np.random.default_rng(seed).permutation(problem.num_operators)
    assignment = np.empty_like(schedule.assignment)
    assignment[new] = schedule.assignment
    other = Schedule(assignment, order=[new[row] for row in schedule.order])
    before, after = simulate(problem, schedule), simulate(renumbered(problem, new), other)
    assert after.start[new].tolist() == before.start.tolist()
    assert after.makespan == before.makespan


@examples(60)
@given(problem=strategies.problems())
def test_cpgc_is_never_worse_than_its_starts(problem: Problem) -> None:
    for budget in (0, 500, 10_000):
        makespan = get("cpgc", budget=budget)(problem).makespan
        assert makespan <= heft(problem).makespan
        assert makespan <= single_device(problem).makespan


def test_cpgc_gets_better_with_its_budget() -> None:
    makespans = [get("cpgc", budget=budget)(textbook("topcuoglu")).makespan for budget in (0, 10_000)]
    assert makespans == [80.0, 76.0]


@given(problem=strategies.problems(allow_inf=False))
def test_single_device_is_the_least_sum(problem: Problem) -> None:
    assume(problem.num_operators > 1)
    schedule = single_device(problem)
    assert len(set(schedule.assignment.tolist())) == 1
    assert schedule.makespan == pytest.approx(problem.cost.sum(axis=0).min(), rel=1e-12)


def test_round_robin_deals_in_turn() -> None:
    problem = Problem.from_arrays([[1.0, 1.0, np.inf], [1.0] * 3, [np.inf, 1.0, 1.0], [1.0] * 3], [])
    assert get("round-robin")(problem).assignment.tolist() == [0, 1, 2, 0]
    assert get("round-robin")(Problem.from_arrays([[np.inf, 1.0], [1.0, 1.0]], [])).assignment.tolist() == [1, 0]


def test_random_placement_follows_its_seed() -> None:
    placements = {seed: get("random", seed=seed)(large()).assignment.tolist() for seed in (0, 1)}
    assert placements[0] != placements[1]
    assert get("random")(large()).assignment.tolist() == placements[0]
    counts = np.bincount(placements[0], minlength=8)
    assert counts.min() > 80  # 125 expected


def test_options_change_what_they_say() -> None:
    gap = Problem.from_arrays([[1.0, 9.0], [9.0, 1.0], [4.0, 9.0], [2.0, 9.0]], [(0, 1, 1.0), (1, 2, 1.0)])
    assert get("heft")(gap).start.tolist() == [0.0, 2.0, 4.0, 1.0]
    assert get("heft", insertion=False)(gap).start.tolist() == [0.0, 2.0, 4.0, 8.0]
    problem = textbook("topcuoglu")
    assert get("donf", communication="classic")(problem).makespan == get("donf-classic")(problem).makespan
    assert get("graham", order=[0, 5, 4, 3, 2, 1, 6, 7, 8, 9])(problem).assignment.tolist() != (
        get("graham")(problem).assignment.tolist()
    )


def test_unknown_names_and_options() -> None:
    with pytest.raises(ConfigError, match="scheduler 'heft' has no option 'insert'; did you mean 'insertion'"):
        get("heft", insert=True)
    with pytest.raises(ConfigError, match="scheduler 'pets' has no option 'seed'; known: runtime"):
        get("pets", seed=1)
    with pytest.raises(ConfigError, match="budget is -1"):
        get("cpgc", budget=-1)(textbook("topcuoglu"))
    with pytest.raises(ConfigError, match="must list each of the operators 0..9 once"):
        get("graham", order=[0, 1])(textbook("topcuoglu"))
    with pytest.raises(UnknownName, match="unknown communication model 'link'; did you mean 'link-wait'"):
        get("donf", communication="link")(textbook("topcuoglu"))


ODD = ("x", -1, float("nan"), float("inf"), 10**400, [1], {}, object(), 1.5, None, True, b"x")


@pytest.mark.parametrize("name", names())
def test_an_odd_option_is_taken_or_refused_in_one_sentence(name: str) -> None:
    """Values of other types, NaN, and numbers outside every range."""
    problem = textbook("topcuoglu")
    row = get(name)
    refused = 0
    options = {} if not row.available else dict(list(inspect.signature(row.function).parameters.items())[1:])
    others = {"budget": 20_000} if "budget" in options else {}  # what is taken runs
    for option, value in itertools.product(options, ODD):
        try:
            get(name, **{**others, option: value})(problem)
        except (ConfigError, UnknownName) as error:
            assert "\n" not in str(error) and len(str(error)) < 400
            refused += 1
    assert refused >= 6 * len(options)


def scaled(problem: Problem, factor: float) -> Problem:
    """The same problem in another unit of time."""
    edges = zip(problem.edge_source, problem.edge_target, problem.edge_bytes, strict=True)
    return Problem.from_arrays(
        problem.cost * factor,
        [(int(i), int(j), float(size)) for i, j, size in edges],
        problem.latency * factor,
        problem.bandwidth / factor,
        tensors=problem.edge_tensor.tolist(),
    )


def in_general_position(seed: int) -> Problem:
    """Ten to thirty operators whose times are all different, some of them bound to some devices."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(10, 31)), int(rng.integers(2, 5))
    cost = rng.uniform(0.5, 9.0, (n, d))
    bound = rng.random((n, d)) < rng.choice([0.0, 0.2])
    bound[np.arange(n), rng.integers(d, size=n)] = False
    density = rng.choice([0.05, 0.15, 0.4])
    edges = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < density]
    return Problem.from_arrays(
        np.where(bound, np.inf, cost),
        [(i, j, float(rng.uniform(0.0, 9.0))) for i, j in edges],
        rng.uniform(0.0, 2.0, (d, d)),
        rng.uniform(0.5, 3.0, (d, d)),
    )


def assert_independent_of_the_unit(scheduler: Baseline, seed: int, units: tuple[float, ...]) -> None:
    problem = in_general_position(seed)
    first, *others = [scheduler(scaled(problem, unit)) for unit in (1.0, *units)]
    for unit, other in zip(units, others, strict=True):
        assert other.assignment.tolist() == first.assignment.tolist(), (seed, unit)
        assert [row.tolist() for row in other.order] == [row.tolist() for row in first.order], (seed, unit)


UNIT_DEPENDENT = {
    "dispatch": "roll-outs of the environment break ties of finishes by rounding",
    **dict.fromkeys(
        ("place-v2", "place-v2-search", "portfolio"),
        "temperatures fall with launches in trials, and rounding can end the price of a change a few launches later",
    ),
    "planned-dispatch": "as dispatch, and changes of its plan are accepted by comparisons that rounding can turn",
}
"""Schedulers whose result may change with a unit of time that is no power of two, and why."""


@pytest.mark.parametrize("first", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3))])
@pytest.mark.parametrize("name", FAST)
def test_the_unit_of_time_does_not_matter(name: str, first: int) -> None:
    """Nothing is compared with a constant, and ties are not broken by rounding: 1/3000 rounds every time anew."""
    units = (2.0, 2.0**-20) if name in UNIT_DEPENDENT else (2.0, 2.0**-20, 1 / 3000)
    for seed in range(first, 8 if get(name).kind in ("search", "policy") else 40, 4):
        assert_independent_of_the_unit(brief(name), seed, units)


@pytest.mark.parametrize("first", [100, *(pytest.param(k, marks=pytest.mark.slow) for k in (101, 102, 103))])
@pytest.mark.parametrize("name", ["cpop", "hcpt", "cpgc", "cpgc-partition", "rand-heft", "lns"])
def test_the_unit_of_time_does_not_matter_where_sums_are_equal_up_to_rounding(name: str, first: int) -> None:
    """Schedulers that compare sums of the same times in different orders, on many small problems."""
    for seed in range(first, 160, 4):
        assert_independent_of_the_unit(brief(name), seed, (1 / 3000,))
