"""Arguments: one dataclass for each environment at every entry point, and one sentence for every invalid value."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import gymnasium as gym
import pytest

from hetgym.envs import ENVIRONMENTS
from hetgym.envs.core.autoreset import make_lanes
from hetgym.envs.registration import arguments_of, environment_of
from hetgym.errors import ConfigError
from hetgym.pipeline.objective import Objective

IDS = sorted(ENVIRONMENTS)


def vector_class(name: str) -> Any:
    spec = gym.spec(name)
    assert isinstance(spec.vector_entry_point, str)
    return gym.envs.registration.load_env_creator(spec.vector_entry_point)


@pytest.mark.parametrize("name", IDS)
def test_constructors_show_the_fields_of_the_dataclass(name: str) -> None:
    fields = {field.name: field for field in dataclasses.fields(arguments_of(name))}
    for door, more in (
        (environment_of(name), {"render_mode"}),
        (vector_class(name), {"num_envs", "autoreset_mode", "copy", "render_mode"}),
    ):
        parameters = inspect.signature(door).parameters
        assert set(parameters) == set(fields) | more
        for key, field in fields.items():
            assert parameters[key].default == field.default
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
        with pytest.raises(ConfigError, match="did you mean 'observation'"):
            make(obsevation="flat")
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
