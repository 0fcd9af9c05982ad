"""Problems of generators with drawn parameters."""

from typing import Any

import numpy as np
import pytest

from hetgym.agents.training.curriculum import Part
from hetgym.errors import ConfigError, HetgymError
from hetgym.workloads.generated_mix import FAMILIES, GeneratedMix


def test_draws_lie_in_their_ranges_and_depend_on_the_seed_alone() -> None:
    mix = GeneratedMix()
    found = [mix(np.random.default_rng(seed)) for seed in range(60)]
    assert {problem.name.partition("-")[0] for problem in found} == set(FAMILIES)
    assert {problem.num_devices for problem in found} == {2, 3, 4, 6, 8}
    again = mix(np.random.default_rng(7))
    assert again.name == found[7].name and (again.cost == found[7].cost).all()
    for problem in found:
        ratio = problem.mean_communication.mean() / problem.mean_cost.mean()
        assert min(abs(ratio / ccr - 1) for ccr in mix.ccr) < 1e-9


def test_whole_bounds_give_whole_numbers() -> None:
    mix = GeneratedMix(families={"cholesky": {"tiles": (3, 5)}}, devices=(2,))
    assert {mix(np.random.default_rng(seed)).num_operators for seed in range(20)} == {10, 20, 35}


def test_recipes_name_families_and_ranges() -> None:
    part = Part("generated", 1, {"families": {"cholesky": {"tiles": [4, 4]}}, "devices": [2]})
    assert part.distribution()(np.random.default_rng(0)).num_operators == 20
    with pytest.raises(ConfigError, match="tiles"):
        Part("generated", 1, {"families": {"cholesky": {"tiles": 4}}})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"families": {"choleski": {}}}, "choleski"),
        ({"families": {}}, "holds no problem"),
        ({"devices": ()}, "holds no problem"),
        ({"families": {"cholesky": {"tiles": (5, 3)}}}, "the smaller first"),
        ({"families": {"cholesky": {"tils": (3, 5)}}}, "tils"),
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(HetgymError, match=message):
        GeneratedMix(**wrong)(np.random.default_rng(0))
