"""Runtime: presets, names, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest

from hetgym import ConfigError, Problem, Runtime, Schedule, UnknownName, evaluate, simulate
from hetgym.sim import PRESETS, runtime
from hetgym.sim.runtime import runtime_name


def test_presets() -> None:
    assert runtime("classic") == Runtime() == PRESETS["classic"]
    assert runtime("links") == Runtime(communication="fifo")
    assert not runtime("classic").contention
    assert runtime("links").contention


@pytest.mark.parametrize("name", PRESETS)
def test_names_round_trip(name: str) -> None:
    assert runtime_name(runtime(name)) == name


def test_a_runtime_is_a_frozen_value() -> None:
    assert hash(Runtime()) == hash(Runtime())
    assert runtime(PRESETS["links"]) is PRESETS["links"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Runtime().communication = "fifo"  # type: ignore[misc]


def test_unknown_values_and_keys_are_refused() -> None:
    with pytest.raises(ConfigError, match="communication cannot be 'fife'; did you mean 'fifo'"):
        Runtime(communication="fife")
    with pytest.raises(TypeError, match="comunication"):
        Runtime(comunication="fifo")  # type: ignore[call-arg]


def test_unknown_preset() -> None:
    problem = Problem.from_arrays([[1.0]], [])
    with pytest.raises(UnknownName, match="unknown runtime 'clasic'; did you mean 'classic'"):
        simulate(problem, Schedule([0], order=[[0]]), "clasic")
    with pytest.raises(UnknownName, match="unknown runtime"):
        evaluate(problem, [[0]], "clasic")


def test_a_runtime_can_be_given_instead_of_a_name() -> None:
    problem = Problem.from_arrays([[1.0, 1.0]] * 3, [(0, 1, 2.0), (0, 2, 2.0)])
    schedule = Schedule([0, 1, 1], order=[[0], [1, 2]])
    by_value = simulate(problem, schedule, Runtime(communication="fifo"))
    assert by_value.runtime == "links"
    assert by_value.makespan == simulate(problem, schedule, "links").makespan == 6.0
    assert evaluate(problem, [[0, 1, 1]], Runtime(communication="fifo")).tolist() == [6.0]
