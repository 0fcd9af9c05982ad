"""Online runs: against a plain-Python reference, against runs of fixed orders, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle_online
import pytest
import strategies
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from hetgym import ConfigError, InvalidSchedule, OutOfMemory, Problem, Runtime, simulate, validate
from hetgym.schedule import Schedule
from hetgym.sim import PRESETS, Loss, OnlineSimulation, SlowDown, online
from hetgym.workloads import textbook

RUNTIMES = st.builds(
    Runtime,
    communication=st.sampled_from(["free", "fifo", "endpoint"]),
    transfers=st.sampled_from(["per_edge", "cached", "aggregated"]),
    dispatch=st.sampled_from([0.0, 0.5, 3.0]),
    streams=st.sampled_from([1, 1, 2, 3]),
    overlap=st.sampled_from([0.0, 0.25]),
    noise=st.sampled_from([0.0, 0.3]),
)
CACHED_LINKS = Runtime(communication="fifo", transfers="cached")
MOMENTS = st.sampled_from([0.0, 1.0, 2.5, 4.0, 10.0, 20.0, 50.0])


class Dice:
    """Decides at random, and records the situations."""

    def __init__(self, problem: Problem, seed: int, patience: float) -> None:
        self.rng, self.cost, self.patience = np.random.default_rng(seed), problem.cost, patience
        self.asked: list[tuple[float, tuple[int, ...]]] = []

    def __call__(self, situation: Any) -> tuple[int, int] | None:
        ready = [int(i) for i in situation.ready]
        self.asked.append((situation.now, tuple(ready)))
        busy = sum(len(row) if isinstance(row, list) else row for row in situation.running)
        if busy and self.rng.random() < self.patience:
            return None
        operator = ready[self.rng.integers(len(ready))]
        able = [d for d, there in enumerate(situation.alive) if there and np.isfinite(self.cost[operator, d])]
        return operator, able[self.rng.integers(len(able))]


@settings(max_examples=150)
@given(data=st.data(), problem=strategies.problems(max_operators=12), runtime=RUNTIMES)
def test_equals_the_reference_to_the_last_bit(data: st.DataObject, problem: Problem, runtime: Runtime) -> None:
    """Devices that are lost leave one that can run everything."""
    n, d = problem.num_operators, problem.num_devices
    release = data.draw(st.lists(MOMENTS, min_size=n, max_size=n) | st.just([0.0] * n))
    device = st.integers(0, d - 1)
    changes: list[Any] = data.draw(
        st.lists(st.builds(SlowDown, device, MOMENTS, st.sampled_from([0.5, 1.0, 3.0])), max_size=3)
    )
    able = [k for k in range(d) if np.isfinite(problem.cost[:, k]).all()]
    if able:
        mortal = [k for k in range(d) if k != able[0]]
        changes += data.draw(st.lists(st.builds(Loss, st.sampled_from(mortal), MOMENTS), max_size=2)) if mortal else []
    seed, patience = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.sampled_from([0.0, 0.5]))
    dice, plain_dice = Dice(problem, seed, patience), Dice(problem, seed, patience)
    trace = online(problem, dice, runtime, release, changes)
    plain = oracle_online.online(problem, plain_dice, runtime, release, changes)
    assert dice.asked == plain_dice.asked
    assert trace.assignment.tolist() == [plain.on[i] for i in range(n)]
    for name in ("start", "finish", "sent", "arrived"):
        assert getattr(trace, name).tolist() == getattr(plain, name), name


def follow(schedule: Schedule) -> Any:
    """Commits what is next in a schedule's device orders as soon as it is ready."""
    assert schedule.order is not None
    rows = [row.tolist() for row in schedule.order]

    def decide(situation: Any) -> tuple[int, int] | None:
        ready = set(situation.ready.tolist())
        for device, row in enumerate(rows):
            if row and row[0] in ready:
                return row.pop(0), device
        return None

    return decide


@examples(150)
@given(
    case=strategies.cases(("order",)),
    communication=st.sampled_from(["free", "fifo", "fair", "endpoint"]),
    noise=st.sampled_from([0.0, 0.3]),
)
def test_following_a_schedule_is_running_it(case: tuple[Problem, Schedule], communication: str, noise: float) -> None:
    """Runs with fixed orders whose inputs are pulled at their reader's turn equal online runs."""
    problem, schedule = case
    runtime = Runtime(communication=communication, transfers="aggregated", noise=noise)
    there, here = simulate(problem, schedule, runtime), online(problem, follow(schedule), runtime)
    assert np.array_equal(there.start, here.start)
    assert np.array_equal(there.finish, here.finish)
    assert np.array_equal(there.arrived[there.remote], here.arrived[there.remote])


def earliest_finish(situation: Any) -> tuple[int, int]:
    """The first ready operator, where it would finish first."""
    operator = int(situation.ready[0])
    return operator, int(situation.estimate(operator).finish.argmin())


@pytest.mark.parametrize("switches", [*PRESETS.values(), Runtime(communication="fair", transfers="cached")], ids=str)
def test_every_runtime(switches: Runtime) -> None:
    problem = textbook("arabnejad-barbosa")
    trace = online(problem, earliest_finish, switches)
    source, target = problem.edge_source, problem.edge_target
    assert (trace.sent >= trace.finish[source]).all()
    assert (trace.arrived >= trace.sent).all()
    assert (trace.start[target] >= trace.arrived).all()
    alone = problem.cost[np.arange(10), trace.assignment]
    if switches.streams == 1:
        assert trace.finish - trace.start == pytest.approx(alone)
    assert (trace.finish - trace.start >= alone * (1 - 1e-12)).all()
    if switches.communication == "free":
        validate(problem, Schedule(trace.assignment, start=trace.start, finish=trace.finish))


@given(case=strategies.cases(("order",)), moment=MOMENTS, data=st.data())
def test_a_slower_device_never_shortens_what_is_decided(
    case: tuple[Problem, Schedule], moment: float, data: st.DataObject
) -> None:
    problem, schedule = case
    slower = SlowDown(data.draw(st.integers(0, problem.num_devices - 1)), moment, 3.0)
    undisturbed = online(problem, follow(schedule)).makespan
    assert online(problem, follow(schedule), changes=[slower]).makespan >= undisturbed * (1 - 1e-12)


def test_estimates_come_true_where_nothing_is_in_the_way() -> None:
    problem = Problem.from_arrays([[2.0, 5.0], [4.0, 1.0]], [(0, 1, 6.0)], latency=1.0, bandwidth=2.0)
    run = OnlineSimulation(problem, "links")
    guess = run.estimate(0)
    assert guess.finish.tolist() == [2.0, 5.0]
    run.commit(0, 0)
    guess = run.estimate(1)
    assert guess.arrival.tolist() == [2.0, 6.0]
    assert guess.finish.tolist() == [6.0, 7.0]
    run.commit(1, 1)
    assert run.over
    assert run.trace().finish.tolist() == [2.0, 7.0]


def test_what_was_made_on_a_lost_device_is_made_again() -> None:
    """0 and 1 run on device 0, which is lost before 2 has fetched from it; 3 never needed it."""
    problem = Problem.from_arrays([[2.0, 3.0]] * 3 + [[9.0, 9.0]], [(0, 1, 1.0), (1, 2, 1.0)])
    home = {0: 0, 1: 0, 2: 1, 3: 1}

    def decide(situation: Any) -> tuple[int, int]:
        operator = int(situation.ready[0])
        return operator, home[operator] if situation.alive[home[operator]] else 1

    trace = online(problem, decide, changes=[Loss(0, 4.5)])
    assert trace.assignment.tolist() == [1, 1, 1, 1]
    assert trace.start.tolist() == [9.0, 12.0, 15.0, 0.0]


def test_a_late_job_is_not_known_before() -> None:
    problem = Problem.from_arrays([[1.0], [1.0]], [])
    seen: list[tuple[float, list[int]]] = []

    def decide(situation: Any) -> tuple[int, int]:
        seen.append((situation.now, situation.ready.tolist()))
        return int(situation.ready[0]), 0

    assert online(problem, decide, release=[0.0, 5.0]).start.tolist() == [0.0, 5.0]
    assert seen == [(0.0, [0]), (5.0, [1])]


SMALL = Problem.from_arrays([[1.0, 2.0], [np.inf, 3.0]], [(0, 1, 1.0)])


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (lambda _: (1, 1), "operator 1 is not ready; ready: \\[0\\]"),
        (lambda _: (7, 1), "operator 7 is not ready"),
        (lambda _: (0, 2), "operator 0 .* to device 2, which does not exist$"),
        (lambda s: (s.ready[0], 0), "operator 1 .* to device 0, which cannot run it"),
        (lambda _: None, "waits at 0 s, but nothing runs"),
        (lambda _: 3, "a decision is \\(operator, device\\) or None, not 3"),
    ],
)
def test_bad_decisions(decide: Any, message: str) -> None:
    with pytest.raises(InvalidSchedule, match=message):
        online(SMALL, decide)


def test_a_lost_device_takes_nothing() -> None:
    with pytest.raises(InvalidSchedule, match="to device 0, which does not exist any more"):
        online(SMALL, lambda s: (int(s.ready[0]), 0), changes=[Loss(0, 0.0)])
    with pytest.raises(InvalidSchedule, match="no device is left that can run operator 1"):
        online(SMALL, lambda s: (int(s.ready[0]), 0), changes=[Loss(1, 0.5)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"release": [0.0]}, "one finite time"),
        ({"release": [0.0, -1.0]}, "not negative"),
        ({"release": ["a", "b"]}, "not a list of numbers"),
        ({"changes": [3]}, "a change is a SlowDown or a Loss"),
        ({"changes": [Loss(2, 0.0)]}, "a device that does not exist"),
        ({"changes": [Loss(0, -1.0)]}, "a finite time"),
        ({"changes": [Loss(0, np.inf)]}, "a finite time"),
        ({"changes": [SlowDown(0, np.inf, 2.0)]}, "a finite time"),
        ({"changes": [SlowDown(0, np.nan, 2.0)]}, "a finite time"),
        ({"changes": [SlowDown(0, 1.0, np.inf)]}, "a positive finite factor"),
        ({"release": [0.0, np.inf]}, "one finite time"),
        ({"changes": [SlowDown(0, 1.0, 0.0)]}, "a positive finite factor"),
        ({"changes": [Loss(0, 1.0)], "runtime": "fair"}, "not simulated where transfers share links"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        OnlineSimulation(SMALL, **options)


def test_no_trace_before_the_end_and_none_beyond_memory() -> None:
    run = OnlineSimulation(SMALL)
    with pytest.raises(InvalidSchedule, match="2 operators have not run"):
        run.trace()
    tight = Problem.from_arrays([[1.0]], [], output_bytes=[10.0], memory_capacity=[5.0])
    with pytest.raises(OutOfMemory):
        online(tight, lambda s: (0, 0), Runtime(memory="enforce"))


def test_a_small_copy_does_not_serve_a_reader_of_more_bytes() -> None:
    """Operators 1 and 2 read 1 and 4 bytes of one tensor on device 1, over a link of 1 byte/s, from 1 s on."""
    cost = [[1.0, np.inf], [np.inf, 1.0], [np.inf, 1.0]]
    problem = Problem.from_arrays(cost, [(0, 1, 1.0), (0, 2, 4.0)], tensors=[0, 0])
    for orders, arrived in (([0, 1, 2], [2.0, 6.0]), ([0, 2, 1], [5.0, 5.0])):  # a large one serves both
        turn = iter(orders)
        trace = online(problem, lambda _, turn=turn: ((i := next(turn)), int(i > 0)), CACHED_LINKS)
        assert trace.arrived.tolist() == arrived


def test_estimates_count_what_is_queued_at_the_speed_of_the_device() -> None:
    """The device takes twice as long from 1 s on: operator 0 ends at 1 + 4 s, and operator 1 takes 6 s after it."""
    problem = Problem.from_arrays([[3.0], [3.0], [2.0]], [])
    run = OnlineSimulation(problem, changes=[SlowDown(0, 1.0, 2.0)])
    run.commit(0, 0)
    run.wait()
    assert (run.now, run.slowdown.tolist()) == (1.0, [2.0])
    run.commit(1, 0)
    assert run.queued.tolist() == [1] and run.running.tolist() == [1]
    guess = run.estimate(2)
    assert (guess.arrival[0], guess.start[0], guess.finish[0]) == (1.0, 11.0, 15.0)


def test_what_a_run_shows_are_copies() -> None:
    run = OnlineSimulation(Problem.from_arrays([[3.0], [3.0]], []), changes=[SlowDown(0, 50.0, 2.0)])
    run.commit(0, 0)
    for name in ("ready", "alive", "queued", "running", "slowdown"):
        shown = getattr(run, name)
        kept = shown.tolist()
        shown[:] = 1 - shown
        assert getattr(run, name).tolist() == kept, name
    guess = run.estimate(1)
    guess.finish[:] = -1.0
    run.estimate(1)
    assert guess.finish.tolist() == [-1.0]
