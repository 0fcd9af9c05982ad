from __future__ import annotations

import numpy as np
import pytest

from hetgym import ProblemError
from hetgym.graph.generators import generate_graph
from hetgym.workloads import on_uniform_machines
from hetgym.workloads.uniform_machines import BANDWIDTHS, SPEEDS

GRAPH = generate_graph("daggen", np.random.default_rng(0), tasks=60)


@pytest.mark.parametrize("ccr", [0.0, 0.2, 4.0])
def test_devices_differ_in_speed_alone_and_links_are_symmetric(ccr: float) -> None:
    problem = on_uniform_machines(GRAPH, 8, ccr, np.random.default_rng(1))
    ratio = problem.cost / problem.cost[:, :1]
    assert ratio == pytest.approx(np.broadcast_to(ratio[0], ratio.shape))
    assert problem.cost.max() / problem.cost[np.argmax(problem.cost[:, 0])].min() <= SPEEDS[1] / SPEEDS[0]
    assert (problem.bandwidth == problem.bandwidth.T).all()
    links = problem.bandwidth[np.triu_indices(8, 1)]
    assert BANDWIDTHS[0] <= links.min() < links.max() <= BANDWIDTHS[1]
    assert problem.mean_communication.mean() == pytest.approx(ccr * problem.mean_cost.mean())


def test_one_device_has_no_links() -> None:
    assert on_uniform_machines(GRAPH, 1, 1.0, np.random.default_rng(0)).num_devices == 1


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(ProblemError, match="devices is 0"):
        on_uniform_machines(GRAPH, 0, 1.0, np.random.default_rng(0))
    with pytest.raises(ProblemError, match="ccr"):
        on_uniform_machines(GRAPH, 2, -1.0, np.random.default_rng(0))
