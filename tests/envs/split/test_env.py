"""Bad arguments of HetSplit-v0."""

from __future__ import annotations

import math

import pytest

import hetgym
from hetgym.envs import (
    HetSplitEnv,
)
from hetgym.envs.split.networks import RandomNetworks


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward": "dens"}, "did you mean 'dense'"),
        ({"observation": "grap"}, "did you mean 'graph'"),
        ({"scheduler": "hetf"}, "or 'heft'"),
        ({"runtime": "clasic"}, "did you mean 'classic'"),
        ({"runtime": hetgym.Runtime(memory="enforce")}, "use memory='mask'"),
        ({"memory": "msk"}, "did you mean 'mask'"),
        ({"costs": "rofline"}, "did you mean 'roofline'"),
        ({"axes": ["bach"]}, "did you mean 'batch'"),
        ({"axes": "batch"}, "expected a list"),
        ({"axes": []}, "expected a list"),
        ({"parts": ["equal", "equal"]}, "different names"),
        ({"parts": ["even"]}, "unknown parts 'even'"),
        ({"ways": 1}, "ways is 1"),
        ({"ways": []}, r"ways is \[\]"),
        ({"ways": [2, 1]}, "whole numbers of at least 2"),
        ({"ways": [2, 2]}, "repeated"),
        ({"ways": "all"}, "ways is 'all'"),
        ({"key_operators": 0}, "key_operators is 0"),
        ({"key_operators": 1.5}, "key_operators is 1.5"),
        ({"multiple": 0}, "multiple is 0"),
        ({"granularity": math.nan}, "granularity is nan"),
        ({"granularity": 1.0}, "from 0 to below 1"),
        ({"graph": "alexnet"}, "give both"),
        ({"graph": "alexnett", "platform": "cpu-gpu"}, "did you mean 'alexnet'"),
        ({"graph": "alexnet", "platform": "cpu-gpuu"}, "did you mean 'cpu-gpu'"),
        ({"graph": [], "platform": "cpu-gpu"}, "list is empty"),
        ({"graph": 3, "platform": "cpu-gpu"}, "got int"),
        ({"graph": "alexnet", "platform": "cpu-gpu", "generator": RandomNetworks()}, "one source"),
        ({"generator": "layered"}, "expected callable"),
        ({"generator": RandomNetworks()}, "pass max_operators"),
        ({"max_operators": 0}, "positive whole number"),
    ],
)
def test_bad_arguments_get_one_sentence(arguments: dict, message: str) -> None:
    with pytest.raises(hetgym.HetgymError, match=message) as caught:
        HetSplitEnv(**arguments)
    assert "\n" not in str(caught.value)
