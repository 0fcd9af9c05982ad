"""DONF and its relatives against a plain-Python runtime loop, in all communication models."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import oracle
import pytest
import strategies
from effort import examples
from hypothesis import given

from hetgym import ConfigError, Problem, ProblemError, Schedule, UnknownName, validate
from hetgym.baselines import donf, donf_memory, get
from hetgym.planning.degrees import nested_out_degree, two_level_out_degree, weighted_out_degree
from hetgym.planning.pull_loop import COMMUNICATION
from hetgym.planning.ranks import upward_rank


def assert_equal(schedule: Schedule, plan: oracle.Plan) -> None:
    assert schedule.start is not None and schedule.finish is not None
    assert schedule.assignment.tolist() == plan.assignment
    assert schedule.start.tolist() == plan.start
    assert schedule.finish.tolist() == plan.finish


@pytest.mark.parametrize("model", COMMUNICATION)
@examples(150)
@given(problem=strategies.problems(max_operators=25))
def test_equals_oracle(model: str, problem: Problem) -> None:
    assert_equal(donf(problem, model), oracle.donf(problem, weighted_out_degree(problem).tolist(), model))
    assert_equal(donf(problem, model, "upward"), oracle.donf(problem, upward_rank(problem).tolist(), model))


VARIANTS = {
    "donf": ("degree", "aggregated"),
    "donf-w": ("degree", "link-wait"),
    "donf-l": ("degree", "light"),
    "donf-classic": ("degree", "classic"),
    "donf2": ("two-level", "aggregated"),
    "adon": ("nested", "aggregated"),
    "fifo-donf": ("none", "link-wait"),
}


def exact_degrees(problem: Problem, kind: str, alpha: Fraction = Fraction(1, 2)) -> list[Fraction]:
    """The priorities from their formulas, in exact arithmetic."""
    after = oracle.successors_of(problem)
    inputs = np.bincount(problem.edge_target, minlength=problem.num_operators).tolist()
    first = [sum((Fraction(1, inputs[e.target]) for e in row), Fraction(0)) for row in after]
    if kind == "none":
        return [Fraction(0)] * len(first)
    if kind == "degree":
        return first
    value = list(first)
    for i in reversed(oracle.kahn(problem)):
        source = value if kind == "nested" else first
        value[i] = first[i] + alpha * sum((source[e.target] for e in after[i]), Fraction(0))
    return value


@pytest.mark.parametrize("name", VARIANTS)
@examples(60)
@given(problem=strategies.problems(max_operators=20))
def test_variants_are_the_loop_with_other_priorities(name: str, problem: Problem) -> None:
    kind, model = VARIANTS[name]
    exact = exact_degrees(problem, kind)
    given_ = {"two-level": two_level_out_degree, "nested": nested_out_degree}
    if kind in given_:
        rounded = given_[kind](problem).tolist()
        for a in range(len(exact)):
            for b in range(a):
                if abs(exact[a] - exact[b]) > Fraction(1, 10**9):
                    assert (exact[a] > exact[b]) == (rounded[a] > rounded[b])
    else:
        rounded = weighted_out_degree(problem).tolist() if kind == "degree" else [0.0] * len(exact)
    assert_equal(get(name)(problem), oracle.donf(problem, rounded, model))


def layers(depth: int, width: int = 4) -> Problem:
    """Every operator of a layer reads all of the layer before."""
    n = depth * width
    edges = [(i, j, 1.0) for i in range(n - width) for j in range((i // width + 1) * width, (i // width + 2) * width)]
    return Problem.from_arrays(np.ones((n, 2)), edges)


def test_nested_degrees_keep_their_order_where_floats_end() -> None:
    """A layer's degree is above twice that of the next: 2 ** 2000 at the entries."""
    order = nested_out_degree(layers(2000))
    assert order.reshape(2000, 4).tolist() == [[1999.0 - k] * 4 for k in range(2000)]
    assert np.isfinite(order).all()


def test_alpha() -> None:
    problem = layers(3)
    assert two_level_out_degree(problem, 0.0).tolist() == weighted_out_degree(problem).tolist()
    assert two_level_out_degree(problem, 0.25).tolist() == [2.0] * 4 + [1.0] * 4 + [0.0] * 4
    for alpha in (-0.1, float("nan"), float("inf")):
        for priority in ("two-level", "nested"):
            with pytest.raises(ConfigError, match="alpha is .*; it must be a finite number, not negative"):
                donf(problem, priority=priority, alpha=alpha)


def test_unknown_options() -> None:
    with pytest.raises(UnknownName, match="unknown priority 'nestd'; did you mean 'nested'"):
        donf(layers(2), priority="nestd")
    with pytest.raises(UnknownName, match="unknown priority 'upwards'; did you mean 'upward'"):
        donf(layers(2), priority="upwards")
    with pytest.raises(UnknownName, match="unknown communication model 'lite'; did you mean 'light'"):
        donf(layers(2), "lite", "upward")


def test_beliefs_differ_in_what_they_say() -> None:
    """Two inputs of 4 on device 0 and 1 of 1: fetching is 8 as one message, 4 as the longer of two edges."""
    problem = Problem.from_arrays([[1.0, 9.0], [1.0, 9.0], [15.0, 7.0]], [(0, 2, 4.0), (1, 2, 4.0)], bandwidth=1.0)
    # Ready at 2. Staying: finish 17. Moving: 2 + 8 + 7 = 17 as it really is, 2 + 4 + 7 = 13 as believed edge by edge.
    assert donf(problem, "aggregated").assignment.tolist() == [0, 0, 0]
    for belief in ("per-edge", "light"):
        schedule = donf(problem, belief)
        assert schedule.assignment.tolist() == [0, 0, 1]
        assert schedule.finish is not None and schedule.finish[2] == 17.0


@examples(60)
@given(problem=strategies.problems())
def test_memory_without_limits_is_donf(problem: Problem) -> None:
    limited, plain = donf_memory(problem), donf(problem)
    assert limited.to_dict() == plain.to_dict()


def with_memory(problem: Problem, weights: np.ndarray, capacity: float) -> Problem:
    edges = list(zip(problem.edge_source, problem.edge_target, problem.edge_bytes, strict=True))
    return Problem.from_arrays(
        problem.cost,
        edges,
        problem.latency,
        problem.bandwidth,
        tensors=problem.edge_tensor.tolist(),
        weight_bytes=weights,
        memory_capacity=capacity,
    )


def peak(problem: Problem, schedule: Schedule) -> float:
    """Most bytes that any device holds: weights, and each output from its start to its last reader's finish."""
    assert schedule.start is not None and schedule.finish is not None
    used = []
    for now in schedule.start.tolist():
        held = np.zeros(problem.num_devices)
        for i in range(problem.num_operators):
            readers = problem.edge_target[problem.edge_source == i]
            until = schedule.finish[readers].max() if len(readers) else np.inf
            if schedule.start[i] <= now:
                held[schedule.assignment[i]] += problem.weight_bytes[i]
                if now < until:
                    held[schedule.assignment[i]] += problem.output_bytes[i]
        used.append(held.max())
    return max(used)


def test_memory_is_never_exceeded_and_binds() -> None:
    """Random problems at falling capacities: each is scheduled within them or refused by name."""
    rng = np.random.default_rng(3)
    tighter = refused = 0
    for _ in range(40):
        n = int(rng.integers(4, 20))
        edges = [(i, j, float(rng.integers(1, 9))) for j in range(n) for i in range(j) if rng.random() < 3 / n]
        base = Problem.from_arrays(rng.uniform(1, 5, (n, 3)), edges)
        weights = rng.integers(0, 5, n).astype(float)
        free = donf_memory(with_memory(base, weights, np.inf))
        top = peak(with_memory(base, weights, np.inf), free)
        for share in (1.0, 0.8, 0.6):
            problem = with_memory(base, weights, np.floor(share * top))
            try:
                schedule = donf_memory(problem)
            except ProblemError as error:
                assert "nothing is running that could free any" in str(error)
                refused += 1
                continue
            validate(problem, schedule)
            assert peak(problem, schedule) <= np.floor(share * top)
            tighter += schedule.makespan != free.makespan
    assert tighter > 20 and refused > 0


def test_memory_blocks_until_a_reader_frees_some() -> None:
    """Outputs of 4 in memories of 8: the third chain head waits for the first chain to end."""
    problem = Problem.from_arrays(
        [[2.0], [3.0], [2.0], [1.0], [1.0]],
        [(0, 3, 4.0), (1, 4, 4.0)],
        weight_bytes=[0, 0, 4, 0, 0],
        output_bytes=[4, 4, 0, 0, 0],
        memory_capacity=8.0,
    )
    schedule = donf_memory(problem)
    assert schedule.start is not None
    # 0 and 1 are committed at once; at 2 reader 3 is, behind 1; at 6 it has finished and frees room for 2.
    assert schedule.start.tolist() == [0.0, 2.0, 7.0, 5.0, 6.0]
    assert donf(problem).start.tolist() == [0.0, 2.0, 5.0, 7.0, 8.0]


def test_memory_that_cannot_suffice_is_named() -> None:
    problem = Problem.from_arrays(
        [[1.0, 1.0], [1.0, np.inf]],
        [(0, 1, 2.0)],
        weight_bytes=[5.0, 7.0],
        memory_capacity=[6.0, 100.0],
        operator_names=["stem", "head"],
        device_names=["small", "large"],
        name="tight",
    )
    with pytest.raises(
        ProblemError,
        match=r"problem 'tight': donf-m found no memory for operator 1 \('head'\), which needs 7 bytes: of the devices "
        r"that can run it 'small' has most left, 6 of 6, and nothing is running that could free any",
    ):
        donf_memory(problem)


def test_where_memory_is_full_what_frees_most_goes_first() -> None:
    """Operator 2 fits on no device; of those that fit, 5 reads an output that nobody else reads any more."""
    inf = np.inf
    cost = [[1.0, inf], [inf, 1.0]] + [[1.0, 1.0]] * 7
    reads = [(0, 2), (0, 3), (0, 4), (1, 5), (2, 6), (2, 7), (3, 8), (4, 8)]
    problem = Problem.from_arrays(
        cost,
        [(i, j, 0.0) for i, j in reads],
        output_bytes=[4.0, 4.0, 4.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0],
        memory_capacity=[6.0, 6.0],
    )
    schedule = donf_memory(problem)
    assert schedule.start is not None
    assert schedule.start[[5, 3]].tolist() == [1.0, 1.0]  # 3 is more urgent than 4 and 5
    assert schedule.start[4] > 1.0
    validate(problem, schedule)
