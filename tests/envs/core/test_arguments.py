"""Arguments: one dataclass for each environment at every entry point, and one sentence for every invalid value."""

from __future__ import annotations

import dataclasses
import inspect
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from hetgym.envs import ENVIRONMENTS
from hetgym.envs.core.autoreset import make_lanes
from hetgym.envs.core.registry import arguments_of, environment_of
from hetgym.errors import ConfigError, HetgymError
from hetgym.pipeline.objective import Objective

IDS = sorted(ENVIRONMENTS)


FIELDS = [(name, field.name) for name in IDS for field in dataclasses.fields(arguments_of(name))]


class Nasty:
    """An object whose own representation fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


ODD: list[Any] = [
    10**400, -1, 0, 1.5, math.nan, math.inf, True, "", "x" * 5000, b"bytes", [], [None], {}, {"a": 1}, (), object(),
    Nasty(), np.zeros(3), np.float64(-2.0), Path("/nowhere"), lambda: 3, 2**63,
]  # fmt: skip


def vector_class(name: str) -> Any:
    spec = gym.spec(name)
    assert isinstance(spec.vector_entry_point, str)
    return gym.envs.registration.load_env_creator(spec.vector_entry_point)


@pytest.mark.parametrize("name", IDS)
def test_constructors_show_the_fields_of_the_dataclass(name: str) -> None:
    fields = {field.name: field for field in dataclasses.fields(arguments_of(name))}
    for door, more, pool in (
        (environment_of(name), {"render_mode"}, None),
        (vector_class(name), {"num_envs", "autoreset_mode", "copy", "render_mode"}, 256),
    ):
        parameters = inspect.signature(door).parameters
        assert set(parameters) == set(fields) | more
        for key, field in fields.items():
            assert parameters[key].default == (pool if key == "pool" else field.default)
            assert parameters[key].annotation is not Any and not isinstance(parameters[key].annotation, str)
            assert parameters[key].kind is not inspect.Parameter.VAR_KEYWORD
    first = next(iter(inspect.signature(environment_of(name)).parameters))
    assert first == ("graph" if name == "HetSplit-v0" else "problem")
    assert first in (help_text := inspect.getdoc(environment_of(name)) or "")
    assert all(f"{key}" in help_text for key in fields)


@pytest.mark.parametrize("name", IDS)
def test_arguments_are_frozen_values(name: str) -> None:
    one, two = arguments_of(name)(observation="flat"), arguments_of(name)(observation="flat")
    assert one == two and hash(one) == hash(two)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.observation = "graph"


def test_rules_of_pipelines_default_to_the_objectives() -> None:
    rules = arguments_of("HetPipeline-v0")()
    for field in dataclasses.fields(Objective):
        assert getattr(rules, field.name) == field.default


@pytest.mark.parametrize("name", IDS)
def test_an_unknown_argument_gets_the_nearest_name(name: str) -> None:
    for make in (
        lambda **a: gym.make(name, **a),
        lambda **a: gym.make_vec(name, **a),
        lambda **a: make_lanes(name, 1, **a),
    ):
        with pytest.raises(ConfigError, match="did you mean 'observation'[?]$") as refused:
            make(obsevation="flat")
        assert isinstance(refused.value, TypeError) and "unexpected keyword argument 'obsevation'" in str(refused.value)
    with pytest.raises(ConfigError, match="too many positional"):
        environment_of(name)(None, None, None)


@pytest.mark.parametrize("name", IDS)
def test_lanes_are_made_of_arguments_as_one_value(name: str) -> None:
    arguments = arguments_of(name)(observation="candidates")
    assert make_lanes(arguments, 2).observation_space == make_lanes(name, 2, observation="candidates").observation_space
    with pytest.raises(ConfigError, match="is complete"):
        make_lanes(arguments, 2, observation="flat")
    with pytest.raises(ConfigError, match="number of lanes is 0"):
        make_lanes(arguments, 0)


def a_sentence(error: HetgymError) -> bool:
    """One line of moderate length."""
    text = str(error)
    return 10 < len(text) < 700 and "\n" not in text


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_odd_values_are_taken_or_refused_in_one_sentence(name: str, field: str) -> None:
    refused = 0
    for value in ODD:
        try:
            arguments_of(name)(**{field: value}).lanes(1)
        except HetgymError as error:
            assert a_sentence(error), value
            refused += 1
        except MemoryError:
            pytest.fail(f"{field}={value!r} needs endless memory")
    assert refused >= len(ODD) // 2


@pytest.mark.parametrize("name", IDS)
def test_odd_values_of_the_doors_are_refused_in_one_sentence(name: str) -> None:
    for key in ("num_envs", "autoreset_mode", "copy", "render_mode"):
        for value in ODD:
            taken = (key == "copy" and value is True) or (key == "num_envs" and value is True)
            try:
                gym.make_vec(name, **({"num_envs": 1} | {key: value}))
            except HetgymError as error:
                assert a_sentence(error)
            else:
                assert taken, (key, value)


@pytest.mark.parametrize("name", IDS)
def test_odd_resets_are_refused_in_one_sentence(name: str) -> None:
    env, envs = environment_of(name)(), gym.make_vec(name, num_envs=1)
    env.reset(seed=0)
    known = ["problem", "graph", "platform", "order", "conditions", "reset_mask", "colour"]
    for value in ODD:
        for reset in (env.reset, envs.reset):
            fine = isinstance(value, int) and value is not True and value >= 0
            if not fine and not (isinstance(value, list) and value == [None]):
                with pytest.raises(HetgymError) as caught:
                    reset(seed=value)
                assert a_sentence(caught.value)
            if not isinstance(value, dict) or value:
                with pytest.raises(HetgymError) as caught:
                    reset(options=value)
                assert a_sentence(caught.value)
            for key in known:
                try:
                    reset(options={key: value})
                except HetgymError as error:
                    assert a_sentence(error)
                else:
                    assert key == "conditions" and value in (0, 2**63)
