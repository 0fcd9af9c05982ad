"""PipeDream: replicated stages against all cuts and numbers of replicas."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from hetgym import ConfigError, ProblemError
from hetgym.baselines.pipeline import pipedream
from hetgym.pipeline import DeviceKind, PipelineProblem


def pipedream_by_enumeration(problem: PipelineProblem, bandwidth: float, add: bool) -> float:
    """All cuts of a chain into parts with replicas."""
    n, devices, best = problem.num_operators, problem.num_devices, math.inf
    for cuts in itertools.product([False, True], repeat=n - 1):
        bounds = [0, *(i + 1 for i, here in enumerate(cuts) if here), n]
        parts = list(itertools.pairwise(bounds))
        for replicas in itertools.product(range(1, devices + 1), repeat=len(parts)):
            if sum(replicas) > devices:
                continue
            worst = max((2 * float(problem.transfer[i - 1]) for i in bounds[1:-1]), default=0.0)
            for (i, j), r in zip(parts, replicas, strict=True):
                work, size = float(problem.cost[i:j, 0].sum()), float(problem.size[i:j].sum())
                exchange = 4 * (r - 1) * size / (r * bandwidth)
                stage = (work + exchange if add else max(work, exchange)) / r
                worst = max(worst, stage if size <= problem.kinds[0].memory else math.inf)
            best = min(best, worst)
    return best


@examples(40)
@given(n=st.integers(1, 5), devices=st.integers(1, 4), add=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_pipedream(n: int, devices: int, add: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    chain = PipelineProblem.chain(
        rng.integers(1, 9, (n, 1)),
        [DeviceKind("gpu", devices, memory=float(rng.integers(4, 30)))],
        transfer=rng.integers(0, 4, n),
        size=rng.integers(0, 4, n),
    )
    bandwidth = float(rng.choice([0.5, 2.0, math.inf]))
    best = pipedream_by_enumeration(chain, bandwidth, add)
    if best == math.inf:
        with pytest.raises(ProblemError, match="no cut fits"):
            pipedream(chain, bandwidth=bandwidth, add=add)
        return
    plan = pipedream(chain, bandwidth=bandwidth, add=add)
    assert plan.seconds == pytest.approx(best)
    assert [i for stage in plan.stages for i in stage.operators] == list(range(n))
    used = [device for stage in plan.stages for device in stage.devices]
    assert used == list(range(len(used))) and len(used) <= devices
    assert plan.in_flight == math.ceil(len(used) / len(plan.stages[0].devices))


def test_pipedream_replicates_what_does_not_split() -> None:
    chain = PipelineProblem.chain([[1.0], [9.0]], [DeviceKind("gpu", 4)], size=[0.0, 1.0])
    plan = pipedream(chain)
    assert plan.seconds == 2.5 and len(plan.stages) == 1 and plan.in_flight == 1
    assert pipedream(chain, bandwidth=0.25).seconds == 3.0  # three replicas of the second: max(9, 4 * 2 / 3 / 0.25) / 3
    assert pipedream(chain, bandwidth=0.25, add=True).seconds > 3.0
    for options, message in (({"kind": 3}, "kind is 3"), ({"bandwidth": 0.0}, "bandwidth is 0.0")):
        with pytest.raises(ConfigError, match=message):
            pipedream(chain, **options)


def test_pipedream_needs_a_kind_that_runs_everything() -> None:
    inf = math.inf
    kinds = [DeviceKind("cpu", 2), DeviceKind("gpu", 2)]
    chain = PipelineProblem.chain([[5.0, 1.0], [9.0, inf], [1.0, 1.0]], kinds)
    assert [stage.devices for stage in pipedream(chain).stages] == [(0, 1)]
    with pytest.raises(ProblemError, match=r"operator 'op1' cannot run on 'gpu'"):
        pipedream(chain, kind=1)
