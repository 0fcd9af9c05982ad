from __future__ import annotations

import numpy as np
import pytest

from hetgym import ProblemError, UnknownName
from hetgym.baselines import get
from hetgym.workloads.tiled_mix import TIMES, TiledMix


def draw(**arguments):
    return TiledMix(**arguments)(np.random.default_rng(0))


@pytest.mark.parametrize("name", TIMES)
def test_kernels_have_the_published_times(name):
    problem = draw(factorisations=(name,), tiles=(3, 3), cpus=1, gpus=2)
    assert problem.name == f"{name}-3@1cpu-2gpu" and problem.num_devices == 3
    for kind, cost in zip(problem.operator_kinds, problem.cost, strict=True):
        cpu, gpu = TIMES[name][kind]
        assert cost == pytest.approx([cpu / 1e3, gpu / 1e3, gpu / 1e3])
    assert set(problem.operator_kinds) == set(TIMES[name])
    assert not problem.mean_communication.any()


def test_the_textbook_value_on_one_gpu():
    """A single GPU runs one task after the other."""
    problem = draw(factorisations=("cholesky",), tiles=(2, 2), cpus=0, gpus=1)
    assert get("heft")(problem).makespan == pytest.approx((2 * 11 + 8 + 2) / 1e3)


def test_draws_vary_and_stay_within_the_range():
    rng, mix = np.random.default_rng(1), TiledMix(tiles=(2, 3))
    names = {mix(rng).name.partition("@")[0] for _ in range(60)}
    assert names == {f"{name}-{tiles}" for name in TIMES for tiles in (2, 3)}


def test_bad_arguments():
    with pytest.raises(UnknownName, match="unknown factorisation 'cholseky'; did you mean 'cholesky'"):
        TiledMix(("cholseky",))
    for wrong in ({"factorisations": ()}, {"tiles": (3, 2)}, {"tiles": (0, 2)}, {"cpus": 0, "gpus": 0}, {"gpus": -1}):
        with pytest.raises(ProblemError, match="holds no problem"):
            TiledMix(**wrong)
