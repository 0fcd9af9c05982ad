"""The kernel of makespans against the definition, the simulator, and published times."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from pipeline_tools import slow_makespan

from hetgym import ConfigError, simulate
from hetgym.pipeline import SCHEDULES, FlowShop, Pass, makespan, orders, run
from hetgym.pipeline.evaluation import flow_table, last_finish, pass_table, schedule_table


@examples(150)
@given(
    name=st.sampled_from(sorted(SCHEDULES)),
    stages=st.integers(1, 5),
    groups=st.integers(1, 4),
    chunks=st.integers(1, 3),
    transfer=st.sampled_from([0.0, 0.3, 2.0]),
    zeros=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_schedules_to_the_last_bit(
    name: str, stages: int, groups: int, chunks: int, transfer: float, zeros: bool, seed: int
) -> None:
    """The kernel, the definition and the simulator agree on every schedule, with or without transfers."""
    rng = np.random.default_rng(seed)
    passes = orders(name, stages, stages * groups, chunks if name == "interleaved" else None)
    depth = chunks if name == "interleaved" else 1
    times = rng.uniform(0.1, 2.0, (3, depth, stages)) * (rng.random((3, depth, stages)) < (0.6 if zeros else 2.0))
    weight = times[2] if name == "zb-h1" else None
    found = makespan(passes, times[0], times[1], weight, transfer)
    moves = [transfer if stages > 1 else 0.0] * (depth * stages)

    def seconds(kind: str, batch: int, chunk: int) -> float:
        return float(times["FBW".index(kind), chunk // stages, chunk % stages])

    assert found == slow_makespan(passes, seconds, moves)
    assert found == run(passes, times[0], times[1], weight, transfer).makespan


@examples(150)
@given(
    jobs=st.integers(1, 8),
    stages=st.integers(1, 5),
    in_flight=st.sampled_from([None, 1, 2, 3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_flow_shops_to_the_last_bit(jobs: int, stages: int, in_flight: int | None, seed: int) -> None:
    """Jobs of different lengths, transfers, and few in flight: the kernel, the definition and the simulator agree."""
    rng = np.random.default_rng(seed)
    times, moves = rng.uniform(0.0, 2.0, (jobs, stages)), tuple(rng.uniform(0.0, 1.0, stages - 1).tolist())
    shop = FlowShop(tuple(range(stages)), (1,) * stages, times, moves, in_flight)
    passes = tuple(tuple(Pass("F", k) for k in range(jobs)) for _ in range(stages))
    expected = slow_makespan(passes, lambda _, batch, chunk: float(times[batch, chunk]), list(moves), in_flight)
    assert shop.makespan == expected == simulate(*shop.unroll()).makespan
    assert (flow_table(stages, jobs) == pass_table(passes)).all()


@given(st.permutations([(0, 1), (1, 0), (1, 1), (0, 0)]), st.integers(0, 2**32 - 1))
def test_any_order_of_passes(pairs: list[tuple[int, int]], seed: int) -> None:
    """Orders that nobody would take, with stages of different lengths; where passes wait in a circle it is refused."""
    rng = np.random.default_rng(seed)
    first = tuple(Pass("F" if kind == 0 else "B", batch) for kind, batch in pairs)
    last = tuple(Pass(kind, batch) for batch in (1, 0) for kind in "FB")
    times = rng.uniform(0.5, 2.0, (2, 2))
    position = {item: k for k, item in enumerate(first)}
    stuck = any(position[Pass("B", k)] < position[Pass("F", k)] for k in (0, 1))
    stuck = stuck or position[Pass("B", 0)] < position[Pass("F", 1)]  # stage 1 begins with micro-batch 1
    if stuck:
        with pytest.raises(ConfigError, match="wait for each other in a cycle"):
            makespan((first, last), times[0], times[1])
        return
    expected = slow_makespan((first, last), lambda kind, _, chunk: float(times["FB".index(kind), chunk]), [0.0, 0.0])
    assert makespan((first, last), times[0], times[1]) == expected == run((first, last), times[0], times[1]).makespan


def test_stages_may_run_fewer_passes() -> None:
    """A last stage that has no micro-batch 1, and a pass whose input is left out."""
    ragged = ((Pass("F", 0), Pass("F", 1)), (Pass("F", 0),))
    assert makespan(ragged, [1.0, 2.0], 1.0) == run(ragged, [1.0, 2.0], 1.0).makespan == 3.0
    assert pass_table(ragged)[1].tolist() == [[0, 0, 1], [-1, -1, -1]]
    with pytest.raises(ConfigError, match="left out"):
        makespan(((Pass("F", 0),), (Pass("F", 0), Pass("F", 1))), 1.0, 1.0)


def test_bad_numbers() -> None:
    with pytest.raises(ConfigError, match="transfer is -1.0"):
        makespan(orders("gpipe", 2, 2), 1.0, 1.0, transfer=-1.0)
    with pytest.raises(ConfigError, match="weight times are missing"):
        makespan(orders("zb-h1", 2, 2), 1.0, 1.0)
    with pytest.raises(ConfigError, match="forward must be one time or 2"):
        makespan(orders("gpipe", 2, 2), [1.0, 2.0, 3.0], 1.0)


def test_all_callers_share_one_specialisation() -> None:
    """Schedules, flow shops and cuts bring arrays of the same types, so that the kernel is compiled once."""
    script = (
        "import numpy as np; from hetgym.pipeline import *; from hetgym.pipeline.evaluation import _run_passes;"
        "makespan(orders('zb-h1', 2, 4), 1.0, 1.0, 1.0); makespan(orders('gpipe', 1, 1), [1], [1]);"
        "FlowShop((0, 1), (1, 1), np.ones((3, 2), np.int32, order='F'), (0,), 2).makespan;"
        "chain = PipelineProblem.chain(np.ones((4, 1)), [DeviceKind('gpu', 2)]);"
        "[cut_problem(chain, Objective(o, schedule=s)) for o in OBJECTIVES for s in SCHEDULES];"
        "print(len(_run_passes.signatures))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "1\n"


def test_tables_of_schedules_are_shared_and_read_only() -> None:
    table = schedule_table("interleaved", 2, 4, 2)
    assert table is schedule_table("interleaved", 2, 4, 2) and not table.flags.writeable
    assert table.shape == (2, 16, 3) and sorted(set(table[1, :, 2].tolist())) == [1, 3]
    for stages, batches in itertools.product((1, 2, 3), (1, 5)):
        one = last_finish(schedule_table("1f1b", stages, batches, 1), np.ones((2, 1, stages)), np.zeros(stages), 0)
        assert one == 2.0 * (batches + stages - 1)
