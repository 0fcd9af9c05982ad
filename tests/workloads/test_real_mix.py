"""Draws of real networks."""

from __future__ import annotations

import numpy as np
import pytest

from hetgym import load_graph
from hetgym.errors import ProblemError
from hetgym.graph import zoo
from hetgym.workloads import RealMix
from hetgym.workloads.real_mix import NETWORKS, PLATFORMS

SMALL = RealMix(networks=("squeezenet", "zfnet512"), platforms=("cpu-gpu", "cpu-gpu-npu"), batches=(1, 4))


def test_same_generator_same_problem():
    first, second = (SMALL(np.random.default_rng(3)) for _ in range(2))
    assert first.digest == second.digest
    assert first.digest != SMALL(np.random.default_rng(4)).digest


def test_a_draw_is_a_network_on_other_devices():
    mix = RealMix(networks=("squeezenet",), platforms=("cpu-gpu",), batches=(1,), transforms=("",))
    plain = RealMix(mix.networks, mix.platforms, mix.batches, mix.transforms, spread=0.0)(np.random.default_rng(0))
    drawn = mix(np.random.default_rng(0))
    np.testing.assert_array_equal(drawn.edge_bytes, plain.edge_bytes)
    assert drawn.operator_names == plain.operator_names
    some = (plain.cost > 0).all(axis=1)
    factor = np.log(drawn.cost[some] / plain.cost[some])
    assert 0 < factor.std() < 1.5 and (factor.std(axis=0) < 0.2).all()


def test_covers_what_it_is_made_of():
    names = {SMALL(np.random.default_rng(k)).name for k in range(40)}
    assert {name.partition("@")[2] for name in names} == {"cpu-gpu", "cpu-gpu-npu"}
    assert any("training" in name for name in names) and any("-b4" in name for name in names)


def test_stays_within_its_size():
    mix = RealMix(networks=("squeezenet",), platforms=("cpu-gpu",), batches=(1,), most=70)
    assert all(mix(np.random.default_rng(k)).num_operators <= 70 for k in range(10))
    with pytest.raises(ProblemError, match="at most 3"):
        RealMix(networks=("squeezenet",), most=3)(np.random.default_rng(0))


def test_the_default_networks_are_the_zoo_up_to_its_size():
    assert set(NETWORKS) == {name for name in zoo.names() if len(load_graph(name)) <= 450} - {"gpt2"}
    assert list(PLATFORMS) == sorted(PLATFORMS)


@pytest.mark.parametrize("wrong", [{"networks": ()}, {"batches": ()}, {"spread": -1.0}])
def test_refuses(wrong):
    with pytest.raises(ProblemError):
        RealMix(**wrong)
